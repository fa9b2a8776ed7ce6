#!/bin/sh
# `ebb tierd` over the files of real devices, in-tree's and Ebb's: what lies untouched goes to the
# backing device, and a device with marks stays below the high one.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G timeout=180 progs=ebbtierd
# vm: kernel=uml-smp,uml-up,uml-debug,stock-6.12,stock-7.3
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
need_loop "a daemon's writeback" writeback

# 12 MiB of text and 4 that do not compress.
text_pages 3072 >/tmp/data
dd if=/dev/urandom bs=1M count=4 2>/dev/null >>/tmp/data
want=$(md5sum </tmp/data)
data() { dd if=/dev/zram0 bs=1M count=16 iflag=direct 2>/dev/null | md5sum; }
fill() { dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct 2>/dev/null; }
fresh() {
	put 1 "$(z 0 reset)"; put lz4 "$(z 0 comp_algorithm)"
	[ ! -e "$(z 0 recomp_algorithm)" ] || put algo=zstd "$(z 0 recomp_algorithm)"
	put /dev/loop0 "$(z 0 backing_dev)" && put 256M "$(z 0 disksize)"
}
begin() { # LINE...
	printf '%s\n' "$@" >/tmp/tierd.conf
	ebbtierd --config /tmp/tierd.conf --state /tmp/tierd 2>/tmp/said & tierd=$!
}
end() { # NAME
	kill $tierd; wait $tierd
	equal "$1: a signal ends it" $? 0
	equal "$1: it had nothing to say" "$(cat /tmp/said)" ""
}
told() { awk -v f="$1" '$1 == "zram0" { print $f }' /tmp/tierd; }
at_most() { [ "$(used 0)" -le "$1" ]; }
kib() { awk -v f="$1:" '$1 == f { print $2 }' /proc/$tierd/status; }

loop 128
# ---- by age ----
fresh
begin "writeback_age = 4"
fill
sleep 2
equal "before its time nothing goes" "$(bd 1)" 0
check "its memory is locked ($(kib VmLck) KiB)" [ "$(kib VmLck)" -gt 0 ]
within "what is old goes" 30 is bd 1 $((16 * slots * units))
within "and is counted" 5 is told 4 $((16 << 20))
equal "all reads as it was" "$(data)" "$want"
check "a reset while it is at work" put 1 "$(z 0 reset)"
fresh; fill
within "the device made anew is served as well" 30 is bd 1 $((16 * slots * units))
end "ages"

# ---- a budget: a start has a 24th of it ----
fresh; fill
begin "writeback_age = 2" "writeback_budget = 96M"
within "a share of the budget is written" 30 is bd 3 1024
sleep 3
equal "and no more" "$(bd 3)" 1024
end "the budget"

# ---- recompression ----
case " $(codecs) " in *" lz4 "*" zstd "*)
	if [ -e "$(z 0 recompress)" ]; then
		fresh; fill
		was=$(mm 0 2)
		begin "recompress_age = 2" "recompress_cpu = 50"
		within "old pages are recompressed" 60 sh -c "[ \$(awk '{ print \$2 }' $(z 0 mm_stat)) -lt $((was * 9 / 10)) ]"
		equal "nothing is written back" "$(bd 3)" 0
		equal "all reads as it was" "$(data)" "$want"
		end "recompression"
	fi ;;
*) skip "recompression" "it takes lz4 and zstd" ;;
esac

# ---- water marks ----
for auto in 0 1; do
	fresh
	[ $auto = 0 ] || put 1 "$(z 0 writeback_auto)" || continue
	begin "writeback_high = 6M" "writeback_low = 4M"
	sleep 1
	n=0
	while [ $n -lt 8 ]; do
		dd if=/tmp/data of=/dev/zram0 bs=1M skip=12 seek=$((n * 4)) count=4 oflag=direct \
			2>/dev/null
		sleep 1; n=$((n + 1))
	done
	within "auto $auto: above the high mark pages go" 30 at_most $((6 << 20))
	check "ahead of need ($(told 5))" [ "$(told 5)" -gt 0 ]
	within "auto $auto: until the low one" 30 at_most $((4 << 20))
	before=$(bd 3)
	sleep 2
	equal "and no more" "$(bd 3)" "$before"
	check "as little as that ($(used 0))" [ "$(used 0)" -ge $((auto ? 0 : 3 << 20)) ]
	equal "auto $auto: no write failed" "$(failed_writes)" 0
	end "marks"
	invariants 0
done
finish_loop
