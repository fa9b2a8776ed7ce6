#!/bin/sh
# For as long as is asked, all tiers at once: swap, ext4 and raw I/O with writeback, recompression,
# idle marks, compaction, resets, removals and unloading, on backing devices that fail and are slow.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=512M timeout=200 long=yes kernel=uml-smp,uml-debug
# vm: progs=blkcheck,swapcheck,dmtable tools=mkswap,swapon,swapoff,mkfs.ext4,fsck.ext4,fio
. /lib.sh
modprobe zram || { not_ok "zram loads"; exit 1; }
is_ebb || { skip "all tiers at once" "in-tree zram writes on while its device is removed"; finish; }
modprobe -r zram
for m in loop dm-mod dm-flakey dm-delay ext4; do modprobe $m 2>/dev/null; done
echo 1 >/proc/sys/vm/overcommit_memory
control=/sys/class/zram-control
end=$(($(date +%s) + LONG))
left() { l=$((end - $(date +%s))); [ $l -gt 0 ]; }
# bad WHO WHAT: the first is the reason; everybody stops.
bad() { echo "$*" >>/tmp/bad; }
# Workers go on until the round is over, tenders until the module is gone.
going() { [ ! -e /tmp/bad ] && [ ! -e /tmp/over ]; }
tending() { [ ! -e /tmp/bad ] && [ ! -e /tmp/gone ]; }
for_ms() { [ $KERNEL = uml-debug ] && echo $(($1 * 2)) || echo "$1"; }

