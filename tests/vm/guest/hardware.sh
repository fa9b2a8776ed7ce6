#!/bin/sh
# What `make measure WHAT=hardware` runs, with small sizes: all is as it was, whatever ends it.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=stock-6.12,stock-7.3,stock-7.3-arm64,stock-7.3-arm64-16k mem=1500M timeout=120
# vm: tools=kmod,mkswap,swapon,swapoff
# vm: progs=munmap_bench,kill_bench
# vm: python=bench/kernel/hardware,bench/kernel/boots.py,bench/kernel/away.py
. /lib.sh
hw=/ebb/bench/kernel/hardware files="--module /tmp/zram.ko --programs /usr/local/bin"
# Pages that are in a CPU's batch do not go out: a hundredth at most has to be more than those.
mb=$((pagesize / 256))
state() {
	awk '{ print $1, $3, $5 }' /proc/swaps
	awk '{ print $1 }' /proc/modules | sort
	for f in /proc/sys/vm/page-cluster /proc/sys/vm/overcommit_memory \
		/proc/sys/vm/percpu_pagelist_high_fraction /sys/module/zswap/parameters/enabled \
		/sys/block/zram*/disksize /sys/block/zram*/comp_algorithm; do
		echo "$f $(cat $f 2>/dev/null)"
	done
	for n in /sys/block/zram*; do awk -v n=$n '{ print n, $4 }' $n/mm_stat; done 2>/dev/null
	dd if=/dev/zram0 bs=4096 count=1 2>/dev/null | md5sum
	ls /run
}
as_before() { state >/tmp/now; check "$1: all is as it was" diff /tmp/before /tmp/now; }
# Ends the run with a signal when a program of it has swap; its exit status.
cut() { # SIGNAL
	rm -f /tmp/out; $hw --yes --mb 32 --rounds 2 $files >/tmp/out 2>&1 &
	pid=$!
	within "SIG$1: it is under way" 60 grep -q '^/dev/zram0.*[^0-9]100$' /proc/swaps
	kill -$1 $pid; wait $pid
}
refused() { # NAME TEXT ARG...
	_n=$1 _t=$2; shift 2
	out=$($hw "$@" </dev/null 2>&1); rc=$?
	case $rc-$(echo "$out" | tail -n 1) in 1-*"$_t"*) ok "$_n" ;; *) not_ok "$_n" "$rc: $out" ;; esac
}

for t in modprobe insmod rmmod modinfo depmod; do ln -s kmod /usr/local/bin/$t; done
# Ebb's module is not installed: the machine's own is the kernel's.
mv "/lib/modules/$(uname -r)/updates/zram.ko" /tmp || { skip "all" "no module of Ebb's"; exit 0; }
depmod
cat >/tmp/holder <<'END'
import mmap, signal, sys
data = bytes(range(1, 256)) * 32896
m = mmap.mmap(-1, len(data))
m[:] = data
m.madvise(21)       # MADV_PAGEOUT
signal.signal(signal.SIGTERM, lambda *_: sys.exit(m[:] != data))
while True:
    signal.pause()
END
modprobe zram && echo 1 >/sys/module/zswap/parameters/enabled
cat /sys/class/zram-control/hot_add >/dev/null
put lz4 "$(z 0 comp_algorithm)"; put 200M "$(z 0 mem_limit)"; put 256M "$(z 0 disksize)"
check "a swap of the user's" sh -c "mkswap -L mine /dev/zram0 && swapon -p 7 /dev/zram0"
echo 0 >/sys/module/zswap/parameters/enabled
python3 /tmp/holder & holder=$!
within "with pages in it" 60 sh -c 'awk "\$1 == \"/dev/zram0\" { exit \$4 < 8000 }" /proc/swaps'
echo 1 >/sys/module/zswap/parameters/enabled
state >/tmp/before; cat /tmp/before | sed 's/^/# /'

refused "nobody to ask" "--yes goes on without" $files
put 64M "$(z 1 disksize)"
refused "a zram that is no swap" "/dev/zram1 is set up and is no swap" --yes $files
put 1 "$(z 1 reset)"
refused "more than there is memory for" "take a smaller --mb" --yes --mb 60000 $files
refused "headers that are not there" "there are no headers of this kernel" --yes
refused "nothing to restore" "nothing was left put away" --restore
refused "a module that cannot be loaded" "a module for $(uname -r) is expected" --yes --mb 16 \
	--module /usr/local/bin/kill_bench --programs /usr/local/bin
as_before "refused"

check "a run" sh -c "$hw --yes --mb $mb --rounds 1 --json /tmp/hw/h.json $files \
	>/tmp/out 2>/tmp/err"
cat /tmp/out /tmp/err | sed 's/^/# /'
check "its table" grep -q '^munmap: mean_ms  *4 ' /tmp/out
as_before "after a run"
echo "guest: output"; cat /tmp/hw/h.json; echo "guest: output end"

for s in INT HUP; do
	cut $s; equal "SIG$s: exit status" $? 130
	as_before "SIG$s"
done
cut KILL
refused "SIGKILL: the next run" "an earlier run was cut off" --yes $files
check "SIGKILL: --restore" $hw --restore
as_before "SIGKILL"

kill $holder; wait $holder
equal "what was swapped out is there" $? 0
swapoff /dev/zram0; rmmod zram; modprobe -r zram 2>/dev/null; state >/tmp/before
cut INT
as_before "no zram before"
exit $failed
