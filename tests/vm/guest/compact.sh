#!/bin/sh
# Compaction all the while: under random I/O, under swap, beside resets of another device.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: short=yes mem=768M timeout=150 progs=swapcheck,blkcheck,rawread tools=mkswap,swapon,swapoff
. /lib.sh
modprobe zram num_devices=2 || { not_ok "zram loads"; exit 1; }
t=$((6 * SCALE))

# A pool with holes: write small objects, drop three of four, compact.
setup 0 256M
text_pages 8192 >/tmp/pages
check "8192 pages of text" dd if=/tmp/pages of=/dev/zram0 bs=1M conv=fsync
sum=$(dd if=/dev/zram0 bs=4k skip=4016 count=16 2>/dev/null | md5sum)
full=$(used 0)
holes 0 8192
sparse=$(used 0)
check "compact" put 1 "$(z 0 compact)"
packed=$(used 0)
note "used: full $full, after discards $sparse, compacted $packed, pages_compacted $(mm 0 7)"
check "it does not grow" [ "$packed" -le "$sparse" ]
equal "contents stay" "$(dd if=/dev/zram0 bs=4k skip=4016 count=16 2>/dev/null | md5sum)" "$sum"

compactor() { while [ ! -e /tmp/stop ]; do put 1 "$(z 0 compact)"; put 1 "$(z 1 compact)" 2>/dev/null; cat "$(z 0 mm_stat)" "$(z 0 io_stat)" >/dev/null; done; }
rm -f /tmp/stop; compactor & c=$!
check "random I/O beside it" blkcheck /dev/zram0 --mb 64 --threads 4 --ms ${t}000
touch /tmp/stop; wait $c

setup 0 1G && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
rm -f /tmp/stop; compactor & c=$!
rawread /dev/zram0 $t 1 >/dev/null 2>&1 & r=$!
( while [ ! -e /tmp/stop ]; do setup 1 16M && dd if=/dev/urandom of=/dev/zram1 bs=64k count=64 2>/dev/null; done ) & s=$!
check "swap beside it, with raw readers and resets" swapcheck --mb 128 --procs 4 --passes 1 --forks 1 --loop $t
touch /tmp/stop; wait $c $r $s
[ ! -e /sys/kernel/debug/zsmalloc/zram0/classes ] || note "$(tail -n 1 /sys/kernel/debug/zsmalloc/zram0/classes)"
note "pages compacted: $(mm 0 7)"
check "swapoff" swapoff /dev/zram0
finish
