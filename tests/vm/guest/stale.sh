#!/bin/sh
# Memory that goes from device to device, to the system and back: nobody reads what was in it.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: short=yes mem=512M timeout=120 progs=poke
. /lib.sh

# Bytes of a device that are not zero, read past the page cache.
nonzero() {
	sync; echo 3 >/proc/sys/vm/drop_caches
	dd if=/dev/zram"$1" bs=1M 2>/dev/null | tr -d '\000' | wc -c
}
noise() { dd if=/dev/urandom of=/dev/zram"$1" bs=1M count="$2" conv=fsync 2>/dev/null; }

check "two devices" modprobe zram num_devices=2
setup 0 24M && setup 1 24M
check "noise fills one" noise 0 24
check "which holds it ($(nonzero 0) bytes)" [ "$(nonzero 0)" -gt 20000000 ]
equal "the other, never written, is zeros" "$(nonzero 1)" 0
check "discard of all" poke discard /dev/zram0 0 25165824
equal "a discarded device is zeros" "$(nonzero 0)" 0
printf '%0100d' 0 | tr 0 x | dd of=/dev/zram1 bs=1 seek=1000001 conv=notrunc,fsync 2>/dev/null
equal "of a page written in part, the rest is zeros" "$(nonzero 1)" 100
check "noise again" noise 0 24
check "zeroes over a part" poke zero /dev/zram0 4096 12582912
check "the part is zeros" [ "$(dd if=/dev/zram0 bs=4096 skip=1 count=3072 2>/dev/null | tr -d '\000' | wc -c)" = 0 ]
check "reset" setup 0 24M
equal "a device that was reset is zeros" "$(nonzero 0)" 0
check "compaction of the other" put 1 "$(z 1 compact)"
equal "which keeps its bytes and no more" "$(nonzero 1)" 100
check "noise once more" noise 0 24
check "unload" modprobe -r zram
check "load" modprobe zram num_devices=1
setup 0 24M
equal "a device of the module loaded anew is zeros" "$(nonzero 0)" 0
finish