# Each process has a seed of its own: rnd N leaves a number below N in $r.
rnd() { seed=$(((seed * 1103515245 + 12345) & 0x7fffffff)); r=$((seed / 65536 % $1)); }
any() { rnd $#; shift $r; r=$1; }
count() { n=$((n + 1)); echo $n >"/tmp/$1.n"; }

# Four devices that can fail, each a file that is never swapped out, all of it there.
megs=40
mkdir /mnt/back && mount -t tmpfs -o noswap,size=200m back /mnt/back
for d in 0 1 2 3; do
	dd if=/dev/zero of=/mnt/back/$d bs=1M count=$megs 2>/dev/null
	losetup /dev/loop$d /mnt/back/$d || not_ok "loop$d"
done
table() { d=$1; shift; dmtable back$d $((megs * 2048)) "$@"; }
good() { table "$1" flakey "/dev/loop$1" 0 1 0; }
for d in 0 1 2 3; do good $d >/tmp/dm$d; done
dd if=/dev/urandom bs=1M count=1 2>/dev/null >/tmp/data
text_pages 768 >>/tmp/data
want=$(md5sum </tmp/data)

# A device with everything, in one mode or the other.
fresh() { # DEV BACKING SIZE
	put 1 "$(z "$1" reset)" || return 1
	any lzo-rle lz4 zstd; put "$r" "$(z "$1" comp_algorithm)"
	put "algo=lz4hc priority=1" "$(z "$1" recomp_algorithm)"
	put "algo=zstd priority=2" "$(z "$1" recomp_algorithm)"
	rnd 2; put "$r" "$(z "$1" compressed_writeback)"
	put "/dev/dm-$(cat "/tmp/dm$2")" "$(z "$1" backing_dev)" && put "$3" "$(z "$1" disksize)"
}

# What was counted since the device was made is gone with its reset, so it is added up here.
keep_counts() { awk '{ print $2, $3 }' "$(z "$1" bd_stat)" >>/tmp/counts; }

# ---- those whose contents are checked ----

swapper() {
	mb=40; [ $KERNEL != uml-debug ] || mb=12
	while going; do
		fresh 0 0 512M && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0 ||
			{ bad "swap: it does not come up"; return; }
		swapcheck --mb $mb --procs 3 --passes 1 --forks 3 --seed $((n * 7 + 1)) --end 20 \
			>/tmp/swapper 2>&1 || bad "swap: $(head -n 1 /tmp/swapper)"
		# What has pages in every tier dies at once.
		swapcheck --mb $mb --procs 2 --passes 40 --forks 0 >/dev/null 2>&1 & v=$!
		sleep $((n % 3 + 1))
		kill -9 $(awk -v p=$v '$4 == p { print $1 }' /proc/[0-9]*/stat 2>/dev/null) \
			2>/dev/null
		wait $v 2>/dev/null
		swapoff /dev/zram0 || bad "swap: swapoff"
		keep_counts 0; count swapper
	done
}

filer() {
	mkdir -p /mnt/z
	while going; do
		fresh 1 1 96M && mkfs.ext4 -q -F /dev/zram1 &&
			mount -t ext4 -o discard /dev/zram1 /mnt/z ||
			{ bad "ext4: it does not mount"; return; }
		fio --name=v --directory=/mnt/z --size=12m --bsrange=4k-64k --rw=randrw \
			--numjobs=2 \
			--verify=crc32c --verify_fatal=1 --ioengine=psync --fallocate=none \
			--refill_buffers --buffer_compress_percentage=60 --minimal \
			--output=/tmp/fio.out >/tmp/filer 2>&1 || bad "ext4: fio: $(tail -n 1 /tmp/filer)"
		rm -f /mnt/z/v*
		umount /mnt/z || bad "ext4: umount"
		fsck.ext4 -f -n /dev/zram1 >/tmp/fsck 2>&1 || bad "ext4: fsck: $(tail -n 1 /tmp/fsck)"
		keep_counts 1; count filer
	done
}

# Reads may fail here, too; what is read is what was written.
rawer() {
	while going; do
		fresh 2 2 64M || { bad "raw: it does not come up"; return; }
		any --buffered --keep
		blkcheck /dev/zram2 --mb 24 --threads 3 --tolerate "$r" --seed $((n + 1)) \
			--ms $(for_ms 8000) >/tmp/rawer 2>&1 || bad "raw: $(head -n 1 /tmp/rawer)"
		keep_counts 2; count rawer
	done
}

# A device that comes, is written back, and goes or is reset in the middle of that.
plugger() {
	while going; do
		d=$(cat $control/hot_add) || { bad "hot_add"; return; }
		fresh "$d" 3 32M && dd if=/tmp/data of="/dev/zram$d" bs=1M oflag=direct 2>/dev/null ||
			{ bad "plug: it does not come up"; return; }
		( while put huge "$(z "$d" writeback)" || [ -e "$(z "$d" writeback)" ]; do
			put all "$(z "$d" idle)"; put idle "$(z "$d" writeback)"
			put type=idle "$(z "$d" recompress)"; [ ! -e /tmp/bad ] || break
		done ) 2>/dev/null & w=$!
		rnd 5; sleep 0.$r
		[ "$(dd if="/dev/zram$d" bs=1M count=4 iflag=direct 2>/dev/null | md5sum)" = "$want" ] ||
			bad "plug: what is read is not what was written"
		rnd 3
		[ $r != 0 ] || put 1 "$(z "$d" reset)" || bad "plug: reset"
		put "$d" $control/hot_remove || bad "plug: hot_remove"
		wait $w; count plugger
	done
}

# ---- those who tend the devices, whatever is there ----

words() {
	case $1 in
	writeback)
		rnd 2000; a=$r; rnd 2000
		any idle huge huge_idle incompressible type=huge "page_index=$a" \
			"page_indexes=$a-$((a + r))" "page_index=1 page_indexes=7-$((a + 9))" ;;
	recompress)
		any type=idle type=huge type=huge_idle "type=idle max_pages=50" threshold=900 \
			"algo=zstd priority=2" "type=idle priority=2 max_pages=7" ;;
	idle) any all all 1 3 ;;
	writeback_limit_enable) any 0 0 0 1 ;;
	writeback_limit) any 0 100 5000 1000000 ;;
	writeback_batch_size) any 1 2 32 300 ;;
	release_limit) any 0 64K 4M 64M ;;
	writeback_auto) any 0 1 ;;
	*) r=1 ;;
	esac
}
tender() {
	seed=$(($1 * 1000003)) name=tender$1
	while tending; do
		rnd 3; d=$r
		any writeback writeback writeback recompress recompress idle idle compact \
			writeback_limit_enable writeback_limit writeback_batch_size release_limit \
			mem_used_max writeback_auto; f=$r
		[ -e "$(z $d $f)" ] || { sleep 0.01; continue; }
		words $f
		[ $f != mem_used_max ] || r=0
		put "$r" "$(z $d $f)" && echo $f >>/tmp/done || echo $f >>/tmp/refused
		rnd 8
		case $r in
		0) cat "/sys/kernel/debug/zram/zram$d/block_state" >/dev/null 2>&1 ;;
		1) cat "$(z $d mm_stat)" "$(z $d bd_stat)" >/dev/null 2>&1 ;;
		2) echo 2 >/proc/sys/vm/drop_caches ;;
		esac
		count $name
	done
}

