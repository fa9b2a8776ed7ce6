#!/bin/sh
# Every attribute of the device, read and written right and wrong; tests/vm/abi compares two.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G timeout=150 progs=poke tools=mkswap,swapon,swapoff
#
# Prints lines of one form, so that the output of in-tree zram and of another module
# can be diffed: "name action value: result". Nothing in it depends on the allocator.
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
control=/sys/class/zram-control
d=/sys/block/zram0
long=$(printf '%0300d' 0)
page=$(printf '%05000d' 1)

say() { echo "== $*"; }
r()   { poke r "$d/$1"; }
# w NAME TEXT...: the same attribute, several texts.
w()   { _a=$1; shift; for _t; do poke w "$d/$_a" "$_t"; done; }
reset() { printf 1 >$d/reset; }
# started ALGORITHM PARAMS: what disksize then says.
started() { reset; w comp_algorithm "$1"; w algorithm_params "$2"; w disksize 16M; r comp_algorithm; r initstate; }
# In-tree zram lets zero bytes follow each list.
lists() { tr -d '\000' <$d/recomp_algorithm; }
# User-mode kernels are built with every option of zram; Debian's are not.
all_options() { grep -q 'User Mode Linux' /proc/cpuinfo; }

# The kernel's own lines would stand between ours; they are looked at in the end.
dmesg -c >/dev/null
dmesg -n 1
echo "guest: output"
say attributes and modes
for a in disksize initstate reset comp_algorithm algorithm_params recomp_algorithm recompress \
	mem_limit mem_used_max \
	compact idle backing_dev writeback writeback_limit writeback_limit_enable \
	writeback_batch_size \
	compressed_writeback io_stat mm_stat bd_stat debug_stat ro size removable range \
	ext_range; do
	poke m $d/$a
