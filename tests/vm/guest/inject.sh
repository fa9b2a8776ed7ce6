#!/bin/sh
# Allocations fail at random while the device works: errors are fine, wrong bytes are not.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=uml-debug,uml-series-debug,uml-ebb-bulk-debug mem=1G timeout=120
# vm: progs=blkcheck,swapcheck tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
dbg=/sys/kernel/debug
[ -d $dbg/failslab ] || { skip "fault injection" "the kernel has no failslab"; finish; }

# Off until asked for; quiet, since the stacks would bury the console.
for f in failslab fail_page_alloc; do
	echo 0 >$dbg/$f/probability; echo -1 >$dbg/$f/times; echo 0 >$dbg/$f/verbose; echo N >$dbg/$f/task-filter
	[ ! -e $dbg/$f/min-order ] || echo 0 >$dbg/$f/min-order
	for g in ignore-gfp-wait ignore-gfp-highmem; do [ ! -e $dbg/$f/$g ] || echo N >$dbg/$f/$g; done
done
on()  { echo "$2" >$dbg/"$1"/interval; echo 100 >$dbg/"$1"/probability; }
off() { echo 0 >$dbg/failslab/probability; echo 0 >$dbg/fail_page_alloc/probability; }

for f in failslab fail_page_alloc; do
	setup 0 64M
	# Only the load's own allocations: the shell must live. The filter follows the task.
	echo Y >$dbg/$f/task-filter
	on $f 23
	_out=$(blkcheck /dev/zram0 --mb 32 --threads 2 --ms $((4000 * SCALE)) --tolerate --fail-me 2>&1)
	equal "$f: random I/O, every page checked ($(echo "$_out" | tail -n 1))" $? 0
	off
	echo N >$dbg/$f/task-filter
	check "$f: works on, once it is off" blkcheck /dev/zram0 --mb 32 --threads 2 --ms 1000
done

# Set-up and tear-down: every step must fail cleanly, whatever it was that did.
for f in failslab fail_page_alloc; do
	i=0 failures=0
	echo Y >$dbg/$f/task-filter
	while [ $i -lt $((40 * SCALE)) ]; do
		# Not every one: a page fault that always fails is retried for ever.
		on $f $((i % 37 + 7))
		sh -c 'echo 1 >/proc/self/make-it-fail 2>/dev/null
			printf 1 >/sys/block/zram0/reset && printf lzo >/sys/block/zram0/comp_algorithm &&
			printf 16M >/sys/block/zram0/disksize' 2>/dev/null || failures=$((failures + 1))
		sh -c 'echo 1 >/proc/self/make-it-fail 2>/dev/null
			read n </sys/class/zram-control/hot_add && printf "$n" >/sys/class/zram-control/hot_remove' 2>/dev/null
		off
		i=$((i + 1))
	done
	echo N >$dbg/$f/task-filter
	for d in /sys/block/zram[1-9]*; do [ ! -e "$d" ] || put "${d##*zram}" /sys/class/zram-control/hot_remove; done
	check "$f: set up after $failures failures in $i tries" setup 0 32M
	check "$f: and it works" blkcheck /dev/zram0 --threads 2 --ms 1000
done
finish
