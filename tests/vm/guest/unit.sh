#!/bin/sh
# Pages that are compressed together (comp_unit): contents, what is counted, bad values.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G timeout=300 progs=swapcheck,blkcheck tools=mkswap,swapon,swapoff,mkfs.ext4,blkdiscard
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
[ -e "$(z 0 comp_unit)" ] || { skip "units" "this zram has none"; finish; }

us() { awk -v f="$1" '{ print $f }' "$(z 0 unit_stat)"; }
page=$pagesize
four=$((page * 4 <= 65536 ? page * 4 : 65536))    # bytes of a unit of four pages
unit() { put "$1" "$(z 0 comp_unit)"; }
with() { # UNIT SIZE [CODEC] [MEM_LIMIT]
	put 1 "$(z 0 reset)"
	put "$1" "$(z 0 comp_unit)"
	[ -z "$3" ] || put "$3" "$(z 0 comp_algorithm)"
	put "${4:-0}" "$(z 0 mem_limit)"
	put "$2" "$(z 0 disksize)"
}

equal "a page by itself is the default" "$(cat "$(z 0 comp_unit)")" "$page"
for bad in 0 -1 5000 3K 2048 128K 1M 16Kx no; do
	refuse "comp_unit $bad is refused" unit "$bad"
done
equal "and changes nothing" "$(cat "$(z 0 comp_unit)")" "$page"
rmmod zram
refuse "the module takes no bad unit" modprobe zram comp_unit=5000
check "a good one it takes" modprobe zram comp_unit=$((page * 2 <= 65536 ? page * 2 : page))
equal "a parameter says what a new device has" "$(cat "$(z 0 comp_unit)")" \
	$((page * 2 <= 65536 ? page * 2 : page))
rmmod zram
load
check "64K" unit 64K
[ "$page" = 65536 ] && { skip "units" "a page is as large as a unit may be"; finish; }
equal "shown in bytes" "$(cat "$(z 0 comp_unit)")" 65536
put 64M "$(z 0 disksize)"
refuse "with a size it stays" unit 16K
put 1 "$(z 0 reset)"
equal "a reset sets it back" "$(cat "$(z 0 comp_unit)")" "$page"

data=4194304
pages=$((data / page))
text_pages 1024 >/tmp/data
for codec in $(codecs); do
	for size in 16K 64K; do
		[ "$page" -lt $((${size%K} * 1024)) ] || continue
		with $size 64M "$codec"
		n=$((data / (${size%K} * 1024)))
		dd if=/tmp/data of=/dev/zram0 bs=$size oflag=direct 2>/dev/null
		equal "$codec, $size: each write of a unit is one" "$(us 1)" "$n"
		equal "$codec, $size: the pages in them" "$(us 2)" $pages
		check "$codec, $size: contents" cmp -n $data /tmp/data /dev/zram0
		blkdiscard -o 0 -l "$page" /dev/zram0 2>/dev/null ||
			dd if=/dev/urandom of=/dev/zram0 bs="$page" count=1 oflag=direct 2>/dev/null
		equal "$codec, $size: a page that died is counted" "$(us 3)" 1
		invariants 0
	done
done

with $four 256M
check "random I/O of all lengths, every page checked" \
	blkcheck /dev/zram0 --mb 64 --threads 4 --ms $((5000 * SCALE))
note "unit_stat $(cat "$(z 0 unit_stat)") mm_stat $(cat "$(z 0 mm_stat)")"
put 1 "$(z 0 compact)"
invariants 0
with $four 256M "" 8M
check "the same at a limit" \
	blkcheck /dev/zram0 --mb 64 --threads 4 --ms $((3000 * SCALE)) --tolerate
invariants 0

# Who keeps a page of each unit: what the others took comes back.
with 64K 256M
i=0
while [ $i -lt 8 ]; do
	dd if=/tmp/data of=/dev/zram0 bs=64K seek=$((i * data / 65536)) oflag=direct \
		2>/dev/null
	i=$((i + 1))
done
full=$(used 0)
whole=$((65536 / page))
i=0
while [ $i -lt $((8 * pages / whole)) ]; do
	dd if=/dev/zero of=/dev/zram0 bs="$page" seek=$((i * whole)) count=$((whole - 1)) \
		oflag=direct 2>/dev/null
	i=$((i + 1))
done
wasted() { awk '{ printf "%d", $4 * $3 / ($3 + $2 + 1) }' "$(z 0 unit_stat)"; }
spare() { [ "$(($(wasted) * 8))" -le "$(used 0)" ]; }
within "units with few pages left are taken apart" 10 spare
note "used $full, then $(used 0); unit_stat $(cat "$(z 0 unit_stat)")"
invariants 0

