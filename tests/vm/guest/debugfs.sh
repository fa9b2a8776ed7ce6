#!/bin/sh
# The class table against what is stored; the invariants; the shrinker alone.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: short=yes mem=512M timeout=60 progs=poke,blkcheck
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
classes=/sys/kernel/debug/zsmalloc/zram0/classes
if is_ebb; then classes=/sys/kernel/debug/zram/zram0/classes; fi

# Field of the last row: 11 counts of zspages by fullness, obj_allocated, obj_used, pages_used,
# freeable.
total() { awk -v f=$(($1 + 1)) '$1 == "Total" { print $f }' $classes; }
objs=13 pages=14 freeable=15

# Rows that contradict themselves or the last one.
wrong_rows() {
	awk 'NR == 1 || !NF { next }
	$1 == "Total" { for (i = 2; i <= 15; i++) if ($i != sum[i + 1]) print "column", i + 1, "adds up to", sum[i + 1], "not", $i
		if ($16 != sum[18]) print "freeable adds up to", sum[18], "not", $16; seen = 1; next }
	{ for (i = 3; i <= 18; i++) sum[i] += $i
	  z = 0; for (i = 3; i <= 13; i++) z += $i
	  if (NF != 18) print "row of", NF, "columns:", $0
	  if ($2 <= size) print "size", $2, "after", size
	  if ($15 > $14) print "more used than there are:", $0
	  if ($16 > z * $17) print "more pages than", z, "zspages have:", $0
	  if ($18 > $16) print "more freeable than there are:", $0
	  size = $2 }
	END { if (!seen) print "no last row" }' $classes
}

# Pages that a device keeps for reclaim: docs/internals/design.md, "the reserve".
reserve() {
	cpus=$(sed 's/.*-//' /sys/devices/system/cpu/possible)
	awk -v page=$((pagesize / 1024)) -v cpus=$((cpus + 1)) '$1 == "MemTotal:" {
		n = int($2 / page / 440)
		print (n < 72 ? 72 : n > 1024 ? 1024 : n) + 2 * cpus }' /proc/meminfo
}
is_ebb && idle=$(reserve) || idle=0

emptied() { ! is_ebb || [ "$(released 0 1)" = 0 ]; }

setup 0 256M
[ -e $classes ] || { skip "the class table" "zsmalloc of this kernel keeps no statistics"; finish; }
equal "an empty pool has rows of nothing" "$(wrong_rows)$(total $objs)" 0
text_pages 8192 >/tmp/pages
check "8192 pages of text" dd if=/tmp/pages of=/dev/zram0 bs=1M oflag=direct
equal "the rows agree with each other" "$(wrong_rows)" ""
equal "an object for each page" "$(total $objs)" 8192
equal "its pages are those of mm_stat" "$(($(total $pages) * 4096))" "$(used 0)"
# In zsmalloc's place no file tells the reserve: it is at most 64 pages more.
n=$(($(zspages) - zspages_before)) low=$(($(total $pages) + idle))
high=$((low + 64 * $(nproc))); is_ebb || high=$((high + 64))
check "nr_zspages has them, the reserve, at most 64 listed a CPU ($low <= $n <= $high)" \
	[ $n -ge $low -a $n -le $high ]
holes 0 8192
equal "the rows agree, with holes" "$(wrong_rows)" ""
within "nothing is held back" 5 emptied
equal "a quarter of the objects is left" "$(total $objs)" 2048
before=$(total $pages) hope=$(total $freeable)
check "compaction has something to free ($hope of $before pages)" [ "$hope" -gt 0 ]
put 1 "$(z 0 compact)"
note "compacted: $(total $pages) pages, $(total $freeable) freeable"
check "and frees that ($before to $(total $pages))" [ $((before - $(total $pages))) -ge "$hope" ]
sum=$(dd if=/dev/zram0 bs=4k skip=4016 count=16 2>/dev/null | md5sum)
equal "contents stay" "$(dd if=/tmp/pages bs=4k skip=4016 count=16 2>/dev/null | md5sum)" "$sum"
invariants 0
blkdiscard /dev/zram0
within "nothing is held back" 5 emptied
equal "all discarded: nothing in any class" "$(wrong_rows)$(total $objs)" 0

if is_ebb; then
	# A table and a walk are for who asks at the right time.
	exec 5</dev/zram0
	refuse "check is refused while the disk is open" cat /sys/kernel/debug/zram/zram0/check
	exec 5<&-
	invariants 0
	put 1 "$(z 0 reset)"
	equal "no size, no table" "$(cat $classes)" ""
	equal "no size, nothing to check" "$(cat /sys/kernel/debug/zram/zram0/check)" ok

	# The shrinker, with nobody else who would compact or flush.
	setup 0 256M
	dd if=/tmp/pages of=/dev/zram0 bs=1M oflag=direct 2>/dev/null
	# A device that was checked goes on.
	invariants 0
	holes 0 8192
	within "nothing is held back" 5 emptied
	before=$(used 0)
	compacted() { echo 2 >/proc/sys/vm/drop_caches; [ "$(used 0)" -lt $((before / 2)) ]; }
	within "memory pressure compacts" 5 compacted
	note "$before to $(used 0), $(mm 0 7) pages"
	equal "contents stay" "$(dd if=/dev/zram0 bs=4k skip=4016 count=16 2>/dev/null | md5sum)" "$sum"

	# What is held back is gone after 2 ms at the latest, so pressure has to come while it is
	# there. What lies within the CPUs' grains, an eighth of the limit in all, is not counted.
	put 16M "$(z 0 release_limit)"
	rm -f /tmp/stop
	( while [ ! -e /tmp/stop ]; do
		dd if=/tmp/pages of=/dev/zram0 bs=1M oflag=direct 2>/dev/null
		blkdiscard /dev/zram0
	done ) & load=$!
	pressed() { echo 2 >/proc/sys/vm/drop_caches; [ "$(released 0 6)" -gt 0 ]; }
	within "memory pressure flushes what is held back" 30 pressed
	touch /tmp/stop; wait $load
	blkdiscard /dev/zram0
	within "nothing is held back in the end" 5 emptied
	equal "and the pool is empty" "$(used 0)" 0
	invariants 0

	put 1 "$(z 0 reset)"; modprobe -r zram
	for p in chain_size=3 chain_size=17 comp_unit=2048 comp_unit=12288; do
		refuse "$p" modprobe zram $p; modprobe -r zram 2>/dev/null
	done
	load chain_size=4; setup 0 64M
	equal "chain_size=4: no zspage may have more pages" "$(awk 'NR > 1 && NF == 18 && $17 > most { most = $17 } END { print most }' $classes)" 4
fi
finish
