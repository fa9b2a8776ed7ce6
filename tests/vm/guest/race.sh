#!/bin/sh
# Raw readers of a swap device race its slots being freed: nothing is disturbed or lost.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: short=yes mem=512M timeout=150 progs=swapcheck,rawread tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
t=$((8 * SCALE))
echo 1 >/proc/sys/vm/overcommit_memory

setup 0 1G && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
rawread /dev/zram0 $t 3 >/tmp/raw 2>&1 & raw=$!
check "contents survive raw readers" swapcheck --mb 96 --procs 4 --passes 1 --forks 2 --loop $t
wait $raw
equal "every raw read was served ($(tail -n 1 /tmp/raw))" $? 0

# What the device keeps is what swap says it uses, and the header: pages of the shell, and of
# the root file system, which is a tmpfs (zeros are used, but not stored). In-tree a free that
# met a reader is lost until the slot is written again, and counted.
swap_used() { awk -v size="$pagesize" '$1 == "/dev/zram0" { print $4 * 1024 / size }' /proc/swaps; }
missed=$(miss) i=0
while inuse=$(swap_used) left=$(($(mm 0 1) / pagesize)); [ $i -lt 50 ] && [ "$left" -gt $((inuse + 1 + missed)) ]; do
	i=$((i + 1)); sleep 0.1
done
note "left $left pages, in use $inuse, missed frees $missed, $(cat "$(z 0 io_stat)")"
check "nothing is left but the header, what is in use and missed frees ($left of $inuse)" [ "$left" -le $((inuse + 1 + missed)) ]
check "swapoff" swapoff /dev/zram0
if is_ebb; then
	left=$(($(mm 0 1) / pagesize))
	check "after swapoff the header is all there is ($left)" [ "$left" -le 1 ]
fi
finish
