#!/bin/sh
# Everything at once on a device, every page accounted for; swap pressure beside it.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=512M timeout=150 progs=stress,swapcheck tools=mkswap,swapon,swapoff
. /lib.sh
modprobe zram num_devices=3 || { not_ok "zram loads"; exit 1; }
echo 1 >/proc/sys/vm/overcommit_memory

# tests/stress prints TAP of its own: a result for each round, and the seed.
stress() { # SECONDS [OPTIONS]
	_s=$1; shift
	/usr/local/bin/stress --device /dev/zram0 --second /dev/zram1 --hog 32 --seconds "$_s" "$@" >/tmp/stress 2>&1
	_rc=$?
	sed -n 's/^\(not ok\|ok\) [0-9]* /\1 /p; /^#/p' /tmp/stress
	check "the stress program ends well" [ $_rc = 0 ]
}

stress $((12 * SCALE)) ${SEED:+--seed "$SEED"}

# The same where memory is short all the time: a third device is swap.
setup 2 512M && mkswap /dev/zram2 >/dev/null && swapon /dev/zram2
swapcheck --mb 160 --procs 3 --passes 1 --forks 1 --loop $((8 * SCALE)) >/tmp/swapcheck 2>&1 & s=$!
stress $((8 * SCALE)) --tolerate ${SEED:+--seed "$SEED"}
wait $s
equal "contents in swap beside it ($(tail -n 1 /tmp/swapcheck))" $? 0
check "swapoff" swapoff /dev/zram2
finish
