#!/bin/sh
# Blocks that are free are discarded on the backing device, if that is asked for, and no others.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G timeout=300 progs=blkcheck,dmtable tools=blkdiscard
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
need_loop "discards" writeback_discard

back() { put "$1" "$(z 0 writeback)"; }
data() { dd if=/dev/zram0 bs=64k count=64 iflag=direct 2>/dev/null | md5sum; }
# KiB that the file behind the loop device has.
has() { du -k /tmp/back | awk '{ print $1 }'; }
has_only() { [ "$(has)" -le "$1" ]; }
is_on() { [ "$(cat "$(z 0 writeback_discard)")" = "$1" ]; }
said() { dmesg | grep -c "$1"; }
fresh() { # compressed_writeback writeback_discard [DEVICE]
	put 1 "$(z 0 reset)"
	put "$1" "$(z 0 compressed_writeback)" && put "${3:-/dev/loop0}" "$(z 0 backing_dev)" &&
		put "$2" "$(z 0 writeback_discard)" && put 256M "$(z 0 disksize)"
}
# 4 MiB of random bytes at the start, on the device; they stay there in blocks 0 to 4 MiB.
fill() {
	dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct 2>/dev/null && back huge
}
dd if=/dev/urandom of=/tmp/data bs=1M count=4 2>/dev/null
want=$(md5sum </tmp/data)

# ---- off ----
loop 64
fresh 0 0
equal "it is off at first" "$(cat "$(z 0 writeback_discard)")" 0
fill
equal "what is written is there" "$(has)" 4096
blkdiscard /dev/zram0
sleep 7
equal "and stays when it is freed" "$(bd 1) $(has)" "0 4096"
equal "there is no thread" "$(cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^zram0-policy$')" 0

# ---- on ----
for wrong in x 2x ''; do
	[ -z "$wrong" ] || refuse "'$wrong' is refused" put "$wrong" "$(z 0 writeback_discard)"
done
check "it is turned on in use" put 1 "$(z 0 writeback_discard)"
within "what was freed before is gone" 20 has_only 0
put 1 "$(z 0 reset)"
equal "a reset turns it off" "$(cat "$(z 0 writeback_discard)")" 0
check "before there is a device" put 1 "$(z 0 writeback_discard)"
for packed in 0 1; do
	check "mode $packed: with the device" fresh $packed 1
	fill
	equal "what is written is there" "$(has)" 4096
	written=$(bd 3)
	blkdiscard -o $((1 << 20)) -l $((2 << 20)) /dev/zram0
	within "half of it goes" 20 has_only 2048
	equal "and no more" "$(has)" 2048
	equal "no block is counted for it" "$(bd 1) $(bd 3)" "512 $written"
	dd if=/dev/zero of=/tmp/want bs=1M count=4 2>/dev/null
	for mb in 0 3; do
		dd if=/tmp/data of=/tmp/want bs=1M skip=$mb seek=$mb count=1 conv=notrunc \
			2>/dev/null
	done
	equal "all reads as it was" "$(data)" "$(md5sum </tmp/want)"
	dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct 2>/dev/null
	check "blocks that were discarded are written again" back huge
	equal "all reads as it was" "$(data)" "$want"
	invariants 0
	if [ "$units" = 1 ]; then
		blkdiscard /dev/zram0; within "all goes" 20 has_only 0
		fill
		for i in 0 1 2 3 4 5 6 7; do blkdiscard -o $((i << 16)) -l 4096 /dev/zram0; done
		sleep 7
		equal "what is free in a run that is not stays" "$(has)" 4096
	fi
done
put 0 "$(z 0 writeback_discard)"
blkdiscard /dev/zram0
sleep 7
equal "turned off, all that is freed stays" "$(has)" 4096
put 1 "$(z 0 writeback_discard)"
within "and goes when it is on again" 20 has_only 0

