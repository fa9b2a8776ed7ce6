#!/bin/sh
# The codecs over the kernel's libraries, each with input that is cut, changed or made up.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=1G timeout=120 modules=codec_check
. /lib.sh
load || { not_ok "zram loads"; exit 1; }

dmesg -c >/dev/null
check "no codec overruns, and each tells what is wrong" modprobe codec_check rounds=$((40 * SCALE))
dmesg | grep codec_check | sed 's/^/# /'
if is_ebb; then
	for c in $(codecs); do
		check "$c was checked" sh -c "dmesg | grep -q 'codec_check: $c: '"
	done
fi
check "it unloads" rmmod codec_check
finish
