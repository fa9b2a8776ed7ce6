#!/bin/sh
# What a device does by itself: pages written back and recompressed for their age, within a budget.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G timeout=420 progs=blkcheck,swapcheck,dmtable tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
need_loop "the policy" policy_stat

data() { dd if=/dev/zram0 bs=64k count=256 iflag=direct 2>/dev/null | md5sum; }
threads() { cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^zram0-policy$'; }
# In MiB: 0 to 3 text; 4 to 7 hexadecimal digits, which lz4 leaves raw; 8 to 11 random; 12 to 15
# zeros.
text_pages 1024 >/tmp/data
dd if=/dev/urandom bs=1M count=2 2>/dev/null | od -An -v -tx1 | tr -d ' \n' >>/tmp/data
dd if=/dev/urandom bs=1M count=4 2>/dev/null >>/tmp/data
dd if=/dev/zero bs=1M count=4 2>/dev/null >>/tmp/data
want=$(md5sum </tmp/data)
objects=$((12 * slots))
fill() { dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct 2>/dev/null; }
fresh() { # compressed_writeback [DEVICE]; nothing is on
	put 1 "$(z 0 reset)"; put lz4 "$(z 0 comp_algorithm)"; put algo=zstd "$(z 0 recomp_algorithm)"
	put "$1" "$(z 0 compressed_writeback)" && put "${2:-/dev/loop0}" "$(z 0 backing_dev)" &&
		put 256M "$(z 0 disksize)"
}
# Hundredths of a second of CPU time that the thread took.
ticks() {
	awk '{ print $14 + $15 }' "$(policy_thread)"
}

# ---- the files ----
equal "nothing is on at first" "$(cd "$(z 0 .)" &&
	cat writeback_age recompress_age writeback_budget recompress_cpu | tr '\n' ' ')" "0 0 0 10 "
for f in writeback_age recompress_age; do
	for wrong in -1 x 1s 4294967296 ''; do
		[ -z "$wrong" ] || refuse "$f: '$wrong' is refused" put "$wrong" "$(z 0 $f)"
	done
done
for wrong in 0 101 -1 x; do
	refuse "recompress_cpu: '$wrong' is refused" put "$wrong" "$(z 0 recompress_cpu)"
done
for wrong in x 1Mx -1x; do
	refuse "writeback_budget: '$wrong' is refused" put "$wrong" "$(z 0 writeback_budget)"
done
check "a budget in words" put 3M "$(z 0 writeback_budget)"
equal "is bytes" "$(cat "$(z 0 writeback_budget)")" 3145728
put 0 "$(z 0 writeback_budget)"
equal "nothing was done" "$(cat "$(z 0 policy_stat)" | tr -s ' ')" " 0 0 0 0 0 0 0 0 0 0"
check "an age before there is a size" put 4000000000 "$(z 0 writeback_age)"
equal "makes no thread" "$(threads)" 0
setup 0 16M
equal "a reset takes it back" "$(cat "$(z 0 writeback_age)")" 0
equal "without any there is no thread" "$(threads)" 0
check "an age of a device in use" put 1 "$(z 0 writeback_age)"
equal "makes one" "$(threads)" 1
put 5 "$(z 0 recompress_age)"
equal "and no other" "$(threads)" 1
# There is neither a backing device nor a second algorithm.
within "pages age without a use for that" 10 over policy 1 3
equal "while it rests it is as soon awake as any thread" "$(awk '{ print $19 }' \
	"$(policy_thread)")" 0
put 1 "$(z 0 reset)"
equal "a reset ends it" "$(threads)" 0
put 1 "$(z 0 writeback_age)"; put 1T "$(z 0 disksize)"; sleep 4
check "a large disk with nothing on it ages in steps as short ($(policy 1))" [ "$(policy 1)" -ge 3 ]
put 1 "$(z 0 reset)"
put 1 "$(z 0 writeback_age)"; put 16M "$(z 0 disksize)"
equal "the other way round there is one, too" "$(threads)" 1

# ---- pages that nobody touches go to the device ----
loop 64
for packed in 0 1; do
	fresh $packed; fill
	put all "$(z 0 idle)"
	dd if=/dev/zram0 bs=1M count=1 iflag=direct 2>/dev/null >/dev/null
	idle=$(flags i)
	put 3 "$(z 0 writeback_age)"
	# The first MiB is read all the time.
	: >/tmp/go
	while [ -e /tmp/go ]; do
		dd if=/dev/zram0 of=/dev/null bs=1M count=1 iflag=direct 2>/dev/null; sleep 0.3
	done & reader=$!
	sleep 1.5
	equal "mode $packed: before its time none goes" "$(bd 1)" 0
	equal "ageing leaves the marks of idle pages alone" "$(flags i)" "$idle"
	within "pages of that age go" 20 is policy 6 $((objects - slots))
	sleep 2
	equal "all but those that are read" "$(bd 1) $(bd 2)" "$(((objects - slots) * units)) 0"
	gone=$((objects - slots))
	equal "each is counted" "$(bd 3) $(policy 6) $(policy 9)" \
		"$((gone * units)) $gone $((gone * pagesize))"
	rm -f /tmp/go; wait $reader
	within "which go when nobody reads them" 20 is bd 1 $((objects * units))
	equal "all reads as it was" "$(data)" "$want"
	put 0 "$(z 0 writeback_age)"
	invariants 0
	modprobe -r zram && load      # what was written is counted until then
