#!/bin/sh
# Pages go to the backing device before their room is asked for: which, how many, and that they are
# read.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G timeout=300 progs=blkcheck,swapcheck tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
need_loop "writeback_high" writeback_high

. /lib_auto.sh
takes_at_most() { [ "$(used 0)" -le "$1" ]; } # BYTES

loop 128
# ---- ahead of need ----
for packed in 0 1; do
	fresh $packed 0
	put 12M "$(z 0 writeback_high)"; put 6M "$(z 0 writeback_low)"
	refuse "a mark is a size" put much "$(z 0 writeback_high)"
	equal "the marks are shown" "$(cat "$(z 0 writeback_high)") $(cat "$(z 0 writeback_low)")" \
		"$((12 << 20)) $((6 << 20))"
	dd if=/tmp/data of=/dev/zram0 bs=1M count=12 oflag=direct 2>/dev/null
	equal "below the high mark nothing is written" "$(policy 7) $(bd 3)" "0 0"
	# A round that is over leaves what is written later alone, so nothing is, past the mark.
	n=12
	while [ $n -lt 20 ] && [ "$(policy 7)" = 0 ] && takes_at_most $((12 << 20)); do
		dd if=/tmp/data of=/dev/zram0 bs=1M seek=$n skip=$n count=1 oflag=direct 2>/dev/null
		n=$((n + 1))
	done
	check "the high mark is passed ($n MiB)" [ $n -lt 20 ]
	within "mode $packed: pages are written until it is at the low mark" 60 \
		takes_at_most $((7 << 20))
	within "and not much more" 5 sh -c "[ \$(awk '{ print \$10 }' $(z 0 policy_stat)) = 0 ]"
	check "than that ($(used 0))" [ "$(used 0)" -ge $((4 << 20)) ]
	# Beside a writer it would not hold: what is large is counted before all of it is there.
	equal "the largest go first: text is here" "$(awk '$1 < 1024 && index($3, "w")' $state | wc -l)" 0
	check "above it, all is" write
	within "and goes below the high mark" 60 takes_at_most $((12 << 20))
	equal "none went there itself" "$(policy 8)" 0
	equal "all is read" "$(data)" "$want"
	blocks "mode $packed"
	# What nobody touched goes before what was just read.
	put all "$(z 0 idle)"
	dd if=/dev/zram0 of=/dev/null bs=1M count=8 iflag=direct 2>/dev/null
	put 1M "$(z 0 writeback_low)"; put 2M "$(z 0 writeback_high)"
	within "a lower mark holds at once" 60 takes_at_most $((2 << 20))
	blocks "mode $packed"
	check "I/O while it goes on, every page checked" \
		blkcheck /dev/zram0 --mb 48 --threads 8 --ms $((3000 * SCALE))
	equal "no write failed" "$(failed_writes)" 0
	blocks "mode $packed"
	put 0 "$(z 0 writeback_high)"; put 0 "$(z 0 writeback_low)"
	fresh $packed 16M
	check "marks follow from the limit" write
	within "and are kept to" 60 takes_at_most $((15 << 20))
	blocks "mode $packed"
done

# ---- swap, which finds room all the time ----
for packed in 0 1; do
	put 1 "$(z 0 reset)"; loop 200
	fresh $packed 8M
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
	check "mode $packed: swap" swapcheck --mb 48 --procs 4 --passes $((2 * SCALE)) --forks 1
	equal "no write failed" "$(failed_writes)" 0
	check "pages were written ahead" [ "$(policy 7)" -gt 0 ]
	note "policy_stat $(cat "$(z 0 policy_stat)")"
	swapoff /dev/zram0
	blocks "mode $packed, after swap"
done

# ---- memory that is short, with no mark at all: old pages go ----
put 1 "$(z 0 reset)"; loop 128
fresh 0 0
check "without marks" write
within "pages get old" 60 sh -c "[ \$(awk '{ print \$1 }' $(z 0 policy_stat)) -ge 3 ]"
equal "nothing is written for that" "$(bd 3)" 0
mkdir /tmp/full; mount -t tmpfs -o size=100% none /tmp/full
megabytes() { awk '$1 == "'"$1"':" { print int($2 / 1024) }' /proc/meminfo; }
# The kernel asks its shrinkers, as if it reclaimed.  What they give back is taken, too.
short_and_written() {
	_more=$(($(megabytes MemAvailable) - $(megabytes MemTotal) / 22))
	[ $_more -le 0 ] || dd if=/dev/zero bs=1M count=$_more >>/tmp/full/file 2>/dev/null
	echo 2 >/proc/sys/vm/drop_caches
	[ "$(policy 7)" -gt 0 ]
}
within "memory is short: pages are written" 60 short_and_written
umount /tmp/full
equal "all is read" "$(data)" "$want"
blocks "short of memory"

# ---- what keeps it from that ----
put 1 "$(z 0 reset)"; loop 4
fresh 0 8M
refuse "a device that is full" write
check "is full ($(bd 1))" [ "$(bd 1)" -ge $((4 * 256 - 64)) ]
blkdiscard /dev/zram0
put 1 "$(z 0 reset)"; loop 128
fresh 0 0
put 0 "$(z 0 writeback_limit)"; put 1 "$(z 0 writeback_limit_enable)"
put 4M "$(z 0 writeback_high)"
check "a limit of 0: nothing is written, nothing fails" write
sleep 2
equal "not one page" "$(bd 3)" 0
put 0 "$(z 0 writeback_limit_enable)"
within "and soon they are" 30 takes_at_most $((4 << 20))
equal "all is read" "$(data)" "$want"
blocks "after a limit"
# Turned off, and reset, in the middle.
for what in "put 0 $(z 0 writeback_auto)" "put 1 $(z 0 reset)"; do
	fresh 0 0; put 1M "$(z 0 writeback_high)"
	write 2>/dev/null
	check "$what, at any time" $what
done
# What a write without room asked for, a reset takes back.
put 1 "$(z 0 reset)"; loop 4
fresh 0 8M; write 2>/dev/null; write 2>/dev/null
put 1 "$(z 0 reset)"; loop 128
fresh 0 0
put 8 "$(z 0 recompress_age)"            # so that the thread looks each second
dd if=/tmp/data of=/dev/zram0 bs=1M count=8 oflag=direct 2>/dev/null
sleep 4
equal "nothing is written that nobody asked for" "$(bd 3)" 0
finish_loop
