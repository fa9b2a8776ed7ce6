#!/bin/sh
# Two and four nodes: compressed pages lie on the node of the page they were made of.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G timeout=60 numa=2,4 progs=bound tools=mkswap,swapon,swapoff
# vm: kernel=stock-6.12,stock-7.3,stock-7.3-rt,stock-7.3-arm64,stock-7.3-arm64-16k
. /lib.sh
load || { not_ok "zram loads"; exit 1; }

all=/sys/devices/system/node
equal "the machine has $NODES nodes" "$(ls -d $all/node[0-9]* | wc -l)" "$NODES"
setup 0 1G && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0

# cpu_of NODE, cpu_off NODE: a CPU that is the node's; one that is not.
cpu_of()  { for c in "$all/node$1"/cpu[0-9]*; do [ -e "$c" ] && echo "${c##*/cpu}" && return; done; }
cpu_off() { c=0; while [ -e "/sys/devices/system/cpu/cpu$c" ]; do [ -e "$all/node$1/cpu$c" ] || { echo $c; return; }; c=$((c + 1)); done; }

run() { # NAME OPTIONS...
	name=$1; shift
	bound "$@" >/tmp/out 2>&1
	status=$?
	note "$(tail -n 1 /tmp/out)"
	equal "$name" "$status" 0
}

n=0
while [ $n -lt "$NODES" ]; do
	here=$(cpu_of $n)
	[ -z "$here" ] || run "node $n's, paged out by a CPU of it" --node $n --cpu "$here"
	run "node $n's, paged out by a CPU of another one" --node $n --cpu "$(cpu_off $n)"
	n=$((n + 1))
done
# The node has no page left for what is compressed: others help out, and nothing is lost.
run "more than the last node holds" --node $((NODES - 1)) --cpu 0 --mb 96 --over
equal "no read and no write failed" "$(awk '{ print $1, $2 }' "$(z 0 io_stat)")" "0 0"
check "swapoff" swapoff /dev/zram0
finish
