#!/bin/sh
# Memory limits of cgroups, with zram and zswap as swap: limits met, lowered and taken away.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=uml-series*,kcsan-series*
# vm: mem=512M timeout=500 disks=1G progs=swapcheck
# vm: tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
echo 1 >/proc/sys/vm/overcommit_memory
t=$((8 * SCALE))
groups_on || { skip "cgroups" "no memory controller"; finish; }

# In zswap a page counts as its group's memory still, compressed: the groups are large enough.
run() { # GROUP OPTIONS: swapcheck there, whose number is job_GROUP
	_r=$1; shift
	in_group "$_r" swapcheck --mb 28 --procs 2 --forks 1 "$@" >"/tmp/out.$_r" 2>&1 &
	eval "job_$_r=\$!"
}

three() { # CLIENT
	group a 56M; group b 56M; group c 64M
	for g in a b c; do run $g --passes 1 --loop $t; done
	# One is asked to give memory back, one has its limit moved up and down.
	end=$(($(date +%s) + t - 1))
	while [ "$(date +%s)" -lt $end ]; do
		put 24M $groups/a/memory.reclaim
		put 52M $groups/b/memory.max; sleep 0.1; put 96M $groups/b/memory.max; sleep 0.1
	done
	for g in a b c; do
		eval "wait \$job_$g"
		equal "$1: group $g, contents ($(tail -n 1 /tmp/out.$g))" $? 0
	done
	# Killed with everything out, and gone.
	in_group c swapcheck --mb 96 --procs 2 --passes 100 --forks 0 >/dev/null 2>&1 & job=$!
	within "$1: group c is swapped out in part" 30 \
		sh -c "[ \$(cat $groups/c/memory.swap.current) -gt 8000000 ]"
	put 1 $groups/c/cgroup.kill
	wait $job 2>/dev/null
	for g in a b c; do within "$1: group $g goes" 10 group_gone $g; done
}

setup 0 1G && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
three zram
check "swapoff" swapoff /dev/zram0

if [ -d /sys/module/zswap ]; then
	backing
	zswap_set compressor lzo; zswap_set shrinker_enabled Y; zswap_set max_pool_percent 30
	check "zswap" zswap_set enabled Y
	mkswap "$d" >/dev/null && swapon "$d"
	three zswap
	within "nothing of theirs is left in zswap" 10 zswap_tidy

	# Limits of zswap's own. b has to hold all that is in zswap, and a writes it to the disk.
	group a 32M; put 2M $groups/a/memory.zswap.max
	group b 56M; put 0 $groups/b/memory.zswap.writeback
	group c 32M; put 0 $groups/c/memory.zswap.max
	for g in a b c; do run $g --passes 4; done
	rm -f /tmp/stop; watch cat $groups/a/memory.zswap.current & watch=$!
	for g in a b c; do
		eval "wait \$job_$g"
		equal "zswap's limits: group $g, contents ($(tail -n 1 /tmp/out.$g))" $? 0
	done
	touch /tmp/stop; wait $watch
	most=$(cat /tmp/most)
	check "memory.zswap.max is kept to ($most of 2 MiB)" [ "$most" -le $((2 * 1048576 + 262144)) ]
	check "by writing back ($(group_stat a zswpwb))" [ "$(group_stat a zswpwb)" -gt 0 ]
	equal "a group without writeback wrote nothing back" "$(group_stat b zswpwb)" 0
	equal "a group without zswap put nothing into it" "$(group_stat c zswpout)" 0
	for g in a b c; do within "group $g goes" 10 group_gone $g; done
	check "swapoff" swapoff "$d"
	zswap_set enabled N
	within "nothing is left in zswap" 10 zswap_empty
	put 1 "$(z 0 reset)"; zspages_before=$(zspages)
else
	skip "zswap" "there is none"
fi
finish
