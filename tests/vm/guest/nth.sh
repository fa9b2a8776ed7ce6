#!/bin/sh
# Each allocation of a call fails in turn, from loading the module to taking it away: ENOMEM and
# nothing lost, or all is well, and the next call works.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=uml-debug mem=512M timeout=240 progs=nth
. /lib.sh
dbg=/sys/kernel/debug
[ -e /proc/self/fail-nth ] || { skip "each allocation fails" "the kernel has no failslab"; exit; }
for f in failslab fail_page_alloc; do
	echo 0 >$dbg/$f/probability; echo -1 >$dbg/$f/times; echo 0 >$dbg/$f/verbose
	[ ! -e $dbg/$f/min-order ] || echo 0 >$dbg/$f/min-order
	for g in ignore-gfp-wait ignore-gfp-highmem; do
		[ ! -e $dbg/$f/$g ] || echo N >$dbg/$f/$g
	done
done

# each NAME ARG...: nth's last line is what happened.
each() {
	_name=$1; shift
	if _out=$(nth "$@" 2>&1); then ok "$_name (${_out##*nth: })"; else
		echo "$_out"; not_ok "$_name" "$(echo "$_out" | head -n 1)"
	fi
}

modprobe loop; modprobe zram || { not_ok "zram loads"; exit 1; }
ko=$(find /lib/modules -name zram.ko | sort | tail -n 1)
# What it needs stays.
rmmod zram
# Most of them are the kernel's: of those past the 64th each 16th, or with --scale 16 each.
NTH_STEP=$((SCALE > 15 ? 1 : 17 - SCALE)); export NTH_STEP
each "the module is loaded" load "$ko"
load || { not_ok "zram loads afterwards"; exit 1; }
is_ebb || { skip "each allocation fails" "in-tree zram is not ours to mend"; finish; }
cd /sys/block/zram0 || exit 1
loop 64
equal "no device but the first" "$(ls -d /sys/block/zram*)" /sys/block/zram0
each "a device is added" add
each "and removed" remove
equal "no device is left of them" "$(ls -d /sys/block/zram*)" /sys/block/zram0
equal "nor a folder in debugfs" "$(ls $dbg/zram)" zram0

each "a codec" reset=1 set comp_algorithm=zstd
each "its parameters" reset=1 comp_algorithm=zstd set "algorithm_params=level=3"
each "a second codec" reset=1 set "recomp_algorithm=algo=zstd priority=1"
each "a backing device" reset=1 set backing_dev=/dev/loop0
for packed in 0 1; do
	all="reset=1 comp_algorithm=lz4 compressed_writeback=$packed backing_dev=/dev/loop0 writeback_auto=$packed"
	second="recomp_algorithm=algo=zstd priority=1"
	each "mode $packed: its size" $all "$second" set disksize=32M
	put 1 reset; equal "nothing is left of it" "$(awk '{ print $1, $2, $3 }' mm_stat)" "0 0 0"
	for a in $all "$second" disksize=32M; do put "${a#*=}" "${a%%=*}" || not_ok "$a"; done
	put 1M mem_limit
	check "mode $packed: pages" nth fill
	each "pages are written" write
	each "and read" read
	each "discarded" discard
	check "and written" nth fill
	each "marked as idle" set idle=all
	each "or for their age" set idle=1
	each "recompressed" idle=all set recompress=type=idle
	check "others" nth fill
	each "written back" idle=all set writeback=idle
	each "and read from there" read
	each "or named" set "writeback=page_indexes=0-95"
	if [ $packed = 0 ]; then
		each "the device is opened" open
		each "those that are large" set writeback=huge
		each "compacted" set compact=1
		for l in 0 4096 8M; do each "release_limit $l" set release_limit=$l; done
		each "the limit" set mem_limit=0
		for f in *_stat comp_algorithm recomp_algorithm backing_dev disksize release_limit \
			$dbg/zram/zram0/*; do
			each "${f##*/} is read" show $f
		done
	fi
	invariants 0
	rm /tmp/nth
	each "reset" set reset=1
	each "and again" reset=1 disksize=32M set reset=1
	equal "nothing is left" "$(awk '{ print $1, $2, $3 }' mm_stat)" "0 0 0"
done
all="comp_algorithm=lz4 comp_unit=16K backing_dev=/dev/loop0"
each "units: the size" reset=1 $all set disksize=32M
put 1 reset
for a in $all disksize=32M; do put "${a#*=}" "${a%%=*}" || not_ok "$a"; done
check "units: pages" nth fill
check "some are in units" [ "$(awk '{ print $1 }' unit_stat)" -gt 0 ]
each "units are written" write
each "and read" read
each "discarded" discard
check "and written" nth fill
each "marked as idle" set idle=all
each "written back" set writeback=idle
each "and read from there" read
check "others" nth fill
each "compacted" set compact=1
invariants 0
rm /tmp/nth
each "reset" set reset=1
equal "nothing is left" "$(awk '{ print $1, $2, $3 }' mm_stat)" "0 0 0"
cd /tmp
finish_loop
