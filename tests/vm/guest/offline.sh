#!/bin/sh
# Blocks of memory go offline and come back while zram and zswap have pages in them.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=kcsan-series* mem=768M timeout=80 append=movablecore=384M progs=swapcheck,blkcheck
# vm: tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
echo 1 >/proc/sys/vm/overcommit_memory
t=$((12 * SCALE))

# Blocks of the zone whose pages all have to be able to move.
movable() {
	for b in /sys/devices/system/memory/memory[0-9]*; do
		[ "$(cat "$b/valid_zones" 2>/dev/null)" != Movable ] || echo "$b"
	done
}
# One with a hole, as at the end of memory, never goes. The others do now that nothing is in them.
blocks=$(for b in $(movable); do
	put offline "$b/state" && put online_movable "$b/state" && echo "$b"
done)
n=$(echo $blocks | wc -w)
check "blocks of memory go offline and come back ($n)" [ "$n" -gt 0 ]
[ "$n" -gt 0 ] || finish

# One after the other goes, stays away for a while, and comes back: until told to stop, and until
# each has gone. Of Ebb's pages none may stay then, whatever block they are in.
toggle() {
	went=0 stayed=0; rm -f /tmp/went.*
	while [ ! -e /tmp/stop ] || [ "$(ls /tmp/went.* 2>/dev/null | wc -l)" -lt "$n" ]; do
		for b in $blocks; do
			put offline "$b/state" || { stayed=$((stayed + 1)); continue; }
			went=$((went + 1)); : >"/tmp/went.${b##*/}"; sleep 0.5
			put online_movable "$b/state" || echo "${b##*/} does not come"
		done
	done
	echo $went $stayed
}
start() {
	rm -f /tmp/stop; moved=$(vmstat pgmigrate_success)
	toggle >/tmp/toggled 2>&1 & toggle=$!
}
end() { # CLIENT
	touch /tmp/stop; wait $toggle
	moved=$(($(vmstat pgmigrate_success) - moved))
	read -r went stayed </tmp/toggled
	note "$1: $went blocks went and came, $stayed could not, $moved pages moved"
	equal "$1: each block went ($(cat /tmp/toggled))" "$(ls /tmp/went.* | wc -l)" "$n"
	equal "$1: and came" "$(cat $(printf '%s/state ' $blocks) | sort -u)" online
	check "$1: pages moved ($moved)" [ $moved -gt 1000 ]
}

none_left() { [ "$(zspages)" -le "$zspages_before" ]; }

# More than the block with the hole has room for lies still, beside what is written.
still() { dd if=/dev/zram0 bs=1M skip=128 count=192 iflag=direct 2>/dev/null | md5sum; }
setup 0 320M
check "192 MiB that do not compress" \
	dd if=/dev/urandom of=/dev/zram0 bs=1M seek=128 count=192 oflag=direct
sum=$(still)
start
check "zram: random I/O, every page checked" blkcheck /dev/zram0 --mb 96 --threads 2 --ms ${t}000
end "zram, I/O"
equal "what lies still is the same" "$(still)" "$sum"

setup 0 1G && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
start
check "zram: swap, every page checked" swapcheck --mb 128 --procs 4 --passes 1 --forks 1 --loop $t
end "zram, swap"

swapoff /dev/zram0; put 1 "$(z 0 reset)"
within "of zram's no page is left" 10 none_left
setup 0 1G && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
zswap_set compressor lzo; zswap_set shrinker_enabled N; zswap_set max_pool_percent 10
check "zswap" zswap_set enabled Y
start
check "zswap over zram: swap, every page checked" \
	swapcheck --mb 128 --procs 4 --passes 1 --forks 1 --loop $t
end "zswap over zram"
check "swapoff" swapoff /dev/zram0
zswap_set enabled N
within "nothing is left in zswap" 10 zswap_empty
put 1 "$(z 0 reset)"; zspages_before=$(zspages)
finish