# ---- beside everything, by threads that check what they read ----
for packed in 0 1; do
	# Few enough blocks that they are used again and again, and at times all of them.
	put 1 "$(z 0 reset)"; loop 28; fresh $packed 1
	: >/tmp/go
	# Past what those threads use, so that whole runs come to be free however they go.
	while [ -e /tmp/go ]; do
		back "page_indexes=0-$((6000 / units))"
		dd if=/tmp/data of=/dev/zram0 bs=1M seek=32 count=2 oflag=direct 2>/dev/null
		back "page_indexes=$((8192 / units))-$((8703 / units))"
		blkdiscard -o $((32 << 20)) -l $((2 << 20)) /dev/zram0
		sleep 0.2
	done &
	writer=$!
	before=$(awk '{ print $12 }' /sys/block/loop0/stat)
	check "mode $packed: random I/O beside it, every page checked" \
		blkcheck /dev/zram0 --mb 24 --threads 4 --ms $((12000 * SCALE))
	rm -f /tmp/go; wait $writer
	n=$(($(awk '{ print $12 }' /sys/block/loop0/stat) - before))
	check "blocks were discarded meanwhile ($n times; $(cat "$(z 0 bd_stat)"))" [ $n -gt 0 ]
	invariants 0
	blkdiscard /dev/zram0
	equal "no block is left" "$(bd 1)" 0
	within "and nothing of the file" 20 has_only 0
done

# ---- a device that has none, or fails ----
put 1 "$(z 0 reset)"; loop 64
# Which cannot be turned on again, in some kernels.
dd if=/dev/zero of=/tmp/none bs=1M count=0 seek=64 2>/dev/null
losetup /dev/loop1 /tmp/none
check "a device that loses them" fresh 0 1 /dev/loop1
fill
dmesg -c >/dev/null
echo 0 >/sys/block/loop1/queue/discard_max_bytes
blkdiscard /dev/zram0
within "turns it off" 20 is_on 0
equal "and that is said once" "$(said 'a discard failed')" 1
check "all else goes on" fill
equal "all reads as it was" "$(data)" "$want"
invariants 0
fresh 0 0 /dev/loop1
refuse "a device without discards" put 1 "$(z 0 writeback_discard)"
put 1 "$(z 0 reset)"
dmesg -c >/dev/null
put 1 "$(z 0 writeback_discard)"; put /dev/loop1 "$(z 0 backing_dev)"; put 256M "$(z 0 disksize)"
equal "one that comes after the 1 turns it off" "$(cat "$(z 0 writeback_discard)")" 0
equal "and says so" "$(said 'takes no discards')" 1
put 1 "$(z 0 reset)"; losetup -d /dev/loop1; rm -f /tmp/none
modprobe dm-mod 2>/dev/null; modprobe dm-flakey 2>/dev/null; modprobe dm-delay 2>/dev/null
if [ -e /dev/mapper/control ]; then
	sectors=$((64 * 2048))
	n=$(dmtable back $sectors flakey /dev/loop0 0 1 0)
	fresh 0 0 "/dev/dm-$n"; fill
	dmtable back $sectors flakey /dev/loop0 0 0 1 1 error_writes >/dev/null
	dmesg -c >/dev/null
	blkdiscard -o 0 -l $((2 << 20)) /dev/zram0
	put 1 "$(z 0 writeback_discard)"
	within "a discard that fails turns it off" 20 is_on 0
	equal "and is said once" "$(said 'a discard failed')" 1
	dmtable back $sectors flakey /dev/loop0 0 1 0 >/dev/null
	dd if=/tmp/data of=/dev/zram0 bs=1M count=2 oflag=direct 2>/dev/null
	check "all else goes on" back huge
	equal "all reads as it was" "$(data)" "$want"
	invariants 0
	# One that takes a second for each.
	put 1 "$(z 0 reset)"; dmtable back >/dev/null
	n=$(dmtable back $sectors delay /dev/loop0 0 0 /dev/loop0 0 1000)
	fresh 0 1 "/dev/dm-$n"
	sleep 0.3
	check "a reset while discards are under way" put 1 "$(z 0 reset)"
	check "has the device closed" dmtable back
else
	skip "a device that fails" "this kernel has no device mapper"
fi
finish_loop
