#!/bin/sh
# Reset and hot_remove while busy, hot_add, two devices at once, module parameters, unload.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G timeout=450 progs=blkcheck,swapcheck tools=mkswap,swapon,swapoff,mkfs.ext4
. /lib.sh
control=/sys/class/zram-control

check "num_devices=3 makes three" modprobe zram num_devices=3
equal "zram0 to zram2" "$(cd /sys/block && echo zram*)" "zram0 zram1 zram2"
equal "hot_add gives the next number" "$(cat $control/hot_add)" 3
check "hot_remove of it" put 3 $control/hot_remove
check "it is gone" [ ! -e /sys/block/zram3 ]
refuse "hot_remove of one that does not exist" put 7 $control/hot_remove
refuse "hot_remove of no number" put seven $control/hot_remove

# Open
setup 0 64M
exec 5</dev/zram0
refuse "reset while open" put 1 "$(z 0 reset)"
refuse "hot_remove while open" put 0 $control/hot_remove
exec 5<&-
check "reset once closed" put 1 "$(z 0 reset)"

# Mounted
setup 0 64M && mkfs.ext4 -q -F /dev/zram0 && mkdir -p /mnt/z
check "mount" mount -t ext4 /dev/zram0 /mnt/z
refuse "reset while mounted" put 1 "$(z 0 reset)"
refuse "hot_remove while mounted" put 0 $control/hot_remove
check "umount" umount /mnt/z
check "reset once unmounted" put 1 "$(z 0 reset)"

# Swap
setup 0 64M && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
refuse "reset while swap" put 1 "$(z 0 reset)"
refuse "hot_remove while swap" put 0 $control/hot_remove
refuse "the module stays while swap is on" modprobe -r zram
swapoff /dev/zram0
check "reset after swapoff" put 1 "$(z 0 reset)"

# Hammered: resets and removals that race a load must be refused or clean, never in between.
setup 0 64M
blkcheck /dev/zram0 --threads 2 --ms $((4000 * SCALE)) --keep >/tmp/out 2>&1 &
load=$!
# From when it holds the device; before that a reset would be in its right.
until ls -l /proc/$load/fd 2>/dev/null | grep -q zram0; do
	kill -0 $load 2>/dev/null || break
	sleep 0.05
done
tries=0 held=0
while kill -0 $load 2>/dev/null; do
	put 1 "$(z 0 reset)" || held=$((held + 1))
	put 0 $control/hot_remove || held=$((held + 1))
	tries=$((tries + 2))
	sleep 0.02
done
wait $load
equal "a load under $tries resets and removals is not disturbed" $? 0
check "they were refused all the while" [ $held -ge $((tries - 2)) ]

# The reset may win the race for the open: then the open fails or finds an empty device.
[ -e /sys/block/zram0 ] || cat $control/hot_add >/dev/null
n=0
( while [ $n -lt 200 ]; do put 1 "$(z 1 reset)"; put 16M "$(z 1 disksize)"; n=$((n + 1)); done ) 2>/dev/null &
r=$!
m=0
while kill -0 $r 2>/dev/null; do
	dd if=/dev/zram1 of=/dev/null bs=4k count=4 2>/dev/null
	m=$((m + 1))
done
wait $r
ok "200 resets against $m opens"

# A removal of many pages that is killed: the device is gone or can be used, never in between.
text_pages 4096 >/tmp/text
i=0 kept=0 some=0 bad=0
while [ $i -lt $((10 * SCALE)) ]; do
	put 1 "$(z 1 reset)" && put 512M "$(z 1 disksize)" || bad=1
	for n in 1 2 3 4 5 6 7 8; do cat /tmp/text; done |
		dd of=/dev/zram1 bs=1M iflag=fullblock oflag=direct 2>/dev/null || bad=2
	sh -c "printf 1 >$control/hot_remove" 2>/dev/null & r=$!
	# A while that differs.
	n=0; while [ $n -lt $((i % 10 * 1600)) ]; do n=$((n + 1)); done
	kill -9 $r; wait $r 2>/dev/null
	if [ -e "$(z 1 disksize)" ]; then
		kept=$((kept + 1))
		[ "$(mm 1 1)" = $((8 * 4096 * 4096)) ] || some=$((some + 1))
		dd if=/dev/zram1 of=/dev/null bs=1M count=256 iflag=direct 2>/dev/null || bad=3
	else
		[ "$(cat $control/hot_add)" = 1 ] || bad=4
	fi
	i=$((i + 1))
done 2>/dev/null
rm /tmp/text
equal "$i removals that were killed, $kept before their end, $some of these with pages gone" $bad 0

# Two devices at once, one of them reset and refilled all the while.
setup 0 64M
put 1 "$(z 2 reset)"; setup 2 64M
blkcheck /dev/zram0 --threads 2 --ms $((4000 * SCALE)) --seed 5 >/tmp/out0 2>&1 & a=$!
n=0 bad=0
while kill -0 $a 2>/dev/null; do
	blkcheck /dev/zram2 --threads 1 --ms 300 --seed $n --keep >/tmp/out2 2>&1 || bad=1
	put 1 "$(z 2 reset)" || bad=2
	setup 2 64M || bad=3
	n=$((n + 1))
done
wait $a
equal "the one device, beside $n lives of the other" $? 0
equal "the other" $bad 0

# Devices come and go while others do.
( i=0; while [ $i -lt 60 ]; do d=$(cat $control/hot_add) && put "$d" $control/hot_remove; i=$((i + 1)); done ) & a=$!
( i=0; while [ $i -lt 60 ]; do d=$(cat $control/hot_add) && setup "$d" 4M && put 1 "$(z "$d" reset)" && put "$d" $control/hot_remove; i=$((i + 1)); done ) & b=$!
a_limit() { is_ebb || return 0; put 0 "$(z 0 release_limit)" && put 64M "$(z 0 release_limit)"; }
bad=0
while kill -0 $a 2>/dev/null || kill -0 $b 2>/dev/null; do a_limit || bad=1; done
wait $a; wait $b
equal "release_limit changes meanwhile" $bad 0
equal "what hot_add made is gone again" "$(cd /sys/block && echo zram*)" "zram0 zram1 zram2"

# Unload with contents, again and again.
dd if=/dev/urandom of=/dev/zram0 bs=1M count=16 2>/dev/null
i=0 bad=0
while [ $i -lt 10 ]; do
	modprobe -r zram || bad=1
	modprobe zram num_devices=2 || bad=1
	setup 0 32M && dd if=/dev/urandom of=/dev/zram0 bs=1M count=4 2>/dev/null || bad=1
	i=$((i + 1))
done
equal "loads and unloads with contents" $bad 0
modprobe -r zram
refuse "num_devices of nonsense" modprobe zram num_devices=nonsense
modprobe -r zram 2>/dev/null
load
finish
