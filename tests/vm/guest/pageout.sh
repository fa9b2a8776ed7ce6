#!/bin/sh
# One CPU pages out what a process on another one is writing, itself and through the kernel.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: short=yes mem=512M timeout=150 progs=pageout tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
[ "$(nproc)" -gt 1 ] || { skip "one CPU pages out what another writes" "one CPU"; finish; }
setup 0 256M && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
check "no write of a process is lost" pageout --mb 16 --seconds $((5 * SCALE))
check "no write of the kernel for it is lost" pageout --mb 16 --seconds $((5 * SCALE)) --call
note "io_stat $(cat "$(z 0 io_stat)"), mm_stat $(cat "$(z 0 mm_stat)")"
check "swapoff" swapoff /dev/zram0
finish
