#!/bin/sh
# Raw readers of a swap device race its slots being freed: nothing is disturbed or lost.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=256M timeout=150 progs=swapcheck,rawread tools=mkswap,swapon,swapoff
. /lib.sh
sampler() { while [ ! -e /tmp/over ]; do awk "/SUnreclaim|MemFree|PageTables|KernelStack/ { printf \"%s%s \", \$1, \$2 }" /proc/meminfo; awk "NR > 2 { printf \"%d %s %d/%d\\n\", \$3*\$4/1024, \$1, \$2, \$3 }" /proc/slabinfo | sort -rn | head -n 4 | tr "\n" ";"; echo; sleep 0.5; done &}
sampler
load || { not_ok "zram loads"; exit 1; }
t=$((8 * SCALE))
echo 1 >/proc/sys/vm/overcommit_memory

setup 0 1G && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
rawread /dev/zram0 $t 3 >/tmp/raw 2>&1 & raw=$!
check "contents survive raw readers" swapcheck --mb 96 --procs 4 --passes 1 --forks 2 --loop $t
wait $raw
equal "every raw read was served ($(tail -n 1 /tmp/raw))" $? 0
sleep 1
left=$(($(mm 0 1) / 4096)) missed=$(miss)
note "left $left pages, missed frees $missed, $(cat "$(z 0 io_stat)")"
# The swap header is one page. In-tree a free that met a reader is lost until the slot is
# written again, and counted; a page or two may be out that belong to the shell.
if is_ebb; then
	equal "no free was missed" "$missed" 0
	check "nothing is left but what is in use ($left)" [ "$left" -le 1200 ]
else
	check "nothing is left but what is in use and $missed missed frees ($left)" [ "$left" -le $((1200 + missed)) ]
fi
check "swapoff" swapoff /dev/zram0
if is_ebb; then
	left=$(($(mm 0 1) / 4096))
	check "after swapoff the header is all there is ($left)" [ "$left" -le 1 ]
fi
finish
