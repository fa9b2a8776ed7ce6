#!/bin/sh
# Pages on a backing device: which go, what they read as, what a failing or a full device does.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G timeout=300 progs=blkcheck,swapcheck,dmtable tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
need_loop "writeback" writeback

back() { put "$1" "$(z 0 writeback)"; }
data() { dd if=/dev/zram0 bs=64k count=256 iflag=direct 2>/dev/null | md5sum; }
data_buffered() {
	echo 3 >/proc/sys/vm/drop_caches
	dd if=/dev/zram0 bs=4k count=4096 2>/dev/null | md5sum
}

# In MiB: 0 to 7 text; 8 to 11 random, which is raw; 12 to 15 zeros.
text_pages 2048 >/tmp/data
dd if=/dev/urandom bs=1M count=4 2>/dev/null >>/tmp/data
dd if=/dev/zero bs=1M count=4 2>/dev/null >>/tmp/data
want=$(md5sum </tmp/data)
size=256M
fresh() { # compressed_writeback [DEVICE]
	put 1 "$(z 0 reset)"
	put "$1" "$(z 0 compressed_writeback)" && put "${2:-/dev/loop0}" "$(z 0 backing_dev)" &&
		put "$size" "$(z 0 disksize)" && dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct 2>/dev/null
}

refuse "no size yet" back idle
put "$size" "$(z 0 disksize)"
refuse "no backing device" back idle
put 1 "$(z 0 reset)"
refuse "a folder is no device" put /tmp "$(z 0 backing_dev)"
refuse "a file is no device" put /tmp/data "$(z 0 backing_dev)"
refuse "nor is what is not there" put /dev/nothing "$(z 0 backing_dev)"
refuse "nor itself" put /dev/zram0 "$(z 0 backing_dev)"
equal "none is set" "$(cat "$(z 0 backing_dev)")" none
# An open of this very disk takes a lock that who checks it takes, too.  No process is made
# meanwhile.
if is_ebb; then
	back=$(z 0 backing_dev)
	( i=0; while [ $i -lt 5000 ]; do printf /dev/zram0 >"$back"; i=$((i + 1)); done ) 2>/dev/null & a=$!
	( i=0; while [ $i -lt 5000 ]; do
		read -r _ </sys/kernel/debug/zram/zram0/check
		i=$((i + 1))
	done ) & b=$!
	within "nor itself while it is checked" 60 sh -c "! kill -0 $a && ! kill -0 $b"
fi

loop 64
for packed in 0 1; do
	check "mode $packed: a loop device" fresh $packed
	equal "it is named" "$(cat "$(z 0 backing_dev)")" /dev/loop0
	refuse "nobody else has it" sh -c 'exec 3<>/dev/loop0; mkswap /dev/loop0 && swapon /dev/loop0'
	refuse "not changed in use" put /dev/loop0 "$(z 0 backing_dev)"
	orig=$(mm 0 1) compr=$(mm 0 2) raw=$(mm 0 8) same=$(mm 0 6)
	for wrong in other type=other page_index=x page_index=99999999 page_indexes=1 \
		page_indexes=2-1 page_indexes=1-99999999 "page_index=1 other"; do
		refuse "'$wrong' is refused" back "$wrong"
	done
	equal "nothing was written" "$(cat "$(z 0 bd_stat)")" "       0        0        0"
	check "nothing is idle" back idle
	equal "so nothing was written" "$(bd 3)" 0
	check "raw pages" back huge
	equal "went, each to a block" "$(bd 1) $(bd 3)" "$((raw * units)) $((raw * units))"
	equal "none is left" "$(mm 0 8)" 0
	equal "they are still stored" "$(mm 0 1)" "$orig"
	equal "block_state knows" "$(awk 'index($3, "w") && index($3, "h")' $state | wc -l)" "$raw"
	check "those again: nothing" back huge
	equal "was written" "$(bd 3)" $((raw * units))
	equal "all reads as it was" "$(data)" "$want"
	equal "reads were counted" "$(bd 2)" $((raw * units))
	equal "a block at a time, too" "$(data_buffered)" "$want"
	put all "$(z 0 idle)"
	merged=$(awk '{ print $6 }' /sys/block/loop0/stat)
	check "idle pages" back type=idle
	! is_ebb || check "went as requests of several pages" \
		[ "$(awk '{ print $6 }' /sys/block/loop0/stat)" -gt $((merged + 1024 / units)) ]
	equal "no object is left" "$(mm 0 2)" 0
	equal "all but zeros are blocks" "$(bd 1)" $((12 * 256))
	equal "zeros are here" "$(mm 0 6)" "$same"
	equal "all reads as it was" "$(data)" "$want"
	equal "a block at a time, too" "$(data_buffered)" "$want"
	invariants 0
	# Some freed, some written anew, the rest stays.
	blkdiscard -o 0 -l $((2 << 20)) /dev/zram0
	equal "a discard frees blocks" "$(bd 1)" $((10 * 256))
	dd if=/tmp/data of=/dev/zram0 bs=1M count=4 oflag=direct 2>/dev/null
	equal "a write, too" "$(bd 1)" $((8 * 256))
	equal "all reads as it was" "$(data)" "$want"
	check "pages by number" back "page_index=1 page_indexes=3-5"
	equal "went" "$(bd 1)" $((8 * 256 + 4 * units))
	equal "all reads as it was" "$(data)" "$want"
	invariants 0