done
for a in hot_add hot_remove; do poke m $control/$a; done
poke m /sys/module/zram/parameters/num_devices
# And of whatever else there is.
for a in $d/* $d/queue/* $control/* /sys/module/zram/parameters/*; do
	[ ! -f "$a" ] || poke m "$a"
done
poke r /sys/module/zram/parameters/num_devices

say before there is a size
for a in disksize initstate comp_algorithm mem_limit mm_stat io_stat debug_stat size ro \
	removable range ext_range reset compact; do r $a; done
for q in logical_block_size physical_block_size minimum_io_size optimal_io_size \
	discard_granularity discard_max_bytes \
	discard_max_hw_bytes discard_zeroes_data write_zeroes_max_bytes write_same_max_bytes \
	rotational stable_writes add_random \
	nomerges fua write_cache dax chunk_sectors max_segments max_sectors_kb max_hw_sectors_kb \
	zoned virt_boundary_mask; do
	poke r $d/queue/$q
done
poke pread /dev/zram0 0 4096
poke pwrite /dev/zram0 0 4096 7
w initstate 1
w io_stat 1
w mm_stat 1
w debug_stat 1
w compact 1
w reset 1 0 2 abc '' -1 ' 1' '1
' "$long"
w mem_limit 0 64M 1 4095 4097 abc -1 '' 1G 1g 2T 18446744073709551615 18446744073709551616 16E 17E '12 M' 0x1000 010 "$long"
w mem_limit 0
w mem_used_max 0 1 abc '' -1 '0
'
w comp_algorithm nonesuch '' ' lzo' 'lzo ' 'lzo
' LZO lzo,lz4 "$long" "$page" lz4 lzo-rle
r comp_algorithm
w algorithm_params 'level=1' 'algo=lz4 level=3' 'algo=lz4 level=-5' 'algo=nonesuch level=1' \
	'level=abc' 'level=' 'junk' 'junk=1' \
	'priority=9 level=1' 'priority=-1' 'algo=lz4' '' 'algo=' 'level=99999999999' 'algo=zstd level=3' "$long" 'dict=/nonexistent' '
'
# A set that waits for its algorithm would be in the way now.
reset
w disksize 0 '' abc -1 0K K ' ' 1Mjunk '1 M' 99999999999999999999 "$long" "$page"
r disksize
r initstate

say sizes
for s in 1 4095 4096 4097 10K 1M 1m '64M
' 1G ' 2M' +3M 0x100000 010000000 5000000000; do
	w disksize "$s"
	r disksize
	r size
	r initstate
	reset
done
# Past what can be addressed: the in-tree module of 6.12 takes that as far as a kernel warning.
if is_ebb || [ "$(uname -r | cut -d. -f1)" -ge 7 ]; then
	w disksize 18446744073709551615 16E 8E 18446744073709547520
else
	echo "disksize write past the address range: not tried"
fi
r disksize
reset

say algorithms and their parameters
mkdir -p /tmp/d/folder
text_pages 4 >/tmp/d/text
text_pages 1 | head -c 7 >/tmp/d/short
text_pages 1 | head -c 8 >/tmp/d/word
text_pages 17 | head -c 65537 >/tmp/d/long
printf '\067\244\060\354 no dictionary' >/tmp/d/bad
: >/tmp/d/empty
for l in -2147483648 -131073 -131072 -2 -1 0 1 9 10 12 16 17 22 23 65537 2147483647; do
	for c in lzo-rle 842 lz4 lz4hc zstd deflate; do
		all_options || [ $c != 842 ] || continue
		started $c "level=$l"
	done
done
for b in -2147483648 -16 -15 -9 -8 0 8 9 15 16; do
	started deflate "deflate.winbits=$b"
	started deflate "algo=deflate level=9 deflate.winbits=$b"
	started zstd "deflate.winbits=$b"
done
for f in text short word bad; do
	for c in lzo-rle 842 lz4 lz4hc zstd deflate; do
		all_options || [ $c != 842 ] || continue
		started $c "dict=/tmp/d/$f"
	done
done
started lz4 "dict=/tmp/d/long"
started zstd "dict=/tmp/d/long level=3"
reset
w algorithm_params dict=/tmp/d/none dict=/tmp/d/folder dict=/tmp/d/empty dict=/dev/null dict= dict \
	'priority=0 dict=/tmp/d/text level=junk' 'dict="/tmp/d/text"'
if all_options; then
	reset
	r recomp_algorithm
	w recomp_algorithm '' ' ' algo 'algo=' lz4 algo=nonesuch 'priority=2' 'junk=1' "$long" "$page" "algo=$long" \
		'algo=zstd priority=0' 'algo=zstd priority=4' 'algo=zstd priority=-1' \
		'algo=zstd priority=x' \
		'algo=nonesuch priority=4' 'algo=zstd priority=99999999999' \
		'algo=zstd priority=' ' algo=zstd'
	lists
	w recomp_algorithm 'priority=3 algo=lz4 junk=2 level=x' 'algo=deflate algo=842' 'algo="lzo"' 'algo=zstd
'
	lists
	w algorithm_params 'priority=1 level=9' 'priority=3 algo=lz4 level=2' \
		'priority=2 level=1' 'priority=4 level=1' 'algo=lz4' \
		'algo=lz4 priority=0 level=1' 'priority=3 algo=zstd' 'algo=nonesuch priority=1'
	reset
	r recomp_algorithm
	r comp_algorithm
	w recomp_algorithm 'algo=zstd priority=2'
	w algorithm_params 'priority=2 level=23'
	w disksize 16M
	lists
	w recomp_algorithm 'algo=zstd priority=2' 'algo=lz4'
	w algorithm_params 'priority=1 level=99'
	w disksize 16M
	w recomp_algorithm 'algo=lz4 priority=2' algo=nonesuch 'algo=lz4 priority=9' "algo=$long" ''
	w algorithm_params 'priority=2 level=1' 'priority=9' 'algo=nonesuch' 'dict=/tmp/d/none'
	lists
	reset
	r recomp_algorithm
fi
reset
w disksize 64M

say once there is a size
w disksize 64M 0 abc ''
w comp_algorithm lz4 nonesuch
w algorithm_params 'algo=lzo level=1' junk
r comp_algorithm
r initstate
r mm_stat | awk '{ $4 = "used"; $6 = "peak"; print }'
r io_stat
r debug_stat
w compact 1 0 '' abc
w mem_limit 32M abc 0
w mem_used_max 0 7

say input and output
for c in lzo lzo-rle lz4 lz4hc zstd deflate 842; do
	reset
	w comp_algorithm $c || continue
	w disksize 16M
	poke pwrite /dev/zram0 0 4096 0 d
	poke pwrite /dev/zram0 4096 4096 165 d
	poke pwrite /dev/zram0 8192 4096 r d
	poke pwrite /dev/zram0 65536 262144 r d
	poke pwrite /dev/zram0 1048576 1048576 1 d
	poke pread /dev/zram0 0 4096 d
	poke pread /dev/zram0 4096 4096 d
	poke pread /dev/zram0 8192 4096 d
	poke pread /dev/zram0 65536 262144 d
	poke pread /dev/zram0 0 2097152 d
	poke pread /dev/zram0 12582912 4096 d
	# orig same huge huge_since: what the data is, not how it is kept
	awk '{ print "mm_stat orig same huge huge_since:", $1, $6, $8, $9 }' $d/mm_stat
	poke discard /dev/zram0 0 8192
	poke zero /dev/zram0 8192 4096
	poke discard /dev/zram0 65536 262144
	poke pread /dev/zram0 0 4096 d
	poke pread /dev/zram0 8192 4096 d
	awk '{ print "mm_stat orig same huge huge_since:", $1, $6, $8, $9 }' $d/mm_stat
	poke discard /dev/zram0 0 16777216
	awk '{ print "mm_stat orig same huge:", $1, $6, $8 }' $d/mm_stat
	r io_stat
done
say idle pages and recompression
reset
# No page is older than the machine is up; other ages depend on it.
while [ "$(cut -d. -f1 /proc/uptime)" -lt 5 ]; do sleep 0.2; done
state=/sys/kernel/debug/zram/zram0/block_state
# Lines are slots; the second field is a time.
flags() { awk '{ print "block:", $1, $3 }' $state; }
poke m $state
poke r $state
w idle all 0 1 3 0x2 4000000000 4294967295 4294967296 -1 abc '' 'all ' ' all' 'all
' 1s "$long"
w recompress '' ' ' junk 'junk=1' 'type=idle' 'type=' 'type' 'type=other' 'type=idle type=other' \
	'threshold=100' 'threshold=5000' \
	'threshold=-1' 'threshold=99999999999' 'max_pages=x' 'max_pages=-1' 'max_pages=0' \
	'priority=0' 'priority=1' 'priority=abc' \
	'algo=zstd' 'algo=' "$long"
w comp_algorithm lz4
if poke w $d/recomp_algorithm 'algo=zstd priority=2' | grep -q ': ok'; then
	w disksize 16M
	w recompress 'priority=1' 'priority=2 algo=lz4' 'algo=lz4' 'priority=0' 'priority=4' \
		'priority=-1' 'priority=3' 'threshold=5000 priority=2' \
		'priority=2' 'algo=zstd' 'algo=zstd priority=2' 'algo=zstd priority=1' \
		'type=idle algo=zstd' 'type=other algo=zstd' junk 'junk=1 algo=zstd' \
		'type=idle type=other algo=zstd' ''
	text_pages 4 >/tmp/abi.pages
	dd if=/dev/urandom bs=8k count=1 2>/dev/null | od -An -v -tx1 | tr -d ' \n' >>/tmp/abi.pages
	dd if=/tmp/abi.pages of=/dev/zram0 bs=4k oflag=direct 2>/dev/null
	poke pwrite /dev/zram0 65536 8192 r d
	poke pwrite /dev/zram0 131072 4096 165 d
	poke pwrite /dev/zram0 135168 4096 0 d
	flags
	poke r $state | tail -n 1 | awk '{ print NF, length($0) }'
	w idle all
	flags
	poke pread /dev/zram0 0 4096 d >/dev/null
	poke pwrite /dev/zram0 4096 4096 3 d
	flags
	# An age that nothing has, and one that all have once it is kept.
	w idle 4
	flags | awk '{ print $2 }'
	w idle all
	# Which of the largest comes first is not said.
	w recompress 'type=huge_idle algo=zstd max_pages=1'
	flags | grep -c 'i\.\.$'
	w recompress 'type=huge_idle algo=zstd'
	flags
	awk '{ print "mm_stat orig same huge huge_since:", $1, $6, $8, $9 }' $d/mm_stat
	w recompress 'type=idle algo=zstd threshold=3000' 'type=idle algo=zstd'
	flags
	w recompress 'algo=zstd threshold=100' 'algo=zstd'
	flags
	cmp -n 32768 /dev/zram0 /tmp/abi.pages >/dev/null; echo "contents: $?"
	poke discard /dev/zram0 0 16384
	flags
fi
reset
say a backing device
modprobe loop 2>/dev/null
for a in backing_dev compressed_writeback writeback_limit writeback_limit_enable \
	writeback_batch_size bd_stat writeback; do r $a; done
# In the order in which they are in the way of each other: no size, no device, no word.
w writeback '' idle junk 'page_index=0'
for a in writeback_limit writeback_limit_enable; do
	w $a 0 1 2 7 18446744073709551615 18446744073709551616 -1 0x10 010 4K abc '' ' 1' '1 ' '5
' "$long"
	r $a
done
w writeback_limit 0
w writeback_limit_enable 0
w writeback_batch_size 1 0 4294967295 4294967296 -1 abc '' 0x10 '8
' "$long"
r writeback_batch_size
w writeback_batch_size 32
w compressed_writeback 1 0 yes no Y n on off 2 abc '' '1
' -1
r compressed_writeback
w backing_dev /nonesuch /tmp /etc/env '' /dev/null /dev/zram0 "/$page" none 'none
'
r backing_dev
if [ -e /dev/loop0 ] && [ -e $d/writeback ]; then
	dd if=/dev/zero of=/tmp/abi.less bs=1k count=2 2>/dev/null
	losetup /dev/loop0 /tmp/abi.less
	w backing_dev /dev/loop0
	losetup -d /dev/loop0
	dd if=/dev/zero of=/tmp/abi.back bs=1M count=1 2>/dev/null
	losetup /dev/loop0 /tmp/abi.back
	text_pages 4 >/tmp/abi.pages
	dd if=/dev/urandom bs=4k count=4 2>/dev/null >>/tmp/abi.pages
	fill() {
		dd if=/tmp/abi.pages of=/dev/zram0 bs=4k oflag=direct 2>/dev/null
		poke pwrite /dev/zram0 65536 4096 0 d
	}
	back() { r bd_stat; awk '{ print "mm_stat orig same huge huge_since:", $1, $6, $8, $9 }' $d/mm_stat; flags; }
	for packed in 0 1; do
		w backing_dev '/dev/loop0
' /dev/loop0
		r backing_dev
		w compressed_writeback $packed
		w disksize 16M
		w backing_dev /dev/loop0 /nonesuch none
		w compressed_writeback $packed 1 0 abc
		w writeback '' ' ' idle huge huge_idle incompressible type=idle type=huge \
			type=huge_idle type=incompressible \
			junk junk=1 type= type type=junk 'junk=1 idle' 'idle junk' \
			'page_index=0' page_index=4095 page_index=4096 \
			page_index=-1 page_index=0x10 page_index=x page_index= page_index \
			'page_indexes=0-4095' page_indexes=0-4096 \
			page_indexes=4096-4096 page_indexes=3-2 page_indexes=3 page_indexes=-3 \
			page_indexes=3- page_indexes=a-b \
			'page_index=1 page_indexes=2-3' 'page_index=1 junk' 'page_index=1 junk=2' 'page_index=1 idle' "$long" 'idle
'
		fill
		back
		w writeback idle
		back
		w writeback 'page_index=0 page_indexes=4-5 junk=1'
		back
		w writeback 'page_indexes=0-3 huge'
		back
		poke pread /dev/zram0 0 4096 d >/dev/null
		r bd_stat
		cmp -n 32768 /dev/zram0 /tmp/abi.pages >/dev/null; echo "contents: $?"
		w writeback huge
		back
		w idle all
		flags
		poke pwrite /dev/zram0 0 4096 3 d
		poke discard /dev/zram0 16384 4096
		# Which of the four goes first is not said.
		poke pwrite /dev/zram0 40960 16384 r d
		w idle all
		w writeback_limit_enable 1
		w writeback type=idle
		back
		w writeback_limit 1
		w writeback type=idle
		r writeback_limit
		r bd_stat
		w writeback_limit 10
		w writeback type=idle type=idle
		r writeback_limit
		back
		w writeback_limit_enable 0
		w writeback_limit 0
		# More than the device has room for.
		poke pwrite /dev/zram0 1048576 2097152 r d
		w writeback huge
		r bd_stat
		awk '{ print "mm_stat orig same huge huge_since:", $1, $6, $8, $9 }' $d/mm_stat
		w writeback page_index=0
		poke discard /dev/zram0 0 16777216
		r bd_stat
		r compressed_writeback
		w writeback_limit 7
		w writeback_limit_enable 1
		w writeback_batch_size 3
		reset
		for a in backing_dev compressed_writeback writeback_limit writeback_limit_enable \
			writeback_batch_size bd_stat; do r $a; done
		w writeback_limit 0
		w writeback_limit_enable 0
	done
	w compressed_writeback 0
	w writeback_batch_size 32
	losetup -d /dev/loop0
fi
reset
# Where the columns of the class table end; the kernel has one if its zsmalloc keeps statistics.
say classes
reset
w disksize 16M
poke pwrite /dev/zram0 0 4096 r
modprobe zsmalloc 2>/dev/null
c=/sys/kernel/debug/zsmalloc/zram0/classes
! is_ebb || c=/sys/kernel/debug/zram/zram0/classes
[ ! -d /sys/kernel/debug/zsmalloc ] || awk 'NR == 1 || $1 == "Total" || $15 {
	at = 0; row = ""; line = $0
	while (match(line, /[^ ]+/)) { at += RSTART + RLENGTH - 1; row = row " " at; line = substr(line, RSTART + RLENGTH) }
	print "columns of", NR == 1 ? $0 : $1 == "Total" ? "Total" : "a row", "end at" row }' $c
reset
w disksize 16M
say edges
poke pread /dev/zram0 -4096 4096 d
poke pread /dev/zram0 -4096 8192 d
poke pread /dev/zram0 16777216 4096 d
poke pread /dev/zram0 16781312 4096
poke pwrite /dev/zram0 -4096 4096 3 d
poke pwrite /dev/zram0 -4096 8192 3 d
poke pwrite /dev/zram0 16777216 4096 3 d
poke pwrite /dev/zram0 16777216 4096 3
poke pread /dev/zram0 512 4096 d
poke pread /dev/zram0 0 512 d
poke pwrite /dev/zram0 100 4096 3 d
poke pwrite /dev/zram0 0 1000 3 d
poke pwrite /dev/zram0 100 1000 3
poke pread /dev/zram0 100 1000
poke discard /dev/zram0 0 33554432
poke discard /dev/zram0 512 4096
poke discard /dev/zram0 4096 0
poke discard /dev/zram0 100 100
poke zero /dev/zram0 16777216 4096
poke zero /dev/zram0 512 512
poke zero /dev/zram0 0 16777216
r io_stat

say the limit
reset
w mem_limit 1M
w disksize 64M
poke pwrite /dev/zram0 0 8388608 r d
awk '{ print "failed reads and writes:", $1, ($2 > 0 ? "some" : 0) }' $d/io_stat
awk '{ print "within the limit:", ($3 <= $4) ? "yes" : "no", "limit", $4 }' $d/mm_stat
w mem_limit 0
poke pwrite /dev/zram0 0 1048576 r d
w mem_limit 4K
poke pwrite /dev/zram0 33554432 1048576 r d

say busy
poke hold /dev/zram0 2 >/dev/null & sleep 0.5
w reset 1
poke w $control/hot_remove 0
wait
mkswap /dev/zram0 >/dev/null 2>&1; w mem_limit 0; mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
w reset 1
poke w $control/hot_remove 0
w disksize 1M
swapoff /dev/zram0
w reset 1
r disksize
r mm_stat

say control
poke r $control/hot_add
poke w $control/hot_add 1
for t in 1 1 99 -1 abc '' 0junk ' 1' 99999999999 "$long" "$page"; do poke w $control/hot_remove "$t"; done
poke r $control/hot_remove
poke r $control/hot_add
poke r $control/hot_add
(cd /sys/block && echo zram*)
poke w $control/hot_remove 0
poke r $control/hot_add
poke w $control/hot_remove 2
poke w $control/hot_remove 1
(cd /sys/block && echo zram*)
poke r /sys/module/zram/parameters/num_devices

say module parameters
modprobe -r zram
for n in 0 1 4 -1 abc 4294967296; do
	if modprobe zram num_devices=$n >/dev/null 2>&1; then
		echo "num_devices=$n: $(cd /sys/block && echo zram*)"
		poke r /sys/module/zram/parameters/num_devices
		modprobe -r zram
	else
		echo "num_devices=$n: refused"
	fi
done
echo "guest: output end"
dmesg -n 5
dmesg | grep -E 'WARNING: |BUG: |Oops|KASAN: '
load
ok "the whole list was gone through"
finish