with $four 512M
# A quarter of each unit is gone: that is mended too, and then nobody works.
dd if=/tmp/data of=/dev/zram0 bs=64K oflag=direct 2>/dev/null
i=0
while [ $i -lt $((data / four)) ]; do
	blkdiscard -o $((i * four)) -l "$page" /dev/zram0
	i=$((i + 1))
done
bad=0
for i in 1 2 3 4 5 6 7 8 9 10; do
	[ "$(cat /sys/kernel/debug/zram/zram0/check)" = ok ] || bad=$((bad + 1))
done
equal "while units are taken apart the check finds nothing" $bad 0
within "waste is an eighth at most" 10 spare
busy() { awk '/^cpu / { print $4 }' /proc/stat; }
sleep 1
before=$(busy)
sleep 2
ticks=$(($(busy) - before))
check "and then no CPU is at work ($ticks of 200 ticks)" [ "$ticks" -lt 100 ]
blkdiscard /dev/zram0
modprobe ext4 2>/dev/null
mkdir -p /mnt
check "a file system is made" mkfs.ext4 -q /dev/zram0
check "and mounted" mount -t ext4 /dev/zram0 /mnt
copies() { for i in 1 2 3 4; do "$@" /tmp/data /mnt/$i || return 1; done; }
copies cp
sync
echo 3 >/proc/sys/vm/drop_caches
check "a file system on it" copies cmp
note "ext4: unit_stat $(cat "$(z 0 unit_stat)") mm_stat $(cat "$(z 0 mm_stat)")"
umount /mnt
invariants 0

with $four 512M
mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
check "as swap: contents hold" swapcheck --mb 160 --procs 3 --passes $((2 * SCALE)) --forks 1
note "swap: unit_stat $(cat "$(z 0 unit_stat)")"
swapoff /dev/zram0
invariants 0

if [ -e "$(z 0 recompress)" ] && case " $(codecs) " in *" lz4 "*" zstd "*) ;; *) false ;; esac; then
	with $four 0 lz4
	put "algo=zstd priority=1" "$(z 0 recomp_algorithm)"
	put 64M "$(z 0 disksize)"
	dd if=/tmp/data of=/dev/zram0 bs=$four oflag=direct 2>/dev/null
	blkdiscard -o "$page" -l "$page" /dev/zram0
	dd if=/dev/zero of=/tmp/data bs="$page" count=1 seek=1 conv=notrunc 2>/dev/null
	was=$(mm 0 2) had=$(used 0)
	put all "$(z 0 idle)"
	dd if=/dev/zram0 of=/dev/null bs="$page" count=1 skip=6 iflag=direct 2>/dev/null
	check "recompression: idle units" put type=idle "$(z 0 recompress)"
	equal "but none with a page that was read" "$(flags r)" $((pages - 5))
	check "max_pages=3" put max_pages=3 "$(z 0 recompress)"
	equal "is too few for a unit" "$(flags r)" $((pages - 5))
	check "and all" put priority=1 "$(z 0 recompress)"
	equal "are by the other codec, or will not get smaller" "$(($(flags r) + $(flags n)))" \
		$((pages - 1))
	equal "they are units still" "$(us 1) $(us 3)" "$((pages / 4)) 1"
	check "and take less ($was to $(mm 0 2) bytes)" [ "$(mm 0 2)" -lt $((was * 9 / 10)) ]
	check "and so does the pool, which was compacted ($had to $(used 0))" \
		[ "$(used 0)" -lt $((had * 9 / 10)) ]
	check "contents of recompressed units" cmp -n $data /tmp/data /dev/zram0
	invariants 0
	text_pages 1024 >/tmp/data
	(while [ ! -e /tmp/over ]; do put "priority=1" "$(z 0 recompress)"; done) &
	check "recompression beside random I/O" \
		blkcheck /dev/zram0 --mb 64 --threads 4 --ms $((3000 * SCALE))
	touch /tmp/over
	wait
	note "recompressed: $(flags r)"
	invariants 0
else
	skip "recompression of units" "it takes lz4 and zstd"
fi

need_loop "a unit's pages on a device" writeback
loop 16
for packed in 0 1; do
	put 1 "$(z 0 reset)"
	put 64K "$(z 0 comp_unit)"
	put $packed "$(z 0 compressed_writeback)"
	put /dev/loop0 "$(z 0 backing_dev)"
	put 64M "$(z 0 disksize)"
	dd if=/tmp/data of=/dev/zram0 bs=64K count=4 oflag=direct 2>/dev/null
	check "mode $packed: a page of a unit goes to the device" put page_index=1 "$(z 0 writeback)"
	equal "and block_state does not call it huge" "$(flags w) $(flags h)" "1 0"
	check "mode $packed: contents" cmp -n 262144 /tmp/data /dev/zram0
	invariants 0
done
finish