done

# ---- limit ----
fresh 0
put 1 "$(z 0 writeback_limit_enable)"
refuse "a limit of 0" back huge
equal "nothing was written" "$(bd 3)" 0
put 64 "$(z 0 writeback_limit)"
refuse "a limit that is reached" back huge
equal "is kept to" "$(bd 3) $(cat "$(z 0 writeback_limit)")" "64 0"
put 1000000 "$(z 0 writeback_limit)"
check "a limit that is not" back huge
equal "is counted down" "$(cat "$(z 0 writeback_limit)")" $((1000000 - 1024 + 64))
put 0 "$(z 0 writeback_limit_enable)"
equal "all reads as it was" "$(data)" "$want"

# ---- a full device ----
put 1 "$(z 0 reset)"
loop 1
fresh 0
refuse "a device that is too small" back "page_indexes=0-$((3072 / units - 1))"
equal "is full" "$(bd 1)" 256
equal "of raw pages, as the largest ones" "$(mm 0 8)" $((1024 / units - 256 / units))
equal "all reads as it was" "$(data)" "$want"
blkdiscard -o $((8 << 20)) -l $((4 << 20)) /dev/zram0
equal "room again" "$(bd 1)" 0
check "for others" back "page_indexes=0-$((256 / units - 1))"
equal "which are there" "$(bd 1)" 256
blkdiscard /dev/zram0
equal "nothing is left" "$(bd 1)" 0
invariants 0

# ---- beside everything, by threads that check what they read ----
for packed in 0 1; do
	put 1 "$(z 0 reset)"; loop 64; fresh $packed; blkdiscard /dev/zram0
	put $((1 + 30 * packed)) "$(z 0 writeback_batch_size)"
	: >/tmp/go
	while [ -e /tmp/go ]; do back "page_indexes=0-$((6000 / units))"; sleep 0.02; done &
	writer=$!
	check "mode $packed: random I/O beside it, every page checked" \
		blkcheck /dev/zram0 --mb 24 --threads 4 --ms $((4000 * SCALE))
	rm -f /tmp/go; wait $writer
	check "pages were written and read ($(cat "$(z 0 bd_stat)"))" [ "$(bd 2)" -gt 0 ]
	invariants 0
	blkdiscard /dev/zram0
	equal "no block is left" "$(bd 1)" 0
done
put 32 "$(z 0 writeback_batch_size)"

# ---- swap ----
for packed in 0 1; do
	put 1 "$(z 0 reset)"; loop 160; fresh $packed; blkdiscard /dev/zram0
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
	: >/tmp/go
	while [ -e /tmp/go ]; do put all "$(z 0 idle)"; back idle; sleep 0.1; done &
	writer=$!
	check "mode $packed: swap beside it" swapcheck --mb 96 --procs 2 --passes $((2 * SCALE)) --forks 1
	swapcheck --mb 96 --procs 2 --passes 50 >/dev/null 2>&1 & victim=$!
	sleep 2; kill -9 $victim; wait $victim 2>/dev/null
	rm -f /tmp/go; wait $writer
	check "pages were written and read ($(cat "$(z 0 bd_stat)"))" [ "$(bd 2)" -gt 0 ]
	swapoff /dev/zram0
	invariants 0
done

