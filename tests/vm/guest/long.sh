#!/bin/sh
# For as long as is asked: swap with kills, ext4, resets and the stress program, all at once.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=384M timeout=150 long=yes kernel=uml-smp,uml-debug,kcsan progs=stress,swapcheck,rawread
# vm: tools=mkswap,swapon,swapoff,mkfs.ext4,fsck.ext4,fio
. /lib.sh
modprobe zram num_devices=5 || { not_ok "zram loads"; exit 1; }
modprobe ext4 2>/dev/null
echo 1 >/proc/sys/vm/overcommit_memory
end=$(($(date +%s) + LONG))
left() { l=$((end - $(date +%s))); [ $l -gt 0 ]; }
# bad WHO WHAT: the first is the reason; everybody stops.
bad() { echo "$*" >>/tmp/bad; end=0; }
going() { left && [ ! -e /tmp/bad ]; }

# zram0: swap, every page checked; children are killed amid swap-ins. With what the others want it
# is more than memory holds, and not more than it holds compressed. A kernel that checks everything
# makes a kmemleak object and two stack traces for each page that goes out: there it is less, and
# goes out because it is told to.
part=0.9; [ "$KERNEL" != uml-debug ] || part=0.25
mb=$(awk -v part=$part '/^MemTotal/ { print int($2 / 1024 * part / 4) }' /proc/meminfo)
swapper() {
	while going; do
		swapcheck --mb $mb --procs 4 --passes 1 --forks 3 --seed $((n * 7 + 1)) --end $l \
			>/tmp/swapper 2>&1 ||
			bad "swap: $(head -n 1 /tmp/swapper)"
		n=$((n + 1)); echo $n >/tmp/swapper.n
	done
}

# What has hundreds of pages out dies at once: the frees of an exit.
killer() {
	while going; do
		swapcheck --mb $((mb / 2 + 1)) --procs 2 --passes 40 --forks 0 \
			>/dev/null 2>&1 & v=$!
		sleep $((n % 4 + 1))
		kill -9 $(awk -v p=$v '$4 == p { print $1 }' /proc/[0-9]*/stat 2>/dev/null) \
			2>/dev/null
		wait $v 2>/dev/null
		n=$((n + 1)); echo $n >/tmp/killer.n
	done
}

# zram1: a file system that is written, verified, emptied, checked.
filer() {
	mkdir -p /mnt/z
	while going; do
		setup 1 128M && mkfs.ext4 -q -F /dev/zram1 &&
			mount -t ext4 -o discard /dev/zram1 /mnt/z ||
			{ bad "ext4: it does not mount"; return; }
		fio --name=v --directory=/mnt/z --size=24m --bsrange=4k-64k --rw=randrw \
			--numjobs=2 --verify=crc32c --verify_fatal=1 --ioengine=psync \
			--fallocate=none --refill_buffers --buffer_compress_percentage=60 \
			--minimal --output=/tmp/fio.out >/tmp/filer 2>&1 || bad "ext4: fio: $(tail -n 1 /tmp/filer)"
		rm -f /mnt/z/v*
		umount /mnt/z || bad "ext4: umount"
		fsck.ext4 -f -n /dev/zram1 >/tmp/fsck 2>&1 || bad "ext4: fsck: $(tail -n 1 /tmp/fsck)"
		n=$((n + 1)); echo $n >/tmp/filer.n
	done
}

# zram2, zram3: the stress program, on a machine that is short of memory all the time.
stresser() {
	while going; do
		stress --device /dev/zram2 --second /dev/zram3 --hog 16 --tolerate \
			--seconds $((l < 30 ? l : 30)) \
			>/tmp/stresser 2>&1 || { cat /tmp/stresser; bad "stress: $(sed -n '/^not ok/{s/.* - //;p}' /tmp/stresser)"; }
		n=$((n + 1)); echo $n >/tmp/stresser.n
	done
}

# zram4: a second swap device that goes and comes back.
cycler() {
	while going; do
		setup 4 64M && mkswap /dev/zram4 >/dev/null && swapon -p 5 /dev/zram4 || bad "cycle: it does not come up"
		put 1 "$(z 4 reset)" && bad "cycle: reset of what is swap"
		rawread /dev/zram4 2 1 >/dev/null || bad "cycle: a read failed"
		# It may not go when nobody has room for what is on it.
		until swapoff /dev/zram4 2>/dev/null; do going || break; sleep 1; done
		n=$((n + 1)); echo $n >/tmp/cycler.n
	done
}

setup 0 2G && mkswap /dev/zram0 >/dev/null && swapon -p 1 /dev/zram0
jobs=
for j in swapper killer filer stresser cycler; do n=0; echo 0 >/tmp/$j.n; $j & jobs="$jobs $!"; done
[ ! -e "$(z 0 release_limit)" ] ||
	note "release_stat: held peak deferred in_place sync pressure"
while going; do
	sleep 15
	note "$((LONG - l)) s:$(for j in swapper killer filer stresser cycler; do echo " $j $(cat /tmp/$j.n)"; done | tr -d '\n'), unreclaimable slab $(awk '/^SUnreclaim/ { print $2 }' /proc/meminfo) kB, zram0 used $(used 0)"
done
# Those that look at the clock between two rounds end by themselves.
for j in $jobs; do wait "$j"; done
note "zram0: mm_stat $(cat "$(z 0 mm_stat)")"
note "zram0: io_stat $(cat "$(z 0 io_stat)")"
! is_ebb || note "zram0: release_stat $(cat "$(z 0 release_stat)")"
for j in swapper killer filer stresser cycler; do
	check "$j: $(cat /tmp/$j.n) rounds" [ "$(cat /tmp/$j.n)" -gt 0 ]
done
equal "nothing was wrong in $LONG s" "$(head -n 1 /tmp/bad 2>/dev/null)" ""
equal "no read of swap failed" "$(awk '{ print $1 }' "$(z 0 io_stat)")" 0
check "swapoff" swapoff /dev/zram0
finish
