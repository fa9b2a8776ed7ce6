#!/bin/sh
# Swap goes to a disk of nbdkit's plugin, and so does what zram writes back.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: suite=bookworm+nbd mem=1G kernel=stock-6.12,stock-7.3 timeout=120
# vm: tools=mkswap,swapon,swapoff,nbdkit,nbd-client,blkdiscard progs=swapcheck
# vm: built=nbdkit-ebb-plugin.so,libebb.so.0
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
modprobe nbd nbds_max=1 2>/dev/null
[ -e /dev/nbd0 ] || { skip "nbd" "this kernel has none"; finish; }

# The other machine's part is played by a process whose memory is locked.
nbdkit -f --swap -P /run/nbdkit.pid -U /run/nbd -t 4 /usr/lib/nbdkit-ebb-plugin.so \
	size=64M codec=lz4 unit=4k &
within "nbdkit serves" 20 [ -s /run/nbdkit.pid ]
check "a client connects as the page has it" nbd-client -unix /run/nbd -swap -b 4096 /dev/nbd0
within "the disk is there" 10 [ "$(cat /sys/block/nbd0/size)" = 131072 ]
equal "blocks are not larger than pages" "$(cat /sys/block/nbd0/queue/logical_block_size)" 4096

check "mkswap" mkswap /dev/nbd0
check "swapon" swapon --discard /dev/nbd0
check "swap on it" swapcheck --mb 24 --procs 2 --passes 2 --forks 1
check "pages went there" [ "$(awk '{ print $7 }' /sys/block/nbd0/stat)" -ge 4096 ]
check "swapoff" swapoff /dev/nbd0
check "all is given back" blkdiscard /dev/nbd0
equal "and is zeros" "$(dd if=/dev/nbd0 bs=1M count=64 2>/dev/null | tr -d '\0' | wc -c)" 0

if [ -e "$(z 0 writeback)" ]; then
	yes "A page that is cold goes to another machine." | head -c 4194304 >/tmp/data
	put 1 "$(z 0 reset)"
	check "a backing device of zram" put /dev/nbd0 "$(z 0 backing_dev)"
	put 32M "$(z 0 disksize)" && dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct 2>/dev/null
	put all "$(z 0 idle)"; put idle "$(z 0 writeback)"
	check "has its pages" [ "$(awk '{ print $1 }' "$(z 0 bd_stat)")" -ge 1024 ]
	equal "all reads as it was" "$(dd if=/dev/zram0 bs=1M count=4 iflag=direct 2>/dev/null | md5sum)" \
		"$(md5sum </tmp/data)"
	invariants 0
	put 1 "$(z 0 reset)"
fi
check "the client leaves" nbd-client -d /dev/nbd0
kill "$(cat /run/nbdkit.pid)"; wait
rmmod nbd
finish
