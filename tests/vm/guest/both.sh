#!/bin/sh
# zswap over zram, so that both callers of zsmalloc are at work at once, beside pages that move.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=uml-series*,kcsan-series*
# vm: short=yes mem=512M timeout=300 modules=contig
# vm: progs=swapcheck tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
[ -d /sys/module/zswap ] || { skip "both" "no zswap"; finish; }
echo 1 >/proc/sys/vm/overcommit_memory

setup 0 1G && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
zswap_set compressor lzo; zswap_set shrinker_enabled N; zswap_set max_pool_percent 5
check "zswap" zswap_set enabled Y
back=$(vmstat zswpwb) moved=$(vmstat pgmigrate_success)
rm -f /tmp/stop
( while [ ! -e /tmp/stop ]; do echo 1 >/proc/sys/vm/compact_memory; sleep 0.1; done ) & mover=$!
modprobe contig 2>/dev/null
check "contents, with both at work" swapcheck --mb 128 --procs 4 --passes $SCALE --forks 1
touch /tmp/stop; wait $mover; modprobe -r contig 2>/dev/null
back=$(($(vmstat zswpwb) - back)) moved=$(($(vmstat pgmigrate_success) - moved))
note "zram: $(cat "$(z 0 mm_stat)")"
check "zswap wrote back to zram ($back)" [ $back -gt 100 ]
check "pages moved ($moved)" [ $moved -gt 100 ]

# Killed with most of it out, and swapoff of what another one has there.
swapcheck --mb 96 --procs 2 --passes 1000 --forks 0 >/dev/null 2>&1 & victim=$!
swapcheck --mb 48 --procs 2 --passes 1000 --forks 0 --end 5 >/tmp/out 2>&1 & load=$!
sleep 2
children=$(awk -v p=$victim '$4 == p { print $1 }' /proc/[0-9]*/stat 2>/dev/null)
kill -9 $children $victim 2>/dev/null; wait $victim 2>/dev/null
check "swapoff under load" swapoff /dev/zram0
within "empties zswap" 10 zswap_empty
wait $load
equal "the load noticed nothing ($(tail -n 1 /tmp/out))" $? 0
zswap_set enabled N
put 1 "$(z 0 reset)"; zspages_before=$(zspages)
finish
