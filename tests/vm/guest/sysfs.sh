#!/bin/sh
# Files that in-tree zram does not have; and what is written to any of them leaves no memory behind.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=256M timeout=150
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
is_ebb || { skip "files of its own" "in-tree zram has none"; finish; }

limit=$(z 0 release_limit) unit=$(z 0 comp_unit)
usual=$(cat "$limit")
for v in -1 4X '4 M' 20E; do refuse "release_limit '$v'" put "$v" "$limit"; done
put 4M "$limit"
equal "release_limit before there is a size" "$(cat "$limit")" 4194304
equal "figures before there is one" "$(cat "$(z 0 release_stat)" "$(z 0 unit_stat)" | tr -s ' \n' ' ')" " 0 0 0 0 0 0 0 0 0 0 "
for v in 0 2048 12288 128K; do refuse "comp_unit '$v'" put "$v" "$unit"; done
equal "comp_unit is a page" "$(cat "$unit")" "$pagesize"
check "comp_unit 64K" put 64K "$unit"
setup 0 64M
equal "both are the usual ones after a reset" "$(cat "$limit" "$unit" | xargs)" "$usual $pagesize"
refuse "comp_unit while there is a size" put 64K "$unit"
check "release_limit while there is one" put 8M "$limit"
equal "is what it reads" "$(cat "$limit")" 8388608
text_pages 256 >/tmp/text
pages=$((1048576 / pagesize))
dd if=/tmp/text of=/dev/zram0 bs=1M oflag=direct 2>/dev/null
equal "figures of $pages pages" "$(mm 0 1) $(mm 0 6) $(mm 0 8)" "1048576 0 0"
check "the compressed fit in the memory, that in its peak" \
	[ 0 -lt "$(mm 0 2)" -a "$(mm 0 2)" -le "$(used 0)" -a "$(used 0)" -le "$(mm 0 5)" ]
blkdiscard /dev/zram0
freed() { [ $(($(released 0 3) + $(released 0 4) + $(released 0 5))) = $pages ]; }
within "release_stat counts each page that is freed, by how" 5 freed
check "some were held back at a time" [ "$(released 0 2)" -gt 0 ]
put 1 "$(z 0 reset)"; put 64K "$unit"; put 64M "$(z 0 disksize)"
dd if=/tmp/text of=/dev/zram0 bs=1M oflag=direct 2>/dev/null
equal "unit_stat has units of 64 KiB" "$(awk '{ print $1, $2, $3, ($4 > 0) }' "$(z 0 unit_stat)")" "16 $pages 0 1"

# Where kmemleak is, it says that in the end, and what is freed may be kept a while.
[ ! -e /sys/kernel/debug/kmemleak ] || finish
# KiB; a slab may have room that is not used yet.
memory() { awk '/^(SUnreclaim|VmallocUsed):/ { n += $2 } END { print n }' /proc/meminfo; }
many() { n=0; while [ $n -lt "$1" ]; do put "$2" "$3" || :; n=$((n + 1)); done; }
leaves_none() { # FILE TEXT
	many 300 "$2" "$(z 0 "$1")"
	_before=$(memory)
	many 2000 "$2" "$(z 0 "$1")"
	_more=$(($(memory) - _before))
	check "2000 writes of '$(echo "$2" | head -c 20)' to $1 leave no memory ($_more KiB)" [ $_more -lt 400 ]
}
head -c 4096 /tmp/text >/tmp/dict
pad=$(printf '%2000s' '')
for f in recompress writeback backing_dev; do
	[ ! -e "$(z 0 $f)" ] || leaves_none $f "type=idle$pad"
done
put 1 "$(z 0 reset)"
for t in "level=1$pad" "level=x$pad" "dict=/tmp/dict" "priority=9 dict=/tmp/dict"; do leaves_none algorithm_params "$t"; done
leaves_none recomp_algorithm "algo=lz4 priority=1$pad"
leaves_none recomp_algorithm "algo=nonesuch$pad"
finish
