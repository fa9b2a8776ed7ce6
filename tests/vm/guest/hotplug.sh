#!/bin/sh
# CPUs go and come while slots are freed, written, compacted and flushed: nothing is lost on a dead
# one.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=stock-6.12,stock-7.3,kcsan,kcsan-series* mem=768M cpus=4 timeout=40
# vm: progs=swapcheck,blkcheck,rawread tools=mkswap,swapon,swapoff
. /lib.sh
modprobe zram num_devices=2 || { not_ok "zram loads"; exit 1; }
cpu=/sys/devices/system/cpu
[ -w $cpu/cpu3/online ] || { skip "CPU hotplug" "no CPU of this kernel can be taken offline"; finish; }
t=$((8 * SCALE))

# Until told to stop: each CPU but the first, one or two at a time.
toggle() {
	n=0
	while [ ! -e /tmp/stop ]; do
		for off in 1 2 3 "1 2" "2 3" "3 1"; do
			for c in $off; do put 0 $cpu/cpu"$c"/online || echo "cpu$c does not go"; done
			for c in $off; do put 1 $cpu/cpu"$c"/online || echo "cpu$c does not come"; n=$((n + 1)); done
		done
	done
	echo "$n"
}
flush() { while [ ! -e /tmp/stop ]; do put 1 "$(z 0 compact)"; put 1 "$(z 1 compact)"; echo 2 >/proc/sys/vm/drop_caches; done; }

setup 0 1G && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
setup 1 256M
toggle >/tmp/toggled 2>&1 & a=$!
flush & b=$!
rawread /dev/zram0 $t 1 >/dev/null 2>&1 & c=$!
blkcheck /dev/zram1 --mb 32 --threads 3 --ms ${t}000 >/tmp/out1 2>&1 & d=$!
check "swap, beside CPUs that come and go" swapcheck --mb 64 --procs 4 --passes 1 --forks 1 --loop $t
wait $d
equal "random I/O beside it, every page checked ($(tail -n 1 /tmp/out1))" $? 0
touch /tmp/stop; wait $a $b $c
check "CPUs went and came ($(cat /tmp/toggled) times)" [ "$(cat /tmp/toggled)" -gt 6 ]
check "swapoff" swapoff /dev/zram0
equal "nothing failed" "$(awk '{ print $1, $2 }' "$(z 0 io_stat)" "$(z 1 io_stat)")" "0 0
0 0"
invariants 0
invariants 1

emptied() { [ "$(released 1 1)" = 0 ]; }

# A CPU dies in the middle of frees, so that its buffer is left with what it pushed last.
setup 1 256M
is_ebb && put 1G "$(z 1 release_limit)"
for c in 3 2; do
	rm -f /tmp/stop
	text_pages 4096 >/tmp/pages
	( while [ ! -e /tmp/stop ]; do
		dd if=/tmp/pages of=/dev/zram1 bs=1M oflag=direct 2>/dev/null
		blkdiscard -l 16M /dev/zram1
	done ) & a=$!
	( while [ ! -e /tmp/stop ]; do
		taskset -c $c sh -c 'while [ ! -e /tmp/stop ]; do
			blkdiscard -l 8M /dev/zram1
		done' 2>/dev/null
	done ) & b=$!
	i=0; while [ $i -lt $((10 * SCALE)) ]; do
		put 0 $cpu/cpu$c/online; put 1 $cpu/cpu$c/online
		i=$((i + 1))
	done
	put 0 $cpu/cpu$c/online
	touch /tmp/stop; wait $a $b
	blkdiscard /dev/zram1
	if is_ebb; then
		within "cpu$c is offline: what it held back is freed" 5 emptied
		equal "and no page is left" "$(mm 1 3)" 0
	fi
	equal "nothing is stored" "$(mm 1 1)" 0
	check "writes with cpu$c offline" dd if=/tmp/pages of=/dev/zram1 bs=1M oflag=direct
	equal "reads with cpu$c offline" "$(dd if=/dev/zram1 bs=1M count=16 iflag=direct 2>/dev/null | md5sum)" "$(md5sum </tmp/pages)"
	invariants 1
done
# Two CPUs are offline still: the module goes, and comes back.
check "reset with CPUs offline" put 1 "$(z 1 reset)"
check "unload with CPUs offline" modprobe -r zram
check "load with CPUs offline" load
setup 0 64M
put 1 $cpu/cpu2/online; put 1 $cpu/cpu3/online
check "and all four use it" blkcheck /dev/zram0 --threads 4 --ms $((2000 * SCALE))
invariants 0
finish
