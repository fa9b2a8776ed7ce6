#!/bin/sh
# zswap over a disk: contents under pressure, at its limit, with its shrinker, through swapoff.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=uml-series*,kcsan-series*
# vm: mem=512M timeout=500 disks=1G progs=swapcheck
# vm: tools=mkswap,swapon,swapoff
. /lib.sh
[ -d /sys/module/zswap ] && backing || { skip "zswap" "there is none"; exit 0; }
echo 1 >/proc/sys/vm/overcommit_memory
pages=$(awk -v k=$((pagesize / 1024)) '$1 == "MemTotal:" { print int($2 / k) }' /proc/meminfo)

check "a compressor" zswap_set compressor lzo
check "no shrinker" zswap_set shrinker_enabled N
check "zswap" zswap_set enabled Y
check "swap on $d" sh -c "mkswap $d && swapon $d"

zswap_set max_pool_percent 50
out=$(vmstat zswpout) in=$(vmstat zswpin)
check "contents survive pressure" swapcheck --mb 160 --procs 4 --passes $SCALE --forks 0
check "and forked children" swapcheck --mb 96 --procs 3 --passes $((2 * SCALE)) --forks 3
out=$(($(vmstat zswpout) - out)) in=$(($(vmstat zswpin) - in))
check "pages went to zswap ($out)" [ $out -gt 20000 ]
check "and came back from there ($in)" [ $in -gt 10000 ]
within "all processes gone, so is what they had in zswap" 10 zswap_tidy

# Past its limit zswap writes to the disk, and its pool stays within.
zswap_set max_pool_percent 5
limit=$((pages * 5 / 100 * pagesize))
back=$(vmstat zswpwb)
rm -f /tmp/stop; watch cat /sys/kernel/debug/zswap/pool_total_size & job=$!
check "contents survive at the limit" swapcheck --mb 160 --procs 4 --passes $SCALE --forks 0
check "and forked children" swapcheck --mb 128 --procs 3 --passes $SCALE --forks 3
touch /tmp/stop; wait $job
note "pool_limit_hit $(zswap pool_limit_hit), written back $(($(vmstat zswpwb) - back))"
check "pages were written back" [ "$(vmstat zswpwb)" -gt "$back" ]
most=$(cat /tmp/most)
check "the pool kept to its limit but for a hundredth ($most of $limit)" \
	[ "$most" -le $((limit + limit / 100)) ]
within "nothing of theirs is left" 10 zswap_tidy

# The shrinker alone: no limit of zswap is met, yet pages go to the disk when memory is asked for.
# It looks at groups only; this one's limit puts pages into zswap however much memory there is.
zswap_set max_pool_percent 50; zswap_set shrinker_enabled Y
hits=$(zswap pool_limit_hit) back=$(vmstat zswpwb)
if groups_on; then
	group a 192M
	in_group a swapcheck --mb 96 --procs 3 --passes 1000 --end $((8 * SCALE)) >/tmp/out 2>&1 &
	load=$!
	while kill -0 $load 2>/dev/null; do echo 2 >/proc/sys/vm/drop_caches; sleep 0.1; done
	wait $load
	equal "contents under the shrinker ($(tail -n 1 /tmp/out))" $? 0
	check "which wrote back ($(($(vmstat zswpwb) - back)))" [ "$(vmstat zswpwb)" -gt "$back" ]
	equal "without a limit" "$(zswap pool_limit_hit)" "$hits"
	within "the group goes" 10 group_gone a
else
	skip "the shrinker" "no memory controller"
fi
zswap_set shrinker_enabled N

# Another compressor is another pool; the old one goes when its last page is freed.
swapcheck --mb 96 --procs 3 --passes 1000 --forks 1 --end $((8 * SCALE)) >/tmp/out 2>&1 & load=$!
i=0 kinds=
while kill -0 $load 2>/dev/null; do
	for c in lz4 zstd lzo; do zswap_set compressor $c && i=$((i + 1)); sleep 0.2; done
done
wait $load
equal "contents while $i pools come and go ($(tail -n 1 /tmp/out))" $? 0
within "nothing of theirs is left" 10 zswap_tidy

# Killed with everything out: the frees of an exit.
i=0
while [ $i -lt $((4 * SCALE)) ]; do
	swapcheck --mb 160 --procs 3 --passes 40 --forks 0 >/dev/null 2>&1 & load=$!
	sleep 1.5
	children=$(awk -v p=$load '$4 == p { print $1 }' /proc/[0-9]*/stat 2>/dev/null)
	kill -9 $children $load 2>/dev/null
	wait $load 2>/dev/null
	i=$((i + 1))
done
within "$i times killed, nothing of theirs is left" 10 zswap_tidy

# Swapoff with everything in, and off while pages are in.
swapcheck --mb 128 --procs 2 --passes 1000 --forks 0 --end $((8 * SCALE)) >/tmp/out 2>&1 & load=$!
sleep 2
note "stored when swapoff began: $(zswap stored_pages)"
check "swapoff under load" swapoff $d
check "empties zswap" zswap_empty
check "swapon again" swapon $d
sleep 1
check "zswap off while pages are in it" zswap_set enabled N
wait $load
equal "the load noticed nothing ($(tail -n 1 /tmp/out))" $? 0
check "swapoff" swapoff $d
within "nothing is left in the end" 10 zswap_empty
exit $failed