done

# ---- a budget, and the limit ----
fresh 0; fill
put 1M "$(z 0 writeback_budget)"; put 1 "$(z 0 writeback_age)"
within "a budget is spent" 20 is policy 9 1048576
sleep 3
equal "and kept to" "$(bd 3)" 256
check "by hand pages go all the same" put "page_indexes=0-$((objects - 1))" "$(z 0 writeback)"
equal "and count" "$(policy 9)" $((objects * pagesize))
fill
put $((objects * pagesize + 1048576 + 1))  "$(z 0 writeback_budget)"
within "more budget, and they go" 20 is bd 3 $(((objects + slots) * units))
put 1 "$(z 0 reset)"
equal "what was written counts beyond a reset" "$(policy 9) $(cat "$(z 0 writeback_budget)")" \
	"$(((objects + slots) * pagesize)) $((objects * pagesize + 1048576 + 1))"
put 0 "$(z 0 writeback_budget)"
put 64 "$(z 0 writeback_limit)"; put 1 "$(z 0 writeback_limit_enable)"
fresh 0; fill
put 1 "$(z 0 writeback_age)"
within "the limit holds for it" 20 is bd 3 64
sleep 3
equal "and is used up" "$(bd 3) $(cat "$(z 0 writeback_limit)")" "64 0"
put 0 "$(z 0 writeback_limit_enable)"
within "without it all go" 20 is bd 1 $((objects * units))
equal "all reads as it was" "$(data)" "$want"
put 1 "$(z 0 reset)"; loop 1
fresh 0; put 1 "$(z 0 writeback_age)"; fill
within "a small device is filled" 20 is bd 1 256
sleep 2
equal "all reads as it was" "$(data)" "$want"
blkdiscard -o 0 -l $((12 << 20)) /dev/zram0; fill
within "and filled again" 20 is bd 1 256
invariants 0

# ---- recompression ----
case " $(codecs) " in *" lz4 "*" zstd "*)
	put 1 "$(z 0 reset)"; loop 64; fresh 1; fill
	was=$(mm 0 2)
	put 1 "$(z 0 recompress_cpu)"; put 1 "$(z 0 recompress_age)"
	within "old pages are recompressed" 20 over policy 3 15
	[ "$(policy 3)" -lt $objects ] || note "1 % of a CPU was enough for all"
	put 100 "$(z 0 recompress_cpu)"
	within "each of them" 30 is policy 3 $objects
	check "to less ($was, then $(mm 0 2))" [ "$(mm 0 2)" -lt "$was" ]
	equal "by as much as is said" "$(policy 5)" $((was - $(mm 0 2)))
	equal "the rest is incompressible" "$(policy 4)" $((objects - $(flags n)))
	a=$(ticks); sleep 3; b=$(ticks)
	equal "none is tried twice" "$(policy 3)" $objects
	check "who has nothing to do does nothing ($((b - a)) of 300)" [ $((b - a)) -le 15 ]
	put 1 "$(z 0 writeback_age)"
	within "then they go to the device" 20 is bd 1 $((objects * units))
	equal "all reads as it was" "$(data)" "$want"
	put 1 "$(z 0 reset)"
	# In CPU time: the thread's share of ten seconds, in hundredths.
	fresh 0; fill; i=16; while [ $i -lt 128 ]; do
		dd if=/tmp/data of=/dev/zram0 bs=1M count=4 seek=$i oflag=direct 2>/dev/null
		i=$((i + 4))
	done
	put 5 "$(z 0 recompress_cpu)"; put 1 "$(z 0 recompress_age)"
	within "with 5 % of a CPU, too" 20 over policy 3 31
	a=$(ticks); sleep 5; b=$(ticks)
	note "$((b - a)) hundredths of 5 s, $(policy 3) pages tried"
	check "it takes no more ($((b - a)) of 500)" [ $((b - a)) -le 60 ]
	# Ten units a second, 16 pages each, while somebody reads; what is read are empty slots, of
	# no age. (Two readers, since one has to begin anew; a machine that is busy itself makes
	# gaps, too.)
	fresh 0; fill; put 100 "$(z 0 recompress_cpu)"
	: >/tmp/go
	for i in 1 2; do
		while [ -e /tmp/go ]; do
			dd if=/dev/zram0 of=/dev/null bs=4k skip=$((16 * 256)) iflag=direct \
				2>/dev/null
		done &
	done
	put 1 "$(z 0 recompress_age)"
	within "it goes on while the disk is read" 20 over policy 3 15
	a=$(policy 3); sleep 2; b=$(policy 3)
	check "but slowly ($((b - a)) pages in 2 s)" [ $((b - a)) -le $((objects / 2)) ]
	rm -f /tmp/go; wait
	within "and at once when it is not" 20 is policy 3 $objects
	;;
