#!/bin/sh
# Pages for which there is no room in memory go to the backing device: no write fails before that is
# full, too, and what was written is what is read.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G timeout=600 progs=blkcheck,swapcheck,pieces,dmtable tools=mkswap,swapon,swapoff
. /lib.sh
load num_devices=2 || { not_ok "zram loads"; exit 1; }
need_loop "writeback_auto" writeback_auto

data() { dd if="${1:-/dev/zram0}" bs=1M count=24 iflag=direct 2>/dev/null | md5sum; }
write() { dd if=/tmp/data of="${1:-/dev/zram0}" bs="${2:-1M}" oflag=direct; }
fresh() { # compressed_writeback LIMIT [DEVICE]
	put 1 "$(z 0 reset)"
	put "$1" "$(z 0 compressed_writeback)" && put "${3:-/dev/loop0}" "$(z 0 backing_dev)" &&
		put 1 "$(z 0 writeback_auto)" && put "$2" "$(z 0 mem_limit)" && put 256M "$(z 0 disksize)"
}

# In MiB: 0 to 3 text; 4 to 19 random; 20 to 21 text; 22 to 23 zeros.
text_pages 1024 >/tmp/data
dd if=/dev/urandom bs=1M count=16 2>/dev/null >>/tmp/data
text_pages 512 >>/tmp/data
dd if=/dev/zero bs=1M count=2 2>/dev/null >>/tmp/data
want=$(md5sum </tmp/data)

# ---- the file ----
equal "it is off" "$(cat "$(z 0 writeback_auto)")" 0
refuse "neither yes nor no" put maybe "$(z 0 writeback_auto)"
put 1 "$(z 0 writeback_auto)"; put 2M "$(z 0 mem_limit)"; put 256M "$(z 0 disksize)"
refuse "without a device a write past the limit fails" write
check "as is counted" [ "$(failed_writes)" -gt 0 ]
put 1 "$(z 0 reset)"
equal "a reset takes it away" "$(cat "$(z 0 writeback_auto)")" 0

# ---- writers past the limit ----
loop 128
for packed in 0 1; do
	check "mode $packed: a device" fresh $packed 2M
	for bs in 1M 4k 60k; do
		check "mode $packed: all is written, $bs at a time" write /dev/zram0 $bs
		equal "and read" "$(data)" "$want"
		blocks "mode $packed"
	done
	equal "no write failed" "$(failed_writes)" 0
	check "the limit is kept to ($(used 0))" [ "$(used 0)" -le $((2 << 20)) ]
	check "pages went to the device" [ "$(bd 1)" -gt $((12 * 256)) ]
	check "zeros over it" dd if=/dev/zero of=/dev/zram0 bs=1M count=24 oflag=direct
	equal "leave no block" "$(bd 1)" 0
	check "buffered, too" sh -c \
		"dd if=/tmp/data of=/dev/zram0 bs=64k conv=fsync && echo 3 >/proc/sys/vm/drop_caches"
	equal "and read" "$(data)" "$want"
	check "pieces of pages, at any place in memory" pieces /dev/zram0 /tmp/data
	blocks "mode $packed"
	blkdiscard /dev/zram0
	equal "a discard frees all blocks" "$(bd 1)" 0
	for n in 1 8; do
		check "mode $packed: $n writers past the limit, every page checked" \
			blkcheck /dev/zram0 --mb 32 --threads $n --ms $((3000 * SCALE))
		invariants 0
	done
	equal "no write failed" "$(failed_writes)" 0
	# Off and on again, without a limit and with one.
	put 0 "$(z 0 writeback_auto)"
	refuse "off: the error is back" write
	put 1 "$(z 0 writeback_auto)"
	check "on: it is not" write
	equal "all is read" "$(data)" "$want"
	blocks "mode $packed"
done

# ---- the end of the device, or of what may be written ----
put 1 "$(z 0 reset)"; loop 8
fresh 0 2M
refuse "a device that is too small" write
check "is full" [ "$(bd 1)" -ge $((8 * 256 - 64)) ]
check "then writes fail" [ "$(failed_writes)" -gt 0 ]
equal "what went before is there" \
	"$(dd if=/dev/zram0 bs=1M count=4 iflag=direct 2>/dev/null | md5sum)" \
	"$(dd if=/tmp/data bs=1M count=4 2>/dev/null | md5sum)"
blocks "full"
blkdiscard /dev/zram0
check "random I/O at the end of all room, every page checked" \
	blkcheck /dev/zram0 --mb 48 --threads 8 --ms $((4000 * SCALE)) --tolerate
blocks "full"
put 1 "$(z 0 reset)"; loop 128
fresh 0 2M
put 1000 "$(z 0 writeback_limit)"; put 1 "$(z 0 writeback_limit_enable)"
refuse "a limit of writes" write
equal "is used up" "$(cat "$(z 0 writeback_limit)") $(bd 3)" "0 1000"
put 100000 "$(z 0 writeback_limit)"
check "and there is more" write
equal "all is read" "$(data)" "$want"
put 0 "$(z 0 writeback_limit_enable)"

