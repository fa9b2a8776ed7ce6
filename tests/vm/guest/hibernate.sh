#!/bin/sh
# Hibernation while pages are written back and recompressed: nothing is written between the image
# and the resume, and nothing is lost.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=stock-6.12,stock-7.3 mem=640M timeout=150 disks=96M,1G
# vm: progs=freeze,blkcheck,swapcheck,dmtable tools=mkswap,swapon,swapoff
. /lib.sh
load num_devices=2 || { not_ok "zram loads"; exit 1; }
[ -e "$(z 0 writeback)" ] || { skip "hibernation" "this zram has no writeback"; finish; }
for m in virtio_blk dm-mod dm-delay; do modprobe $m 2>/dev/null; done
[ -e /dev/vdb ] && [ -e /dev/snapshot ] || { skip "hibernation" "this kernel has none"; finish; }

# A slow one, so that a writeback of all takes longer than a freeze may: 20 s.
n=$(dmtable back $((96 * 2048)) delay /dev/vda 0 0 /dev/vda 0 20)
fresh() { # compressed_writeback DEVICE
	put 1 "$(z 0 reset)"; put lzo "$(z 0 comp_algorithm)"; put "algo=zstd" "$(z 0 recomp_algorithm)"
	put "$1" "$(z 0 compressed_writeback)"; put "$2" "$(z 0 backing_dev)"; put 512M "$(z 0 disksize)"
}
# Whoever writes to these files writes again as soon as he is through.
keep_on() { # FILE WORDS
	while [ -e /tmp/go ]; do put "$2" "$(z 0 "$1")"; sleep 0.02; done
}
busy() {
	: >/tmp/go
	keep_on writeback huge & a=$!
	keep_on recompress "type=idle" & b=$!
	while [ -e /tmp/go ]; do put all "$(z 0 idle)"; sleep 0.5; done & c=$!
}
rest() { rm -f /tmp/go; wait $a $b $c; }
# still FILE FIELD: 1 if it was the same twice.
still() {
	awk -v f="$1:" -v k="$2" -F ': *| [|] *' \
		'index($0, f) { split($2, a, " "); split($3, b, " "); print (a[k] == b[k]) }' /tmp/frozen
}

# ---- frozen in the middle ----
text_pages 8192 >/tmp/data
dd if=/dev/urandom bs=1M count=16 2>/dev/null >>/tmp/data
want=$(md5sum </tmp/data)
for packed in 0 1; do
	fresh $packed "/dev/dm-$n"; put 2 "$(z 0 writeback_batch_size)"
	dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct 2>/dev/null
	put all "$(z 0 idle)"
	put type=idle "$(z 0 recompress)" & one=$!
	sleep 0.2
	check "mode $packed: frozen while pages are recompressed" freeze 1 "$(z 0 mm_stat)"
	wait $one
	busy
	for i in 1 2; do
		sleep 1
		freeze 2 "$(z 0 bd_stat)" "$(z 0 mm_stat)" "/sys/block/dm-$n/inflight" \
			"/sys/block/dm-$n/stat" >/tmp/frozen 2>&1
		equal "mode $packed: frozen while pages are written ($(sed -n 1p /tmp/frozen))" $? 0
		sed 's/^/# /' /tmp/frozen
		# Of mm_stat what is stored: what was freed before may be given back meanwhile.
		equal "blocks and writes stand still" "$(still bd_stat 1) $(still bd_stat 3)" "1 1"
		equal "what is stored stands still" "$(still mm_stat 1) $(still mm_stat 2)" "1 1"
		equal "the disk has nothing to write" "$(still dm-$n/stat 5)" 1
		equal "nothing is in flight" "$(sed -n 's/.*inflight: *//p' /tmp/frozen | tr -s ' |' ' ')" \
			"0 0 0 0"
	done
	w=$(bd 3)
	within "and it goes on" 10 sh -c "[ \$(awk '{ print \$3 }' $(z 0 bd_stat)) -gt $w ]"
	rest
	equal "all reads as it was" "$(dd if=/dev/zram0 bs=1M count=48 iflag=direct 2>/dev/null | md5sum)" "$want"
	invariants 0
done
put 1 "$(z 0 reset)"
dmtable back

# ---- the whole: an image on a disk, and back from it ----
rm -f /tmp/data
if grep -q test_resume /sys/power/disk; then
	mkswap /dev/vdb >/dev/null; swapon -p 1 /dev/vdb
	cat /sys/block/vdb/dev >/sys/power/resume 2>/dev/null
	echo test_resume >/sys/power/disk
	for packed in 0 1; do
		fresh $packed /dev/vda
		mkswap /dev/zram0 >/dev/null; swapon -p 100 /dev/zram0
		setup 1 64M
		busy
		swapcheck --mb 16 --procs 2 --passes 2 --forks 1 --loop 15 \
			>/tmp/swap.out 2>&1 & s=$!
		blkcheck /dev/zram1 --mb 16 --threads 2 --ms 15000 >/tmp/blk.out 2>&1 & k=$!
		sleep 3
		w=$(bd 3)
		check "mode $packed: there and back again" put disk /sys/power/state
		# Of the pages of one more, for the others may have come to their end.
		within "and it goes on" 5 sh -c "swapcheck --mb 16 --procs 2 --passes 1 --forks 0
			[ \$(awk '{ print \$3 }' $(z 0 bd_stat)) -gt $w ]"
		wait $s; equal "swap: every page is right ($(tail -n 1 /tmp/swap.out))" $? 0
		wait $k; equal "raw: every page is right ($(tail -n 1 /tmp/blk.out))" $? 0
		rest
		note "bd_stat $(cat "$(z 0 bd_stat)")"
		check "swapoff" swapoff /dev/zram0
		invariants 0
		invariants 1
	done
	swapoff /dev/vdb
else
	skip "an image and back" "this kernel cannot resume from it in the same boot"
fi
finish