*) skip "recompression" "it takes lz4 and zstd" ;;
esac

# ---- beside everything, by threads that check what they read ----
all_on() {
	put 3 "$(z 0 writeback_age)"; put 1 "$(z 0 recompress_age)"; put 50 "$(z 0 recompress_cpu)"
}
for packed in 0 1; do
	put 1 "$(z 0 reset)"; loop 64; fresh $packed; all_on
	# By hand and by itself at once, and the files written at any time.
	: >/tmp/go
	while [ -e /tmp/go ]; do
		put all "$(z 0 idle)"; put idle "$(z 0 writeback)"; put algo=zstd "$(z 0 recompress)"
		put 0 "$(z 0 writeback_age)"; put 2 "$(z 0 recompress_age)"; sleep 0.3
		put 0 "$(z 0 recompress_age)"; sleep 0.1; all_on; sleep 5
	done & hand=$!
	check "mode $packed: random I/O beside it, every page checked" \
		blkcheck /dev/zram0 --mb 64 --threads 2 --ms $((12000 * SCALE)) --keep
	rm -f /tmp/go; wait $hand
	note "$(cat "$(z 0 policy_stat)")"
	invariants 0
	put 1 "$(z 0 reset)"
	loop 160; fresh $packed; all_on
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
	check "mode $packed: swap beside it" swapcheck --mb 96 --procs 2 --passes $((2 * SCALE)) --forks 1
	swapcheck --mb 96 --procs 2 --passes 50 >/dev/null 2>&1 & victim=$!
	sleep 4
	check "swapoff while it is at work" swapoff /dev/zram0
	kill -9 $victim; wait $victim 2>/dev/null
	invariants 0
done

# ---- a device that fails ----
modprobe dm-mod 2>/dev/null; modprobe dm-flakey 2>/dev/null; modprobe dm-delay 2>/dev/null
if [ -e /dev/mapper/control ]; then
	put 1 "$(z 0 reset)"; loop 64
	sectors=$((64 * 2048))
	n=$(dmtable back $sectors flakey /dev/loop0 0 0 1 1 error_writes)
	fresh 0 "/dev/dm-$n"; fill; before=$(policy 9)
	put 1 "$(z 0 writeback_age)"
	within "writes to a device that fails are tried" 20 over policy 9 "$before"
	sleep 1
	equal "none was written" "$(bd 3) $(policy 6)" "0 0"
	within "no block is lost to it" 10 is bd 1 0
	equal "all reads as it was" "$(data)" "$want"
	dmtable back $sectors flakey /dev/loop0 0 1 0 >/dev/null
	within "they go once it is well" 30 is bd 1 $((objects * units))
	equal "all reads as it was" "$(data)" "$want"
	put 1 "$(z 0 reset)"; dmtable back
	# A slow one: whoever asks by hand, or resets, waits for a unit.
	n=$(dmtable back $sectors delay /dev/loop0 0 20)
	fresh 0 "/dev/dm-$n"; fill; put 1 "$(z 0 writeback_age)"
	within "a slow device takes some" 20 over bd 3 0
	check "mm_stat is shown meanwhile" timeout 2 cat "$(z 0 mm_stat)"
	check "pages are recompressed by hand" timeout 5 sh -c "printf algo=zstd >$(z 0 recompress)"
	t=$(date +%s)
	check "a reset meanwhile" put 1 "$(z 0 reset)"
	check "is soon" [ $(($(date +%s) - t)) -le 3 ]
	dmtable back
else
	skip "a device that fails" "this kernel has no device mapper"
fi

# ---- ends ----
put 1 "$(z 0 reset)"; loop 64
i=0; while [ $i -lt $((5 * SCALE)) ]; do
	fresh $((i % 2)); all_on; fill; sleep 0.$((i % 10))
	put 1 "$(z 0 reset)" || not_ok "a reset while it is at work"
	i=$((i + 1))
done
ok "resets while it is at work"
fresh 0; all_on; fill; sleep 1.5
check "hot_remove while it is at work" put 0 /sys/class/zram-control/hot_remove
equal "leaves no thread" "$(threads)" 0
cat /sys/class/zram-control/hot_add >/dev/null
fresh 1; all_on; fill; sleep 1.5
check "the module unloads while it is at work" modprobe -r zram
equal "and leaves no thread" "$(threads)" 0
check "and comes back" load
finish_loop
