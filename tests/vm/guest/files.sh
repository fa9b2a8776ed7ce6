#!/bin/sh
# Every file of a device at once, read and written, right and wrong, while it is reset, set up
# again, written and swapped to: no call is stuck, nothing is lost, every invariant holds.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=768M timeout=150 progs=files,blkcheck,swapcheck tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
is_ebb || { skip "every file at once" "in-tree's files are not ours to mend"; finish; }
need_loop "every file at once" backing_dev
loop 64
control=/sys/class/zram-control
t=$((8000 * SCALE))
[ "$KERNEL" != uml-debug ] || t=$((t * 2))

at_once() { # NAME [OPTION]
	files 0 --ms $t --seed ${#1} ${2:-} >/tmp/files 2>&1
	_rc=$?
	[ $_rc = 0 ] || head -n 20 /tmp/files
	equal "$1 ($(tail -n 1 /tmp/files))" $_rc 0
}
# Whoever finds a size uses the device: a reset waits, or is refused.
while_there() { while [ ! -e /tmp/stop ]; do "$@"; done; }
io() {
	put /dev/loop0 "$(z 0 backing_dev)"; put "algo=zstd priority=1" "$(z 0 recomp_algorithm)"
	put 32M "$(z 0 disksize)"
	blkcheck /dev/zram0 --mb 16 --threads 2 --ms 400 --tolerate >/tmp/io.out 2>&1
	_rc=$?
	# No size, or a reset came between the look and the open.
	[ $_rc = 0 ] && echo >>/tmp/io.n
	! grep -q differs /tmp/io.out || cat /tmp/io.out >>/tmp/io.bad
	sleep 0.1
}
others() {
	n=$(cat $control/hot_add) && put 8M "$(z "$n" disksize)" && put "$n" $control/hot_remove
}

# Alone: it has no size for half of the time.
at_once "by themselves"
check "reset" put 1 "$(z 0 reset)"

rm -f /tmp/stop /tmp/io.*
while_there io & a=$!
while_there others 2>/dev/null & b=$!
at_once "beside I/O, and devices that come and go" --shared
: >/tmp/stop; wait $a $b
n=$(wc -l </tmp/io.n)
check "contents were right, $n times" [ ! -e /tmp/io.bad ] && [ "$n" -gt 0 ]
for d in /sys/block/zram[1-9]*; do [ ! -e "$d" ] || put "${d##*zram}" $control/hot_remove; done

# Swap keeps the device open, so it is never reset; pages go to the disk and are recompressed.
put 1 "$(z 0 reset)"; put "algo=zstd priority=1" "$(z 0 recomp_algorithm)"
put /dev/loop0 "$(z 0 backing_dev)"
put 256M "$(z 0 disksize)" && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
swapcheck --mb 48 --procs 2 --passes 1000 --forks 1 --end $((t / 1000)) >/tmp/swap 2>&1 & a=$!
at_once "beside swap" --shared
wait $a
equal "swap beside its files ($(tail -n 1 /tmp/swap))" $? 0
check "swapoff" swapoff /dev/zram0
invariants 0
put 1 "$(z 0 reset)"
check "it works on" setup 0 32M
check "and keeps its pages" blkcheck /dev/zram0 --threads 2 --ms 1000
finish_loop
