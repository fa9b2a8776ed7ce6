#!/bin/sh
# mem_limit reached under load: writes fail, nothing else does, and contents stay.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: short=yes mem=1G timeout=150 progs=swapcheck,blkcheck tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }

setup 0 256M
check "mem_limit 16M" put 16M "$(z 0 mem_limit)"
equal "mm_stat shows it" "$(mm 0 4)" 16777216
refuse "64 MiB of noise do not fit" dd if=/dev/urandom of=/dev/zram0 bs=1M count=64 conv=fsync
check "the pool is within its limit ($(used 0))" [ "$(used 0)" -le 16777216 ]
check "failed writes are counted" [ "$(awk '{ print $2 }' "$(z 0 io_stat)")" -gt 0 ]
# In-tree counts a page before it finds the limit passed, each CPU for itself.
check "the peak is within a mebibyte of it" [ "$(mm 0 5)" -le $((17 << 20)) ]

# What was written before stays readable, and a failed overwrite leaves the old.
check "reset" setup 0 256M
put 8M "$(z 0 mem_limit)"
check "random I/O at the limit, every page checked" blkcheck /dev/zram0 --mb 64 --threads 4 --ms $((5000 * SCALE)) --tolerate
check "writes failed on the way" [ "$(awk '{ print $2 }' "$(z 0 io_stat)")" -gt 0 ]
check "limit off" put 0 "$(z 0 mem_limit)"
check "the same without a limit, nothing fails" blkcheck /dev/zram0 --mb 64 --threads 4 --ms $((2000 * SCALE))

# As swap: what does not go out stays in.
check "reset" setup 0 512M
put 3M "$(z 0 mem_limit)"
mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
check "swap at its limit: contents hold" swapcheck --mb 64 --procs 3 --passes $((2 * SCALE)) --forks 1
check "which was reached" [ "$(awk '{ print $2 }' "$(z 0 io_stat)")" -gt 0 ]
note "io_stat $(cat "$(z 0 io_stat)") mm_stat $(cat "$(z 0 mm_stat)")"
swapoff /dev/zram0
put 0 "$(z 0 mem_limit)"
check "mem_used_max resets" put 0 "$(z 0 mem_used_max)"
equal "to what is used" "$(mm 0 5)" "$(mm 0 3)"
finish
