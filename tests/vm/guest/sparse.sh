#!/bin/sh
# A device far larger than memory: it takes tables only for where it was written.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: short=yes mem=256M timeout=60 tools=blkdiscard
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
is_ebb || { skip "1 TiB" "in-tree takes 16 bytes a page for its table at once"; finish; }

available() { awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo; }

before=$(available)
check "1 TiB in a machine of $(awk '$1 == "MemTotal:" { print $2 }' /proc/meminfo) kB" setup 0 1T
took=$((before - $(available)))
check "which leaves less than 16 MiB available than before ($took kB)" [ $took -lt 16384 ]

# The first pages, some in the middle, the last ones.
last=$(((1 << 28) - 8))
text_pages 8 >/tmp/text
before=$(zspages)
for at in 0 8 12345672 $last; do
	check "8 pages at $at" dd if=/tmp/text of=/dev/zram0 bs=4096 seek=$at conv=notrunc,fsync
done
took=$((($(zspages) - before) * pagesize >> 10))
check "they and their tables take $took kB" [ $took -lt 2048 ]
echo 3 >/proc/sys/vm/drop_caches
for at in 0 8 12345672 $last; do
	dd if=/dev/zram0 of=/tmp/back bs=4096 skip=$at count=8 2>/dev/null
	check "read again at $at" cmp /tmp/text /tmp/back
done
dd if=/dev/zero of=/tmp/zeros bs=4096 count=8 2>/dev/null
dd if=/dev/zram0 of=/tmp/back bs=4096 skip=99999992 count=8 2>/dev/null
check "where nothing was written there are zeros" cmp /tmp/zeros /tmp/back
check "which can be discarded" blkdiscard -o 300G -l 64M /dev/zram0
check "and so can what was written" blkdiscard -o $((12345672 * 4096)) -l 32768 /dev/zram0
echo 3 >/proc/sys/vm/drop_caches
dd if=/dev/zram0 of=/tmp/back bs=4096 skip=12345672 count=8 2>/dev/null
check "and is zeros then" cmp /tmp/zeros /tmp/back
check "past the end nothing is written" [ "$(dd if=/tmp/text of=/dev/zram0 bs=4096 seek=$((1 << 28)) count=1 2>&1 | grep -c 'No space')" = 1 ]
invariants 0
finish
