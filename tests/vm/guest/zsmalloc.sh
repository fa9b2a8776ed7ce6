#!/bin/sh
# What Ebb shows and takes in zsmalloc's place: deferred_free, its files, what is held back or lost.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=uml-ebb*,kcsan-ebb short=yes mem=512M timeout=200 progs=blkcheck modules=zsleak
# vm: append=zsmalloc.deferred_free
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
param=/sys/module/zsmalloc/parameters/deferred_free
files=/sys/kernel/debug/zsmalloc/zram0
of() { awk -v f="$1" '$1 == f { print $2 }' $files/release; }
classes() { awk -v f="$1" '$1 == "Total" { print $f }' $files/classes; }

equal "frees are deferred unless somebody says otherwise" "$(cat $param)" Y
refuse "the word alone on the command line is understood" sh -c "dmesg | grep 'invalid for parameter'"
refuse "a word that is neither yes nor no" put perhaps $param
setup 0 128M
pages=$(awk '$1 == "MemTotal:" { print $2 * 1024 }' /proc/meminfo)
check "a budget of 1/200 of memory, for all pools ($(of limit))" \
	[ "$(of limit)" -gt 0 -a "$(of limit)" -le $((pages / 190)) ]

text_pages 8192 >/tmp/data
check "32 MiB of text" dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct
equal "the table counts the pages that mm_stat has" "$(classes 15)" "$(($(used 0) / pagesize))"
equal "and the objects" "$(classes 14)" 8192
equal "nothing is held back" "$(of held)" 0
check "discard" blkdiscard /dev/zram0
check "what is held back is not in the total ($(used 0))" [ "$(used 0)" -le $((64 * pagesize)) ]
within "the rest goes by itself" 5 sh -c "[ \$(awk '\$1 == \"held\" { print \$2 }' $files/release) = 0 ]"
# What the budget has no room for, the CPU frees itself.
check "frees were deferred ($(of deferred) and $(of in_place))" \
	[ "$(of deferred)" -ge 1000 -a $(($(of deferred) + $(of in_place))) -ge 8192 ]
check "never more than the budget and a buffer each ($(of peak))" \
	[ "$(of peak)" -le $(($(of limit) + 2 * 508 * pagesize)) ]

# The table has a row for each class, as zsmalloc's.
equal "classes without objects have rows, too" "$(awk '$14 == 0 { n++ } END { print (n > 100) }' $files/classes)" 1
check "a pool ends with objects in it" modprobe zsleak
check "and the log says how many" sh -c "dmesg | grep 'zsmalloc: pool zsleak ends with 3 objects in use'"

# Off, and on again, under load.
check "off" put 0 $param
equal "the pool has no budget" "$(of limit)" 0
was=$(of deferred)
check "32 MiB of text again" dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct
check "discard" blkdiscard /dev/zram0
equal "nothing was deferred" "$(of deferred)" "$was"
equal "so memory is back at once" "$(used 0)" 0
( while [ ! -e /tmp/stop ]; do put 1 $param; sleep 0.02; put 0 $param; sleep 0.02; done ) & job=$!
check "contents while it changes" blkcheck /dev/zram0 --mb 32 --threads 2 --ms $((4 * SCALE))000
touch /tmp/stop; wait $job
check "on" put 1 $param

# A pool that comes later has it, too; the files go with their pool.
check "reset" put 1 "$(z 0 reset)"
check "its files are gone" [ ! -e $files ]
setup 0 64M
check "a new pool has a budget ($(of limit))" [ "$(of limit)" -gt 0 ]
finish
