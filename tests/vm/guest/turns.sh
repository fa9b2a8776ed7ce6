#!/bin/sh
# Who writes back at the lowest priority on a busy machine keeps nobody for long.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G timeout=120 progs=lowest
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
need_loop "writeback" writeback

now() { awk '{ print int($1 * 100) }' /proc/uptime; }   # hundredths of a second

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

finish_loop
