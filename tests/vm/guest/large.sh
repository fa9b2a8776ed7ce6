#!/bin/sh
# Large folios that swap out whole: how many become units, and that contents hold.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=stock-6.12,stock-7.3 mem=768M cpus=2 timeout=600
# vm: progs=large tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
[ -e "$(z 0 comp_unit)" ] || { skip "units" "this zram has none"; finish; }
thp=/sys/kernel/mm/transparent_hugepage
[ -e $thp/hugepages-16kB ] || { skip "large folios" "this kernel has none of 16 KiB"; finish; }

# UNIT: swap on a device with such units.
swap_on() {
	put 1 "$(z 0 reset)"
	put "$1" "$(z 0 comp_unit)"
	put 512M "$(z 0 disksize)"
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
}

note "as it boots: $(cat $thp/enabled), $(grep -l '\[always\]\|\[inherit\]' $thp/hugepages-*/enabled | tr '\n' ' ')"
for unit in 16K 64K; do
	swap_on $unit
	large --mb 64 --rounds 0 >/tmp/out
	note "reach as it boots, $unit: $(cat /tmp/out)"
	swapoff /dev/zram0
done

for size in 16 32 64; do
	for s in $thp/hugepages-*kB; do put never $s/enabled; done
	put always $thp/hugepages-${size}kB/enabled
	for unit in 16K 64K; do
		swap_on $unit
		out=$thp/hugepages-${size}kB/stats/swpout
		before=$(cat $out)
		check "folios of $size KiB, units of $unit: contents hold" sh -c "large --mb 64 --rounds $((2 * SCALE)) >/tmp/out"
		reach=$(awk '/^reach/ { printf "%d", $2 * 100 / $3 }' /tmp/out)
		note "folios of $size KiB, units of $unit: $(cat /tmp/out), $reach %; $(($(cat $out) - before)) went out whole"
		[ "$size" -lt "${unit%K}" ] ||
			check "nearly all pages are in units" [ "$reach" -ge 90 ]
		check "swapoff" swapoff /dev/zram0
		invariants 0
	done
done
finish
