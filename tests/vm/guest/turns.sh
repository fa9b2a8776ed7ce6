#!/bin/sh
# Who writes back, recompresses or ages keeps nobody for long: not at the lowest priority on a busy
# machine, not on a device that is far larger than what is on it.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G timeout=240 progs=dmtable,lowest
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
need_loop "the policy" policy_stat
modprobe dm-mod 2>/dev/null; modprobe dm-delay 2>/dev/null

now() { awk '{ print int($1 * 100) }' /proc/uptime; }   # hundredths of a second
discarded() { awk '{ print $12 }' /sys/block/loop0/stat; }
# Two readers of empty slots, whose age is none.
use() { # FIRST MIB
	: >/tmp/go
	for _i in 1 2; do
		while [ -e /tmp/go ]; do
			dd if=/dev/zram0 of=/dev/null bs=4k skip=$(($1 * 256)) count=256 \
				iflag=direct 2>/dev/null
		done &
	done
}
use_no_more() { rm -f /tmp/go; wait; }

# ---- by hand, at the lowest priority, while all CPUs are busy ----
dd if=/dev/urandom of=/tmp/data bs=1M count=16 2>/dev/null
took() { # [PROGRAM]: has all written back, under that; $t: from the first page to the last
	put 1 "$(z 0 reset)"; put /dev/loop0 "$(z 0 backing_dev)"; put 64M "$(z 0 disksize)"
	for _i in 0 16 32; do
		dd if=/tmp/data of=/dev/zram0 bs=1M seek=$_i oflag=direct conv=notrunc 2>/dev/null
	done
	"$@" sh -c "printf huge >$(z 0 writeback)" & _job=$!
	while over bd 3 -1 && is bd 3 0; do :; done
	t=$(now)
	within "all pages go to the device" 60 is bd 1 $((48 * slots * units))
	t=$(($(now) - t))
	wait $_job
}
loop 64
for i in 1 2 3 4; do
	while :; do :; done & hogs="${hogs:-} $!"
done
took; any=$t
took lowest; low=$t
kill $hogs; wait
check "at a nice value of 19 it takes no longer (${low}0 ms, at 0 ${any}0)" \
	[ "$low" -le $((2 * any + 100)) ]

# ---- for their age: who has blocks in hand has no low priority ----
if [ -e /dev/mapper/control ]; then
	put 1 "$(z 0 reset)"
	n=$(dmtable back $((64 * 2048)) delay /dev/loop0 0 100)
	put "/dev/dm-$n" "$(z 0 backing_dev)"; put 1 "$(z 0 writeback_age)"
	put 64M "$(z 0 disksize)"
	dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct 2>/dev/null
	within "old pages go to a slow device" 30 over bd 3 0
	waits=0 low=0
	while [ $waits -lt 20 ] && [ "$(bd 1)" -lt $((15 * slots * units)) ]; do
		set -- $(cat "$(policy_thread)")
		[ "$3" != D ] || { waits=$((waits + 1)); [ "${19}" -lt 1 ] || low=$((low + 1)); }
	done
	check "the thread was seen to wait for it ($waits times)" [ $waits -ge 5 ]
	equal "and not at a low priority" $low 0
	put 1 "$(z 0 reset)"; dmtable back

	# ---- a read of the one block that is left takes long: the thread goes on ----
	loop 4
	n=$(dmtable back $((4 * 2048)) delay /dev/loop0 0 15000 /dev/loop0 0 0)
	put "/dev/dm-$n" "$(z 0 backing_dev)"; put 64M "$(z 0 disksize)"
	dd if=/tmp/data of=/dev/zram0 bs=1M count=4 oflag=direct 2>/dev/null
	put huge "$(z 0 writeback)" 2>/dev/null
	first=$(awk 'index($3, "w") { print $1; exit }' $state)
	dd if=/dev/zram0 of=/dev/null bs=$pagesize skip="$first" count=1 \
		iflag=direct 2>/dev/null &
	read=$!
	sleep 1
	blkdiscard -o $((first * pagesize)) -l $pagesize /dev/zram0
	put 1 "$(z 0 compact)"
	dd if=/tmp/data of=/dev/zram0 bs=1M count=4 seek=16 oflag=direct 2>/dev/null
	put 1 "$(z 0 writeback_age)"
	within "while a block is read that no slot has, passes go on" 10 over policy 1 4
	check "and it was read all the while" kill -0 $read
	put 0 "$(z 0 writeback_age)"
	wait $read
	put 1 "$(z 0 reset)"; dmtable back
