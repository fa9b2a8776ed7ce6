#!/bin/sh
# Memory and backing device nearly full together: as long as there is room for what is written, in
# either of the two, by now or as soon as a write that is under way has ended, no write fails.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G timeout=180 progs=dmtable
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
need_loop "writeback_auto" writeback_auto
modprobe dm-mod 2>/dev/null; modprobe dm-delay 2>/dev/null

data() { dd if=/dev/zram0 bs="$pagesize" count=$pages iflag=direct 2>/dev/null | md5sum; }

# Pages that no codec makes smaller: all that fit, but for a few.
limit=$((512 * pagesize)) device=2048 pages=$((2048 + 512 - 24))
dd if=/dev/zero of=/tmp/back bs="$pagesize" count=0 seek=$device 2>/dev/null
losetup /dev/loop0 /tmp/back
for i in 0 1; do dd if=/dev/urandom of=/tmp/data$i bs="$pagesize" count=$pages 2>/dev/null; done

# The same pages again and again, with more at once than there is room to spare.
full() { # NAME DEVICE TIMES BYTES...
	_who=$1 _times=$3; put 1 "$(z 0 reset)"
	put "$2" "$(z 0 backing_dev)"; put 1 "$(z 0 writeback_auto)"; put $limit "$(z 0 mem_limit)"
	put $((64 << 20)) "$(z 0 disksize)"
	shift 3
	for bs; do
		i=0; while [ $i -lt "$_times" ]; do
			check "$_who: time $i, $bs at once" \
				dd if=/tmp/data$((i & 1)) of=/dev/zram0 bs="$bs" oflag=direct conv=notrunc
			equal "and read" "$(data)" "$(md5sum </tmp/data$((i & 1)))"
			i=$((i + 1))
		done
	done
	equal "$_who: no write failed" "$(failed_writes)" 0
	invariants 0
}
full "a quick device" /dev/loop0 12 1M
full "a page at once" /dev/loop0 4 "$pagesize"
put 1 "$(z 0 reset)"
if [ -e /dev/mapper/control ]; then
	n=$(dmtable back $((device * units * 8)) delay /dev/loop0 0 2)
	full "a slow one" "/dev/dm-$n" 2 1M
	put 1 "$(z 0 reset)"; dmtable back
fi
check "the loop device is free again" losetup -d /dev/loop0
finish
