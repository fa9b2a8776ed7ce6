#!/bin/sh
# All pages that can be moved are moved without a pause; what zram and zswap hold is checked.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=uml-series*,kcsan-series*
# vm: mem=512M timeout=600 disks=1G modules=contig
# vm: progs=swapcheck,blkcheck tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
echo 1 >/proc/sys/vm/overcommit_memory
t=$((8 * SCALE))
contig() { cat "/sys/module/contig/parameters/$1"; }
twice() { [ ! -d /sys/module/contig ] || [ "$(contig rounds)" -ge 2 ]; }

# compact_memory moves what is in use together; contig takes each block of memory as a whole.
mover() { while [ ! -e /tmp/stop ]; do echo 1 >/proc/sys/vm/compact_memory; sleep 0.05; done; }
start() {
	rm -f /tmp/stop; moved=$(vmstat pgmigrate_success)
	mover & mover=$!
	# -ENODEV: the kernel has no alloc_contig_range().
	modprobe contig 2>/dev/null || note "contig does not load: compact_memory alone moves pages"
}
end() { # CLIENT
	moved=$(($(vmstat pgmigrate_success) - moved))
	[ -d /sys/module/contig ] && least=1000 || least=10
	check "$1: pages moved ($moved)" [ $moved -gt $least ]
	touch /tmp/stop; wait $mover
	[ -d /sys/module/contig ] || return
	note "$1: blocks $(contig got) taken, $(contig busy) busy; zsmalloc's in them" \
		"$(contig zs_got), $(contig zs_busy), of which $(contig zs_kept) stayed"
	check "$1: blocks of memory were taken whole" [ "$(contig got)" -gt 20 ]
	check "$1: pages of zsmalloc were in them, and went elsewhere" [ "$(contig zs_got)" -gt 200 ]
	modprobe -r contig
}

# What lies still is the same after everything was moved.
setup 0 256M
text_pages 16384 >/tmp/data
check "64 MiB of text" dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct
sum=$(md5sum </tmp/data); rm /tmp/data
start
within "every block was asked for twice" 60 twice
equal "contents stay" "$(dd if=/dev/zram0 bs=1M count=64 iflag=direct 2>/dev/null | md5sum)" "$sum"
end "zram at rest"
check "discard" blkdiscard /dev/zram0

start
check "zram: random I/O, every page checked" blkcheck /dev/zram0 --mb 64 --threads 4 --ms ${t}000
( while [ ! -e /tmp/stop ]; do put 1 "$(z 0 compact)"; sleep 0.02; done ) & job=$!
check "and with compaction" blkcheck /dev/zram0 --mb 64 --threads 4 --ms ${t}000
end "zram, I/O"
wait $job

setup 0 1G && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
start
check "zram: swap, every page checked" swapcheck --mb 128 --procs 4 --passes 1 --forks 1 --loop $t
end "zram, swap"
check "swapoff" swapoff /dev/zram0
invariants 0

if [ -d /sys/module/zswap ]; then
	backing
	zswap_set compressor lzo; zswap_set shrinker_enabled N; zswap_set max_pool_percent 30
	check "zswap" zswap_set enabled Y
	mkswap "$d" >/dev/null && swapon "$d"
	start
	check "zswap: swap, every page checked" swapcheck --mb 128 --procs 4 --passes 1 --forks 1 --loop $t
	end "zswap"
	# Its limit met all the while: readers that sleep and writes to the disk beside the movers.
	zswap_set max_pool_percent 5
	start
	check "zswap: at its limit" swapcheck --mb 128 --procs 4 --passes 1 --forks 1 --loop $t
	end "zswap at its limit"
	check "swapoff" swapoff "$d"
	zswap_set enabled N
	within "nothing is left in zswap" 10 zswap_empty
	# zswap keeps its pool and what lists hold.
	put 1 "$(z 0 reset)"; zspages_before=$(zspages)
else
	skip "zswap" "there is none"
fi
finish