# ---- a device that fails ----
modprobe dm-mod 2>/dev/null; modprobe dm-flakey 2>/dev/null; modprobe dm-delay 2>/dev/null
if [ -e /dev/mapper/control ]; then
	put 1 "$(z 0 reset)"; loop 64
	sectors=$((64 * 2048))
	good() { dmtable back $sectors flakey /dev/loop0 0 1 0; }
	# Down all the time, for what is named.
	bad() { dmtable back $sectors flakey /dev/loop0 0 0 1 1 "$1" >/dev/null; }
	n=$(good)
	for packed in 0 1; do
		check "mode $packed: through the device mapper" fresh $packed "/dev/dm-$n"
		put 1 "$(z 0 writeback_limit_enable)"; put 100000 "$(z 0 writeback_limit)"
		bad error_writes
		refuse "writes that fail are said" back huge
		equal "no block is lost" "$(bd 1) $(bd 3)" "0 0"
		equal "nor the limit" "$(cat "$(z 0 writeback_limit)")" 100000
		good >/dev/null
		check "they go once it is well" back huge
		equal "all of them" "$(bd 1)" 1024
		# The kernel passes over messages that come in numbers for five seconds.
		sleep $((5 * packed))
		bad error_reads; dmesg -c >/dev/null
		refuse "reads that fail are said" dd if=/dev/zram0 of=/dev/null bs=4096 skip=2100 count=4 iflag=direct
		! is_ebb || check "so does the log" sh -c "dmesg | grep -q 'zram0: block .* cannot be read'"
		refuse "in large pieces, too" dd if=/dev/zram0 of=/dev/null bs=1M skip=8 count=2 iflag=direct
		check "others are read" dd if=/dev/zram0 of=/dev/null bs=1M count=8 iflag=direct
		good >/dev/null
		equal "all reads as it was" "$(data)" "$want"
		put 0 "$(z 0 writeback_limit_enable)"
		invariants 0
		put 1 "$(z 0 reset)"
	done
	# A slow one: a kill, a reset.  In-tree writes on to the end.
	if is_ebb; then
	dmtable back >/dev/null
	n=$(dmtable back $sectors delay /dev/loop0 0 20)
	fresh 0 "/dev/dm-$n"; put 1 "$(z 0 writeback_batch_size)"
	sh -c "printf huge >$(z 0 writeback)" 2>/dev/null & slow=$!
	sleep 0.5
	check "mm_stat is shown meanwhile" timeout 2 cat "$(z 0 mm_stat)"
	t=$(date +%s); kill -9 $slow; wait $slow 2>/dev/null
	check "a kill ends it soon" [ $(($(date +%s) - t)) -le 3 ]
	check "some went" [ "$(bd 3)" -gt 0 ]
	check "and some did not" [ "$(bd 3)" -lt 1024 ]
	w=$(bd 3)
	check "one page" back page_index=1
	equal "is all that goes then" $(($(bd 3) - w)) $units
	invariants 0
	sh -c "printf huge >$(z 0 writeback)" 2>/dev/null & slow=$!
	sleep 0.3
	t=$(date +%s)
	check "a reset meanwhile" put 1 "$(z 0 reset)"
	check "takes no longer" [ $(($(date +%s) - t)) -le 10 ]      # all of it: 20 s and more
	wait $slow
	# One that does not answer for 10 s: who waits for what is in flight can be killed
	# meanwhile.
	dmtable back $sectors delay /dev/loop0 0 0 /dev/loop0 0 10000 >/dev/null
	fresh 0 "/dev/dm-$n"
	sh -c "printf page_index=2100 >$(z 0 writeback)" 2>/dev/null & slow=$!
	sleep 0.5
	sh -c "printf 1 >$(z 0 reset)" 2>/dev/null & reset=$!
	sleep 0.5
	t=$(date +%s); kill -9 $reset; wait $reset 2>/dev/null
	check "a reset that waits for it can be killed" [ $(($(date +%s) - t)) -le 3 ]
	check "the device is as it was" [ "$(cat "$(z 0 disksize)")" -gt 0 ]
	sh -c "printf 0 >/sys/class/zram-control/hot_remove" 2>/dev/null & reset=$!
	sleep 0.5
	t=$(date +%s); kill -9 $reset; wait $reset 2>/dev/null
	check "so can a removal" [ $(($(date +%s) - t)) -le 3 ]
	check "and the device is there" [ -e "$(z 0 disksize)" ]
	wait $slow
	equal "all reads as it was" "$(data)" "$want"
	put 32 "$(z 0 writeback_batch_size)"
	# Writes that fail when the limit is another by then.
	put 1 "$(z 0 reset)"; dmtable back
	bad=$(dmtable bad $sectors error)
	n=$(dmtable back $sectors delay /dev/dm-$bad 0 0 /dev/dm-$bad 0 2000)
	fresh 0 "/dev/dm-$n"
	# late ON LIMIT COMMAND...: the limit after pages failed, with the command meanwhile.
	late() {
		put "$1" "$(z 0 writeback_limit_enable)"; put "$2" "$(z 0 writeback_limit)"; shift 2
		back page_indexes=2100-2115 & slow=$!
		sleep 0.5; "$@"; wait $slow
		cat "$(z 0 writeback_limit)"
	}
	equal "what was not taken does not go back" "$(late 0 0 put 1 "$(z 0 writeback_limit_enable)")" 0
	equal "nor to another limit" "$(late 1 1024 put 2048 "$(z 0 writeback_limit)")" 2048
	equal "what was does" "$(late 1 1024 put 0 "$(z 0 writeback_limit_enable)")" 1024
	put 1 "$(z 0 reset)"; dmtable back; dmtable bad
	fi
	put 1 "$(z 0 reset)"
	dmtable back
else
	skip "a device that fails" "this kernel has no device mapper"
fi
finish_loop
