#!/bin/sh
# `ebb top` shows what the files of real devices say, and rates that are those of what was done.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G progs=ebbtop tools=blkdiscard
# vm: kernel=uml-smp,uml-up,uml-debug,kcsan,stock-6.12,stock-7.3
. /lib.sh
load || { not_ok "zram loads"; exit 1; }

# p DEV METRIC: the sample, or nothing.
p() { ebbtop --prometheus | awk -v m="ebb_zram_$2{device=\"zram$1\"}" '$1 == m { print $2 }'; }
# A word of the table's row, by title.
word() { ebbtop --once | awk -v d="zram$1" -v t="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == t) c = i } $1 == d { print $c }'; }

equal "a device without a size" "$(word 0 size) $(word 0 stored) $(word 0 ratio)" "0 0 -"
other=$(cat /sys/class/zram-control/hot_add)
setup 0 64M lz4
# store DEV: 16 MB of text, then 2 MB of zeros, then 1 MB that does not compress.
store() {
	{
		text_pages 4096
		dd if=/dev/zero bs=1M count=2
		dd if=/dev/urandom bs=1M count=1
	} 2>/dev/null |
	dd of="/dev/zram$1" bs=1M iflag=fullblock conv=fsync 2>/dev/null
}
check "pages of each kind are written" store 0
equal "nothing is wrong with a file" "$(ebbtop --once 2>&1 >/dev/null)" ""
equal "both devices are shown" "$(ebbtop --once | awk 'NR > 1 { print $1 }' | tr '\n' ' ')" "zram0 zram$other "
equal "algorithm, size" "$(word 0 algorithm) $(word 0 size)" "lz4 64M"
i=0
for m in stored_bytes compressed_bytes memory_used_bytes memory_limit_bytes \
	memory_used_max_bytes; do
	i=$((i + 1))
	equal "$m is mm_stat's" "$(p 0 $m)" "$(mm 0 $i)"
done
equal "which is all that was written" "$(p 0 stored_bytes)" $((19 << 20))
equal "zeros take no object" "$(p 0 same_bytes) $(word 0 same)" "$((2 << 20)) 2.0M"
equal "same_bytes" "$(p 0 same_bytes)" $(($(mm 0 6) * pagesize))
equal "what does not compress" "$(p 0 huge_bytes) $(word 0 huge)" "$((1 << 20)) 1.0M"
equal "huge_bytes" "$(p 0 huge_bytes)" $(($(mm 0 8) * pagesize))
equal "written" "$(p 0 written_bytes_total)" $(($(awk '{ print $7 }' /sys/block/zram0/stat) * 512))
check "which is at least what was written" [ "$(p 0 written_bytes_total)" -ge $((19 << 20)) ]

if is_ebb; then
	equal "the limit of what is held back" "$(p 0 held_back_limit_bytes)" "$(cat "$(z 0 release_limit)")"
else
	equal "held back is not there in-tree" "$(p 0 held_back_bytes)$(word 0 held)" "-"
fi
if [ ! -e "$(z 0 bd_stat)" ]; then
	equal "without writeback nothing of it is shown" "$(p 0 backed_bytes)$(word 0 backed)$(word 0 budget)" "--"
	equal "objects are what is not same-filled" "$(p 0 objects_bytes)" $(($(p 0 stored_bytes) - $(p 0 same_bytes)))
fi

freed=$(p 0 freed_bytes_total)
check "a discard of all" blkdiscard /dev/zram0
check "counts as freed" [ "$(p 0 freed_bytes_total)" -ge $((freed + (19 << 20))) ]
equal "nothing is stored" "$(p 0 stored_bytes) $(word 0 stored)" "0 0"

# Rates: the second line and those after it have them.
ebbtop --json --interval 0.5 >/tmp/lines &
within "the first look has no rate" 10 grep -q '"written_bytes_per_s":null' /tmp/lines
check "some more is written" store 0
within "a later one has" 10 grep -qE '"written_bytes_per_s":[1-9]' /tmp/lines
put "$other" /sys/class/zram-control/hot_remove
lines=$(grep -c . /tmp/lines)
within "looks go on when a device is removed" 10 sh -c "[ \$(grep -c . /tmp/lines) -gt $((lines + 2)) ]"
check "which is then left out" sh -c "! tail -n 1 /tmp/lines | grep -q zram$other"
kill $!
wait $!
equal "a signal ends it" $? 143
put 1 "$(z 0 reset)"

# A backing device: a file in memory.
if [ -e "$(z 0 writeback)" ] && modprobe loop 2>/dev/null && dd if=/dev/zero of=/tmp/back bs=1M count=32 2>/dev/null &&
   loop=$(losetup -f) && losetup "$loop" /tmp/back; then
	check "a backing device" put "$loop" "$(z 0 backing_dev)"
	put 64M "$(z 0 disksize)"
	check "pages of each kind are there" store 0
	put 8192 "$(z 0 writeback_limit)"; put 1 "$(z 0 writeback_limit_enable)"
	put all "$(z 0 idle)"
	check "they are written back" put idle "$(z 0 writeback)"
	backed=$(awk '{ print $1 }' "$(z 0 bd_stat)")
	check "some are" [ "$backed" -gt 0 ]
	equal "backed_bytes" "$(p 0 backed_bytes)" $((backed * 4096))
	equal "the rest are objects" "$(p 0 objects_bytes)" $(($(mm 0 1) - $(mm 0 6) * pagesize - backed * 4096))
	equal "written to it" "$(p 0 backing_written_bytes_total)" $(($(awk '{ print $3 }' "$(z 0 bd_stat)") * 4096))
	equal "the budget" "$(p 0 writeback_limit_bytes)" $(($(cat "$(z 0 writeback_limit)") * 4096))
	equal "is shown, with the device" "$(word 0 backing)" "$loop"
	note "$(ebbtop --once)"
	put 1 "$(z 0 reset)"
	losetup -d "$loop"
fi
finish
