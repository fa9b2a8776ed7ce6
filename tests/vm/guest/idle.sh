#!/bin/sh
# Which pages nobody touches: marks, ages, and the file that tells both.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=512M timeout=300 progs=swapcheck,poke tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
[ -e "$(z 0 idle)" ] || { skip "idle pages" "this zram has no marks"; finish; }

uptime() { cut -d. -f1 /proc/uptime; }
mark() { put "$1" "$(z 0 idle)"; }

# No page is older than the machine is up, and a write of such an age does nothing.
while [ "$(uptime)" -lt 5 ]; do sleep 0.2; done
refuse "no device yet" mark all
check "an age past the uptime is no age, even so" mark 4000000000
refuse "another age is" mark 0
refuse "nonsense" mark some
setup 0 256M
text_pages 64 >/tmp/data
dd if=/tmp/data of=/dev/zram0 bs=4k oflag=direct 2>/dev/null
dd if=/dev/zero of=/dev/zram0 bs=4k seek=64 count=16 oflag=direct 2>/dev/null
dd if=/dev/urandom of=/dev/zram0 bs=4k seek=96 count=16 oflag=direct 2>/dev/null
equal "a line for each page that is there" "$(wc -l <$state)" 96
equal "16 of them are one word" "$(flags s)" 16
equal "16 of them are raw" "$(flags h)" 16
check "all" mark all
equal "all pages in objects are idle" "$(flags i)" 80
dd if=/dev/zram0 of=/dev/null bs=4k count=8 iflag=direct 2>/dev/null
equal "those that are read are not any more" "$(flags i)" 72
dd if=/tmp/data of=/dev/zram0 bs=4k seek=8 count=8 oflag=direct conv=notrunc 2>/dev/null
equal "nor are those that are written" "$(flags i)" 64
put 1 "$(z 0 compact)"
equal "compaction touches nothing" "$(flags i)" 64
equal "the line of page 20" "$(awk '$1 == 20 { print $3 }' $state)" "...i.."
# The position counts slots.
equal "lines from slot 100 on" "$(dd if=$state bs=100 skip=1 count=1 2>/dev/null | awk 'NR == 1 { print $1 }')" 100
check "a reader of small pieces sees all" sh -c "[ \$(dd if=$state bs=64 2>/dev/null | wc -l) = 96 ]"

if is_ebb; then
	equal "no age is kept yet" "$(awk '$2 != "0.000000" { n++ } END { print n + 0 }' $state)" 0
	check "the first age, which is past the uptime" mark 4000000000
	equal "ages are kept from then on" "$(awk '$2 != "0.000000" { n++ } END { print n + 0 }' $state)" 96
	check "a second" mark 1
	equal "all were touched just now, so none is idle" "$(flags i)" 0
fi
sleep 3
dd if=/dev/zram0 of=/dev/null bs=4k count=8 iflag=direct 2>/dev/null
dd if=/tmp/data of=/dev/zram0 bs=4k seek=8 count=8 oflag=direct conv=notrunc 2>/dev/null
check "two seconds" mark 2
equal "what was touched is younger" "$(flags i)" 64
age=$(awk '$1 == 3 { print int($2) }' $state)
check "a page that was just read is of now ($age of $(uptime))" [ $(($(uptime) - age)) -le 2 ]
check "an hour, which may be past the uptime" mark 3600
refuse "a page is no age" mark 1s

put 1 "$(z 0 reset)"
check "mkswap and swapon" sh -c "put() { printf %s \"\$1\" >\"\$2\"; }; put 1G $(z 0 disksize) && mkswap /dev/zram0 && swapon /dev/zram0"
rm -f /tmp/stop
( while [ ! -e /tmp/stop ]; do mark all; mark 1; cat $state >/dev/null; done ) & job=$!
check "swap under pressure meanwhile" swapcheck --mb 160 --procs 3 --passes $SCALE --forks 1
touch /tmp/stop; wait $job
check "swapoff" swapoff /dev/zram0
invariants 0
put 1 "$(z 0 reset)"
check "no size, no state" sh -c "! cat $state"

if is_ebb; then
	modprobe -r zram
	check "track_actime=1" load track_actime=1
	setup 0 16M
	dd if=/tmp/data of=/dev/zram0 bs=4k oflag=direct 2>/dev/null
	check "ages from the start" sh -c "awk '\$1 == 3 { exit !(\$2 > 0) }' $state"
fi
finish
