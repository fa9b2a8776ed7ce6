#!/bin/sh
# Swap under pressure: every page checked when it comes back, forked children, every codec.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=512M timeout=480 progs=swapcheck tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }

few_failed() { awk -v n="$1" '{ print "failed reads", $1, "failed writes", $2, "of", n; exit $1 || $2 * 100 > n }' "$(z 0 io_stat)"; }

# Emulated machines are here for their pages and their locks, not for the codecs, and are slow.
case $KERNEL in stock-*) some=lz4 ;; *) some=$(codecs) ;; esac
for c in $some; do
	before=$(vmstat pswpout)
	check "$c: set up" setup 0 1G "$c"
	check "$c: mkswap and swapon" sh -c "mkswap /dev/zram0 && swapon /dev/zram0"
	# 640 MiB in 512 MiB of memory; lz4hc and zstd are slow, and get fewer passes.
	case $c in lzo*|lz4) passes=$((2 * SCALE)) ;; *) passes=$SCALE ;; esac
	check "$c: contents survive pressure" swapcheck --mb 160 --procs 4 --passes $passes --forks 0
	check "$c: and forked children" swapcheck --mb 96 --procs 2 --passes $passes --forks 3
	note "$c: mm_stat $(cat "$(z 0 mm_stat)")"
	check "$c: swapoff" swapoff /dev/zram0
	# When the last page of the kernel's reserve is gone a write fails, and swap keeps the page:
	# a few with in-tree, too.
	check "$c: no read failed, and less than one write of a hundred" few_failed $(($(vmstat pswpout) - before))
done

# Swapoff with pages still out brings them back.
setup 0 512M && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
swapcheck --mb 64 --procs 2 --passes $((4 * SCALE)) --forks 1 >/tmp/out 2>&1 &
sleep 0.5
check "swapoff with a load on" swapoff /dev/zram0
wait $!
equal "the load noticed nothing" $? 0
finish