# Of swap and of files only writes fail: their readers would be right to complain.
flaker() {
	seed=77
	while tending; do
		rnd 4; d=$r
		any good writes writes reads slow
		[ $d = 2 ] || [ $r != reads ] || r=writes
		case $r in
		good) good $d ;;
		writes) table $d flakey /dev/loop$d 0 0 1 1 error_writes ;;
		reads) table $d flakey /dev/loop$d 0 0 1 1 error_reads ;;
		slow) table $d delay /dev/loop$d 0 2 ;;
		esac >/dev/null || bad "flaker: no table"
		rnd 9; sleep 0.$r
		good $d >/dev/null
		rnd 9; sleep 0.$r
		count flaker
	done
}

workers="swapper filer rawer plugger" tenders="tender1 tender2 flaker" rounds=0
for j in $workers $tenders; do echo 0 >/tmp/$j.n; done
: >/tmp/counts; : >/tmp/done; : >/tmp/refused
while left && [ ! -e /tmp/bad ]; do
	rm -f /tmp/over /tmp/gone
	modprobe zram num_devices=3 || { bad "zram does not load"; break; }
	jobs='' tend=''
	for j in $workers; do
		n=$(cat /tmp/$j.n) seed=$((rounds * 31 + 5)); $j & jobs="$jobs $!"
	done
	for j in "tender 1" "tender 2" flaker; do
		n=$(cat "/tmp/$(echo $j | tr -d ' ').n"); $j & tend="$tend $!"
	done
	stop=$(($(date +%s) + 40))
	while left && [ ! -e /tmp/bad ] && [ "$(date +%s)" -lt $stop ]; do sleep 1; done
	: >/tmp/over
	for j in $jobs; do wait "$j"; done
	# The tenders go on: what they have in hand is in no slot, and counted all the same.
	for d in 0 1 2; do
		[ "$(cat /sys/kernel/debug/zram/zram$d/check)" = ok ] ||
			bad "zram$d: $(cat /sys/kernel/debug/zram/zram$d/check)"
	done
	modprobe -r zram || bad "the module does not unload"
	: >/tmp/gone
	for j in $tend; do wait "$j"; done
	rounds=$((rounds + 1))
	note "$((LONG - end + $(date +%s))) s:$(for j in $workers $tenders; do
		echo " $j $(cat /tmp/$j.n)"; done | tr -d '\n')"
done

equal "nothing was wrong in $LONG s" "$(head -n 1 /tmp/bad 2>/dev/null)" ""
for j in $workers $tenders; do
	check "$j: $(cat /tmp/$j.n) rounds" [ "$(cat /tmp/$j.n)" -gt 0 ]
done
note "done: $(sort /tmp/done | uniq -c | tr -s ' \n' ' ')"
note "refused: $(sort /tmp/refused | uniq -c | tr -s ' \n' ' ')"
for f in writeback recompress idle; do
	check "$f was done" grep -qx $f /tmp/done
done
check "pages were read from the devices, and written" \
	awk '{ a += $1; b += $2 } END { print a, b; exit !(a && b) }' /tmp/counts
for d in 0 1 2 3; do dmtable back$d; losetup -d /dev/loop$d; done
load || not_ok "zram loads once more"
finish
