#!/bin/sh
# Allocations fail while zswap and zram store, move and free pages: errors, and no wrong bytes.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=uml-series-debug mem=512M timeout=120 disks=512M modules=contig
# vm: progs=zinject,swapcheck tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
dbg=/sys/kernel/debug
[ -d $dbg/failslab ] || { skip "fault injection" "the kernel has no failslab"; finish; }
t=$((6 * SCALE))

for f in failslab fail_page_alloc; do
	echo 0 >$dbg/$f/probability; echo -1 >$dbg/$f/times
	echo 0 >$dbg/$f/verbose; echo Y >$dbg/$f/task-filter
	[ ! -e $dbg/$f/min-order ] || echo 0 >$dbg/$f/min-order
	for g in wait highmem; do
		[ ! -e $dbg/$f/ignore-gfp-$g ] || echo N >$dbg/$f/ignore-gfp-$g
	done
done
on()  { echo "$2" >$dbg/"$1"/interval; echo 100 >$dbg/"$1"/probability; }
off() { echo 0 >$dbg/failslab/probability; echo 0 >$dbg/fail_page_alloc/probability; }

client() { # NAME
	for f in failslab fail_page_alloc; do
		for every in 5 23; do
			on $f $every
			_out=$(zinject --mb 24 --seconds $t 2>&1)
			equal "$1: $f, one of $every, every page checked ($(echo "$_out" | tail -n 1))" $? 0
			off
		done
	done
	modprobe contig 2>/dev/null; on failslab 11
	_out=$(zinject --mb 24 --seconds $t 2>&1)
	equal "$1: beside pages that move ($(echo "$_out" | tail -n 1))" $? 0
	off; modprobe -r contig 2>/dev/null
	check "$1: works on, once it is off" swapcheck --mb 24 --procs 2 --passes 1 --forks 1
}

setup 0 256M && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
client zram
check "swapoff" swapoff /dev/zram0
invariants 0

if [ -d /sys/module/zswap ]; then
	backing
	zswap_set compressor lzo; zswap_set max_pool_percent 30
	check "zswap" zswap_set enabled Y
	mkswap "$d" >/dev/null && swapon "$d"
	client zswap
	refused=$(($(zswap reject_alloc_fail) + $(zswap reject_kmemcache_fail)))
	note "pages written back: $(zswap written_back_pages)"
	check "zswap was refused memory ($refused)" [ $refused -gt 0 ]
	# A pool is made and thrown away while what it is made of cannot be had. The shell has no
	# process to make for that, and may end early.
	for f in failslab fail_page_alloc; do
		for every in 3 5 8 13 21 34; do
			on $f $every
			( echo 1 >/proc/self/make-it-fail
			  zswap_set compressor zstd; zswap_set compressor lzo ) 2>/dev/null
			off
		done
	done
	check "a pool can be made afterwards" zswap_set compressor zstd
	check "swapoff" swapoff "$d"
	zswap_set enabled N
	within "nothing is left in zswap" 10 zswap_empty
	put 1 "$(z 0 reset)"; zspages_before=$(zspages)
fi
finish
