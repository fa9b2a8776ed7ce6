#!/bin/sh
# A CPU that is kept for one program is left alone while the others store, free, flush and compact.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=stock-6.12,stock-7.3 mem=768M cpus=3 timeout=60 progs=blkcheck append=isolcpus=2,nohz_full=2,rcu_nocbs=2
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
t=$((6 * SCALE))
trace=/sys/kernel/tracing
mount -t tracefs none $trace 2>/dev/null
[ "$(cat /sys/devices/system/cpu/nohz_full 2>/dev/null)" = 2 ] && [ -w $trace/tracing_cpumask ] || {
	skip "an isolated CPU" "this kernel has none, or no tracing"; finish; }

# What CPU 2 was interrupted by from other CPUs, ever: by kind, as in /proc/interrupts, and in all.
kinds() { awk 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "CPU2") f = i + 1 }
	$1 ~ /^(RES|CAL|TLB|IWI|TRM|NMI):$/ { printf "%s %d ", $1, $f }' /proc/interrupts; }
sent() { kinds | awk '{ for (i = 2; i <= NF; i += 2) n += $i; print n }'; }

# What CPU 2 did in the time: works, and switches of tasks.
watch() {
	echo 0 >$trace/tracing_on; echo >$trace/trace
	echo 4 >$trace/tracing_cpumask
	echo 1 >$trace/events/sched/sched_switch/enable
	echo 1 >$trace/events/workqueue/workqueue_execute_start/enable
	echo 1 >$trace/tracing_on
}
events() { grep -c "$1" $trace/trace; }

# So many seconds of all that the module does, on the other CPUs, with no process made on the way.
store() { taskset 3 blkcheck /dev/zram0 --mb 32 --threads 2 --ms ${t}000; }

control() {
	n=0 compact=$(z 0 compact) limit=$(z 0 release_limit)
	while [ ! -e /tmp/stop ]; do
		put 1 "$compact"
		for l in $limits; do put $l "$limit"; done
		n=$((n + 1))
	done
	echo $n
}
limits=; is_ebb && limits="0 64K 64M"

setup 0 256M
# The program that the CPU is kept for: it makes no system call.
taskset 4 sh -c 'while :; do :; done' & spins=$!
store >/tmp/out 2>&1    # what is done the first time
sleep 2
watch; before=$(sent)
sleep $t
quiet=$(($(sent) - before)) switches=$(events sched_switch) works=$(events workqueue_execute_start)
kinds=$(kinds)
note "left alone for $t s: $quiet interrupts by others, $switches switches, $works works"
watch; before=$(sent)
control >/tmp/times & c=$!
taskset -p 3 $c >/dev/null
check "random I/O on the other CPUs, every page checked" store
touch /tmp/stop; wait $c
busy=$(($(sent) - before)) switches2=$(events sched_switch) works2=$(events workqueue_execute_start)
note "before: $kinds; now: $(kinds)"
note "beside $(cat /tmp/times) rounds of compact and release_limit: $busy interrupts, $switches2 switches, $works2 works"
check "a round is made each second or so" [ "$(cat /tmp/times)" -ge 2 ]
check "no more interrupts by other CPUs than when they are idle ($quiet, $busy)" [ $busy -le $((quiet + 2)) ]
check "no work of ours is done there" [ "$(grep -c 'workqueue_execute_start.*\[zram\]' $trace/trace)" = 0 ]
check "no more works than when they are idle ($works, $works2)" [ $works2 -le $((works + 2)) ]
check "no more switches than when they are idle ($switches, $switches2)" [ $switches2 -le $((switches + 4)) ]
[ $works2 -le $((works + 2)) ] || grep -v '^#' $trace/trace | tail -n 20 | sed 's/^/# /'
kill $spins
invariants 0
finish