else
	skip "a slow device" "this kernel has no device mapper"
fi

# ---- a device that is far larger than what is on it, in use all the while ----
put 1 "$(z 0 reset)"; loop 64
put /dev/loop0 "$(z 0 backing_dev)"; put 1 "$(z 0 writeback_age)"; put 1T "$(z 0 disksize)"
dd if=/tmp/data of=/dev/zram0 bs=1M count=2 seek=1048574 oflag=direct 2>/dev/null
use 100000
within "what lies at its end gets old and goes" 60 is bd 1 $((2 * slots * units))
check "in passes of the same length ($(policy 1))" [ "$(policy 1)" -ge 3 ]
use_no_more
equal "and reads as it was" \
	"$(dd if=/dev/zram0 bs=1M count=2 skip=1048574 iflag=direct 2>/dev/null | md5sum)" \
	"$(dd if=/tmp/data bs=1M count=2 2>/dev/null | md5sum)"
invariants 0

# ---- discards beside a walk, on a disk that is in use ----
put 1 "$(z 0 reset)"; put /dev/loop0 "$(z 0 backing_dev)"; put 128M "$(z 0 disksize)"
dd if=/tmp/data of=/dev/zram0 bs=1M seek=64 oflag=direct 2>/dev/null
put huge "$(z 0 writeback)"
was=$(discarded)
put 1 "$(z 0 writeback_discard)"
within "what is free is discarded" 20 over discarded 0 "$was"
sleep 2
dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct 2>/dev/null
use 100
put 1 "$(z 0 writeback_age)"
within "a walk begins" 30 over policy 6 32
was=$(discarded)
blkdiscard -o $((64 << 20)) -l $((16 << 20)) /dev/zram0
within "blocks are discarded" 30 over discarded 0 "$was"
check "before it ends ($(policy 6) of $((16 * slots)) pages)" [ "$(policy 6)" -lt $((16 * slots)) ]
use_no_more

# ---- discards, and files, beside a recompression that takes long ----
case " $(codecs) " in *" lz4 "*" zstd "*)
	# Three quarters are digits at random, which take zstd a while: at a tenth of a CPU more
	# than the five seconds from one look for free blocks to the next.
	od -An -v -tx4 /dev/urandom | tr -d ' \n' | fold -w 3000 |
		awk '{ printf "%-4096s", $0 }' | head -c 33554432 >/tmp/data
	put 1 "$(z 0 reset)"; put lz4 "$(z 0 comp_algorithm)"
	put algo=zstd "$(z 0 recomp_algorithm)"; put "priority=1 level=19" "$(z 0 algorithm_params)"
	put /dev/loop0 "$(z 0 backing_dev)"; put 128M "$(z 0 disksize)"
	dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct 2>/dev/null
	dd if=/dev/urandom of=/dev/zram0 bs=1M count=16 seek=64 oflag=direct 2>/dev/null
	put huge "$(z 0 writeback)"
	was=$(discarded)
	put 1 "$(z 0 writeback_discard)"
	within "what is free is discarded" 20 over discarded 0 "$was"
	sleep 2
	put 10 "$(z 0 recompress_cpu)"; put 1 "$(z 0 recompress_age)"
	within "a walk begins" 20 over policy 3 15
	was=$(discarded)
	blkdiscard -o $((64 << 20)) -l $((16 << 20)) /dev/zram0
	i=0; while [ "$(discarded)" = "$was" ] && [ $i -lt 150 ]; do sleep 0.1; i=$((i + 1)); done
	at=$(policy 3)
	check "blocks are discarded before it ends ($at of 8192 pages, after ${i}00 ms)" \
		[ "$at" -lt 8192 ]
	check "and soon" [ $i -lt 100 ]
	# Each write(2) is one of the file's, and waits for the thread. There is no such page.
	i=0; while [ $i -lt 100 ]; do echo page_index=30000; i=$((i + 1)); done >/tmp/words
	at=$(policy 3)
	dd if=/tmp/words of="$(z 0 writeback)" bs=17 2>/dev/null
	note "$(($(policy 3) - at)) pages were tried during 100 writes to a file that waits" \
		"for the thread"
	put 1 "$(z 0 reset)"
	;;
*) skip "a recompression that takes long" "it takes lz4 and zstd" ;;
esac
finish_loop