# ---- swap ----
for packed in 0 1; do
	put 1 "$(z 0 reset)"; loop 200
	fresh $packed 6M
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
	for n in 1 8; do
		check "mode $packed: swap past the limit, $n at once" \
			swapcheck --mb $((96 / n)) --procs $n --passes $((2 * SCALE)) --forks 1
	done
	swapcheck --mb 32 --procs 3 --passes 50 >/dev/null 2>&1 & victim=$!
	sleep 2; kill -9 $victim; wait $victim 2>/dev/null
	equal "no write failed" "$(failed_writes)" 0
	check "pages went to the device themselves" [ "$(bd 3)" -gt 0 ]
	swapcheck --mb 48 --procs 2 --passes 3 >/tmp/out 2>&1 & user=$!
	sleep 1
	check "swapoff in the middle" swapoff /dev/zram0
	wait $user; equal "nobody noticed" $? 0
	blocks "mode $packed, after swap"
done

# ---- below and above others ----
modprobe dm-mod 2>/dev/null; modprobe dm-flakey 2>/dev/null; modprobe dm-delay 2>/dev/null
if [ -e /dev/mapper/control ]; then
	n=$(dmtable top $((256 * 2048)) linear /dev/zram0 0)
	check "a device on top" write "/dev/dm-$n"
	check "random I/O through it" blkcheck "/dev/dm-$n" --mb 32 --threads 4 --ms $((2000 * SCALE))
	mkswap "/dev/dm-$n" >/dev/null && swapon "/dev/dm-$n"
	check "swap through it" swapcheck --mb 64 --procs 2 --passes "$SCALE" --forks 1
	swapoff "/dev/dm-$n"
	dmtable top
	equal "no write failed" "$(failed_writes)" 0
	blocks "below another"
fi
for packed in 0 1; do
	put 1 "$(z 0 reset)"; put 1 "$(z 1 reset)"; loop 200
	put $packed "$(z 1 compressed_writeback)"; put /dev/loop0 "$(z 1 backing_dev)"
	put 2M "$(z 1 mem_limit)"; put 1 "$(z 1 writeback_auto)"; put 180M "$(z 1 disksize)"
	check "mode $packed: a device on a device, both past their limits" fresh $packed 2M /dev/zram1
	check "is written" write
	equal "and read" "$(data)" "$want"
	check "random I/O, 8 writers" blkcheck /dev/zram0 --mb 32 --threads 8 --ms $((3000 * SCALE))
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
	check "swap" swapcheck --mb 64 --procs 4 --passes "$SCALE" --forks 1
	swapoff /dev/zram0
	equal "no write failed" "$(failed_writes) $(awk '{ print $2 }' "$(z 1 io_stat)")" "0 0"
	blocks "mode $packed, two"
	put 1 "$(z 0 reset)"
	invariants 1
	put 1 "$(z 1 reset)"
done

# ---- a device that fails, and a slow one ----
if [ -e /dev/mapper/control ]; then
	loop 128
	sectors=$((128 * 2048))
	good() { dmtable back $sectors flakey /dev/loop0 0 1 0; }
	bad() { dmtable back $sectors flakey /dev/loop0 0 0 1 1 error_writes >/dev/null; }
	n=$(good)
	for packed in 0 1; do
		fresh $packed 2M "/dev/dm-$n"
		check "through the device mapper" write
		before=$(bd 1)
		bad
		dd if=/dev/urandom of=/tmp/other bs=1M count=16 2>/dev/null
		refuse "a write that the device fails is said" \
			dd if=/tmp/other of=/dev/zram0 bs=1M seek=4 oflag=direct
		check "and counted" [ "$(failed_writes)" -gt 0 ]
		dd if=/tmp/other of=/dev/zram0 bs=4k seek=1024 oflag=direct conv=notrunc 2>/dev/null
		blocks "after errors"
		check "random I/O beside errors" blkcheck /dev/zram0 --mb 32 --threads 8 --ms 2000 --tolerate
		good >/dev/null
		blkdiscard /dev/zram0
		equal "no block is lost" "$(bd 1)" 0
		check "all is written once it is well" write
		bad
		i=0; while [ $i -lt 50 ]; do
			dd if=/tmp/other of=/dev/zram0 bs=4k count=1 seek=$((2000 + i)) skip=$i \
				oflag=direct 2>/dev/null
			i=$((i + 1))
		done
		good >/dev/null
		equal "no page has a part of another" \
			"$(dd if=/dev/zram0 bs=1M count=7 iflag=direct 2>/dev/null | md5sum)" \
			"$(dd if=/tmp/data bs=1M count=7 2>/dev/null | md5sum)"
		blocks "after errors"
		put 1 "$(z 0 reset)"
	done
	dmtable back >/dev/null
	n=$(dmtable back $sectors delay /dev/loop0 0 20)
	for what in "put 1 $(z 0 reset)" "put 0 /sys/class/zram-control/hot_remove"; do
		fresh 0 2M "/dev/dm-$n"
		dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct 2>/dev/null & writer=$!
		sleep 0.5
		refuse "$what: not while it is written" $what
		kill -9 $writer; wait $writer 2>/dev/null
		check "$what: at once after that" $what
		[ -e /sys/block/zram0 ] || cat /sys/class/zram-control/hot_add >/dev/null
	done
	fresh 0 4M "/dev/dm-$n"
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
	swapcheck --mb 12 --procs 8 --passes 50 >/dev/null 2>&1 & victim=$!
	sleep 3
	check "mm_stat is shown while swap waits for a slow device" timeout 2 cat "$(z 0 mm_stat)"
	kill -9 $victim; wait $victim 2>/dev/null
	check "swapoff after a kill" swapoff /dev/zram0
	equal "no write failed" "$(failed_writes)" 0
	blocks "a slow device"
	put 1 "$(z 0 reset)"
	dmtable back
else
	skip "a device that fails" "this kernel has no device mapper"
fi
rm -f /tmp/other
finish_loop
