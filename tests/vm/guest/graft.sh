#!/bin/sh
# Ebb in a kernel's own tree: files and codecs are those of its options, pages and swap come back.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=graft-* mem=256M timeout=120 progs=swapcheck
. /lib.sh

option() { zcat /proc/config.gz | grep -q "^CONFIG_ZRAM_$1=y"; }

# files OPTION FILE...: they are there with the option, and not without.
files() {
	_opt=$1; shift
	for f; do
		if option "$_opt"; then check "$_opt: there is $f" [ -e "$f" ]
		else check "without $_opt there is no $f" [ ! -e "$f" ]; fi
	done
}

check "zram is in the kernel, and is Ebb's" is_ebb
for o in "WRITEBACK backing_dev writeback writeback_auto bd_stat" "MULTI_COMP recompress recomp_algorithm" \
	"UNITS comp_unit unit_stat"; do
	set -- $o
	opt=$1; shift
	files "$opt" $(for f; do z 0 "$f"; done)
done
files MEMORY_TRACKING /sys/kernel/debug/zram/zram0/block_state /sys/kernel/debug/zram/zram0/check
files TRACK_ENTRY_ACTIME /sys/module/zram/parameters/track_actime
for c in LZO=lzo LZ4=lz4 LZ4HC=lz4hc ZSTD=zstd DEFLATE=deflate 842=842; do
	if option "BACKEND_${c%=*}"; then _n=1; else _n=0; fi
	equal "codec ${c#*=}" "$(codecs | tr ' ' '\n' | grep -cx "${c#*=}")" $_n
done

for c in $(codecs); do
	check "$c: set up" setup 0 64M "$c"
	text_pages 4096 >/tmp/pages
	check "$c: pages go in" dd if=/tmp/pages of=/dev/zram0 bs=64k conv=fsync
	check "$c: and come back" cmp -n $((4096 * 4096)) /tmp/pages /dev/zram0
	check "$c: compressed" [ "$(used 0)" -lt $((4096 * 1024)) ]
	rm /tmp/pages
done
check "idle marks all" put all "$(z 0 idle)"
if option TRACK_ENTRY_ACTIME; then check "idle takes an age" put 5 "$(z 0 idle)"
else refuse "idle takes no age" put 5 "$(z 0 idle)"; fi
check "swap is set up" sh -c "echo 1 >$(z 0 reset) && echo 384M >$(z 0 disksize) && mkswap /dev/zram0 && swapon /dev/zram0"
check "contents survive pressure" swapcheck --mb 100 --procs 3 --passes 1 --forks 0
check "pages went out" [ "$(vmstat pswpout)" -gt 0 ]
check "swapoff" swapoff /dev/zram0
[ ! -e /sys/kernel/debug/zram ] || invariants 0
check "it resets" put 1 "$(z 0 reset)"
equal "and holds no memory" "$(awk '{ print $1, $2 }' "$(z 0 mm_stat)")" "0 0"
