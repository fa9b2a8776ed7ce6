#!/bin/sh
# How much of what swaps out is in units, after a while of processes that come and go.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=stock-6.12,stock-7.3 mem=768M cpus=2 timeout=900 long=yes
# vm: progs=swapcheck tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
thp=/sys/kernel/mm/transparent_hugepage
[ -e "$(z 0 comp_unit)" ] && [ -e $thp/hugepages-16kB ] ||
	{ skip "reach" "units and folios of 16 KiB are what it is about"; finish; }

for s in $thp/hugepages-*kB; do put never $s/enabled; done
put always $thp/hugepages-16kB/enabled
put 16K "$(z 0 comp_unit)"
put 1G "$(z 0 disksize)"
mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
count() { cat $thp/hugepages-16kB/stats/$1; }
end=$(($(date +%s) + LONG))
# Small files that come and go keep memory in pieces.
swapcheck --mb 115 --procs 5 --passes 1 --forks 2 --loop "$LONG" >/tmp/out 2>&1 & user=$!
i=0
while [ "$(date +%s)" -lt $end ]; do
	mkdir -p /tmp/$((i % 4))
	for f in 1 2 3 4 5 6 7 8 9; do head -c $((f * 7919)) /dev/zero >/tmp/$((i % 4))/$i.$f; done
	[ $((i % 16)) != 15 ] || rm -rf /tmp/$((i / 16 % 4))
	i=$((i + 1))
	[ $((i % 20)) = 0 ] || continue
	note "$((end - $(date +%s))) s before the end: in units are" \
		"$(awk '{ print $2 }' "$(z 0 unit_stat)") of $(($(mm 0 1) / pagesize)) pages that are out;" \
		"folios of 16 KiB: $(count anon_fault_alloc) had, $(count anon_fault_fallback) not;" \
		"$(count swpout) out whole, $(count swpout_fallback) in pages"
done
wait $user
check "contents hold" [ $? = 0 ]
swapoff /dev/zram0
invariants 0
finish
