#!/bin/sh
# A page without room goes to the backing device, in seconds: cliff.sh has the doses.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=512M timeout=120 progs=pieces,dmtable
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
need_loop "writeback_auto" writeback_auto
modprobe dm-mod 2>/dev/null; modprobe dm-flakey 2>/dev/null

text_pages 256 >/tmp/data
dd if=/dev/urandom bs=1M count=4 2>/dev/null >>/tmp/data
write() { dd if=/tmp/data of=/dev/zram0 bs="${1:-1M}" oflag=direct; }
data() { dd if=/dev/zram0 bs=1M count=5 iflag=direct 2>/dev/null | cmp - /tmp/data; }
fresh() { # compressed_writeback DEVICE
	put 1 "$(z 0 reset)"; put "$1" "$(z 0 compressed_writeback)"; put "$2" "$(z 0 backing_dev)"
	put 1 "$(z 0 writeback_auto)"; put 1M "$(z 0 mem_limit)"; put 64M "$(z 0 disksize)"
}

loop 32
for packed in 0 1; do
	check "mode $packed: a device" fresh $packed /dev/loop0
	equal "nothing is on it" "$(bd 1) $(bd 3)" "0 0"
	check "all is written" write
	check "and read" data
	check "over it, a page at a time" write 4k
	check "and read" data
	check "a block for each page that has no room ($(bd 1))" [ "$(bd 1)" -ge 768 -a "$(bd 1)" -le 1280 ]
	check "each was written, the second time, too ($(bd 3))" [ "$(bd 3)" -ge 1536 ]
	check "the limit is kept to" [ "$(used 0)" -le $((1 << 20)) ]
	check "pieces of pages" pieces /dev/zram0 /tmp/data
	equal "no write failed" "$(failed_writes)" 0
	blocks "mode $packed"
	put all "$(z 0 idle)"
	check "all is written anew" write 64k
	equal "no page of it is idle" "$(flags i)" 0
	put 0 "$(z 0 writeback_auto)"
	refuse "off: a write past the limit fails" write
	put 1 "$(z 0 writeback_auto)"
	check "on: it does not" write
	blkdiscard /dev/zram0
	equal "a discard frees all blocks" "$(bd 1)" 0
	put 100 "$(z 0 writeback_limit)"; put 1 "$(z 0 writeback_limit_enable)"
	written=$(bd 3)
	refuse "a limit of writes ends it" write
	equal "when it is used up" "$(cat "$(z 0 writeback_limit)") $(($(bd 3) - written))" "0 100"
	put 0 "$(z 0 writeback_limit_enable)"
	check "without, all is written" write
	blocks "mode $packed"
done
if [ -e /dev/mapper/control ]; then
	put 1 "$(z 0 reset)"
	n=$(dmtable back 65536 flakey /dev/loop0 0 1 0)
	fresh 0 "/dev/dm-$n"
	check "through the device mapper" write
	put 5000 "$(z 0 writeback_limit)"; put 1 "$(z 0 writeback_limit_enable)"
	dmtable back 65536 flakey /dev/loop0 0 0 1 1 error_writes >/dev/null
	written=$(bd 3)
	refuse "what the device fails is said" dd if=/tmp/data of=/dev/zram0 bs=4k skip=600 seek=8000 count=64 oflag=direct
	check "and counted" [ "$(failed_writes)" -gt 0 ]
	equal "what failed is no write" "$(cat "$(z 0 writeback_limit)") $(bd 3)" "5000 $written"
	dmtable back 65536 flakey /dev/loop0 0 1 0 >/dev/null
	put 0 "$(z 0 writeback_limit_enable)"
	check "what went before is read" data
	blocks "after errors"
	blkdiscard /dev/zram0
	equal "no block is lost" "$(bd 1)" 0
	put 1 "$(z 0 reset)"
	dmtable back
else
	skip "a device that fails" "this kernel has no device mapper"
fi
finish_loop
