#!/bin/sh
# Allocations fail at random while the device works: errors are fine, wrong bytes are not.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=uml-debug,uml-series-debug mem=1G timeout=360
# vm: progs=blkcheck,swapcheck tools=mkswap,swapon,swapoff,blkdiscard
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
dbg=/sys/kernel/debug
[ -d $dbg/failslab ] || { skip "fault injection" "the kernel has no failslab"; finish; }

# Off until asked for; quiet, since the stacks would bury the console.
for f in failslab fail_page_alloc; do
	echo 0 >$dbg/$f/probability; echo -1 >$dbg/$f/times; echo 0 >$dbg/$f/verbose
	echo N >$dbg/$f/task-filter
	[ ! -e $dbg/$f/min-order ] || echo 0 >$dbg/$f/min-order
	for g in ignore-gfp-wait ignore-gfp-highmem; do
		[ ! -e $dbg/$f/$g ] || echo N >$dbg/$f/$g
	done
done
on()  { echo "$2" >$dbg/"$1"/interval; echo 100 >$dbg/"$1"/probability; }
off() { echo 0 >$dbg/failslab/probability; echo 0 >$dbg/fail_page_alloc/probability; }

# Only the load's own allocations: the shell must live. The filter follows the task.
io_that_fails() { # WHAT THREADS MS
	echo Y >$dbg/$f/task-filter
	on $f 23
	_out=$(blkcheck /dev/zram0 --mb 32 --threads "$2" --ms "$3" --tolerate --fail-me 2>&1)
	equal "$f: $1, every page checked ($(echo "$_out" | tail -n 1))" $? 0
	off
	echo N >$dbg/$f/task-filter
}

for f in failslab fail_page_alloc; do
	setup 0 64M
	io_that_fails "random I/O" 2 $((4000 * SCALE))
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
			printf 1 >/sys/block/zram0/reset &&
			printf lzo >/sys/block/zram0/comp_algorithm &&
			printf 16M >/sys/block/zram0/disksize' 2>/dev/null ||
			failures=$((failures + 1))
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

# Between memory and a backing device, by hand and by the device's thread, past the limit.
if is_ebb && modprobe loop 2>/dev/null && [ -e /dev/loop0 ]; then
	by_hand() {
		sh -c 'echo 1 >/proc/self/make-it-fail
			cd /sys/block/zram0 || exit
			printf all >idle; printf "type=idle max_pages=300" >recompress
			printf idle >writeback; printf 1 >idle; printf huge >writeback
			printf 1 >compact
			printf 2M >release_limit; printf 4M >release_limit' 2>/dev/null
	}
	for f in failslab fail_page_alloc; do for packed in 0 1; do
		put 1 "$(z 0 reset)"; loop 64
		put $packed "$(z 0 compressed_writeback)"; put /dev/loop0 "$(z 0 backing_dev)"
		put algo=zstd "$(z 0 recomp_algorithm)"; put 6M "$(z 0 mem_limit)"
		put 1 "$(z 0 writeback_auto)"
		check "$f, mode $packed: a device" put 64M "$(z 0 disksize)"
		echo Y >$dbg/$f/task-filter
		on $f 13
		blkcheck /dev/zram0 --mb 16 --threads 2 --ms $((4000 * SCALE)) --tolerate \
			--fail-me >/tmp/out 2>&1 & load=$!
		n=0; while kill -0 $load 2>/dev/null; do by_hand; n=$((n + 1)); sleep 0.05; done
		wait $load; rc=$?
		off
		echo N >$dbg/$f/task-filter
		equal "random I/O, $n times by hand, every page checked ($(tail -n 1 /tmp/out))" \
			$rc 0
		note "bd_stat $(cat "$(z 0 bd_stat)")"
		blocks "after errors"
		put all "$(z 0 idle)"
		check "pages are written, once it is off" put idle "$(z 0 writeback)"
		check "and it works" blkcheck /dev/zram0 --mb 16 --threads 2 --ms 1000
		blkdiscard /dev/zram0
		equal "no block is left" "$(bd 1)" 0
		invariants 0
	done; done
	put 1 "$(z 0 reset)"
	check "the loop device is free again" losetup -d /dev/loop0
	rm -f /tmp/back
fi

# A backing device: what its reads take is made with it, or nothing is; and reads are done without
# memory.
modprobe loop 2>/dev/null
[ -e /dev/loop0 ] || { skip "a backing device" "this kernel has no loop device"; finish; }
is_ebb || finish
put 1 "$(z 0 reset)"; loop 64
for f in failslab fail_page_alloc; do
	i=0 failures=0
	echo Y >$dbg/$f/task-filter
	while [ $i -lt $((40 * SCALE)) ]; do
		on $f $((i * 7 % 280 + 7))
		sh -c 'echo 1 >/proc/self/make-it-fail 2>/dev/null
			cd /sys/block/zram0 && printf 1 >reset && printf 1 >writeback_auto &&
			printf /dev/loop0 >backing_dev && printf 16M >disksize' 2>/dev/null ||
			failures=$((failures + 1))
		off
		i=$((i + 1))
	done
	echo N >$dbg/$f/task-filter
	for packed in 0 1; do
		put 1 "$(z 0 reset)"
		check "$f: a backing device after $failures failures in $i tries" \
			put /dev/loop0 "$(z 0 backing_dev)"
		put $packed "$(z 0 compressed_writeback)"; put 64M "$(z 0 disksize)"
		: >/tmp/go
		while [ -e /tmp/go ]; do
			put "page_indexes=0-$((8000 / units))" "$(z 0 writeback)"; sleep 0.1
		done & writer=$!
		io_that_fails "mode $packed" 4 $((2000 * SCALE))
		rm -f /tmp/go; wait $writer
		check "pages were read from it ($(cat "$(z 0 bd_stat)"))" [ "$(bd 2)" -gt 0 ]
		invariants 0
	done
done
finish_loop
