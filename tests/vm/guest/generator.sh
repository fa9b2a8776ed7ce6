#!/bin/sh
# zram-generator sets up a device with several algorithms and a writeback device, as it is
# configured.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: suite=trixie mem=1G kernel=uml-smp,uml-debug,stock-6.12,stock-7.3 timeout=60
# vm: tools=mkswap,swapon,swapoff,zram-generator,losetup,blkid
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
need_loop "writeback" writeback
offers() { for a; do codecs | grep -qw -- "$a" || return 1; done; }

# systemd's program that makes a swap area or a file system; only the former is asked for here.
mkdir -p /usr/lib/systemd /etc/systemd /tmp/units
cat >/usr/lib/systemd/systemd-makefs <<'END'
#!/bin/sh
[ "$1" = swap ] && exec mkswap "$2"
END
chmod +x /usr/lib/systemd/systemd-makefs

# As docs/backing-device.md has it: a file behind the device.
truncate -s 64M /tmp/behind
check "losetup as the page has it" losetup --direct-io=on /dev/loop0 /tmp/behind ||
	losetup /dev/loop0 /tmp/behind
cat >/etc/systemd/zram-generator.conf <<'END'
[zram0]
zram-size = ram / 2
zram-resident-limit = ram / 4
compression-algorithm = lz4 zstd(level=9) (type=idle)
writeback-device = /dev/loop0
swap-priority = 100
END
check "units are made" zram-generator /tmp/units /tmp/units /tmp/units
note "$(ls -R /tmp/units | tr '\n' ' ')"
check "one is for swap" grep -qx 'What=/dev/zram0' /tmp/units/dev-zram0.swap
if ! offers lz4 zstd; then skip "the device" "this kernel has not both algorithms"; finish; fi

check "the device is set up" zram-generator --setup-device zram0
equal "algorithm" "$(grep -o '\[.*\]' "$(z 0 comp_algorithm)")" "[lz4]"
equal "the second one" "$(grep -o '^#1: .*\[.*\]' "$(z 0 recomp_algorithm)" | grep -o '\[.*\]')" "[zstd]"
equal "backing device" "$(cat "$(z 0 backing_dev)")" /dev/loop0
total=$(awk '/^MemTotal/ { print $2 }' /proc/meminfo)
check "size: half of memory" [ "$(cat "$(z 0 disksize)")" -gt $((total * 500)) ]
check "limit: a quarter" [ "$(mm 0 4)" -gt $((total * 250)) ]
check "it is a swap area" sh -c "blkid /dev/zram0 | grep -q 'TYPE=\"swap\"'"
check "which is used" swapon -p 100 /dev/zram0
check "swapoff" swapoff /dev/zram0

# What is configured is there: a page of each tier.
text_pages 512 >/tmp/data; dd if=/dev/urandom bs=1M count=1 2>/dev/null >>/tmp/data
dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct 2>/dev/null
put all "$(z 0 idle)"
before=$(mm 0 2)
check "recompression" put type=idle "$(z 0 recompress)"
check "saves" [ "$(mm 0 2)" -lt "$before" ]
check "writeback" put huge "$(z 0 writeback)"
equal "of what does not compress" "$(awk '{ print $1 }' "$(z 0 bd_stat)")" 256
equal "all reads as it was" "$(dd if=/dev/zram0 bs=1M count=3 iflag=direct 2>/dev/null | md5sum)" \
	"$(md5sum </tmp/data)"
# Blocks of more than a page, where the kernel has such devices.
truncate -s 4M /tmp/large
if [ "$pagesize" = 4096 ] && is_ebb && losetup --sector-size 8192 /dev/loop1 /tmp/large 2>/dev/null; then
	n=$(cat /sys/class/zram-control/hot_add)
	refuse "a device with blocks of 8 KiB is refused" put /dev/loop1 "$(z "$n" backing_dev)"
	check "and the log says why" sh -c "dmesg | grep -q 'its blocks are larger than a page'"
	put "$n" /sys/class/zram-control/hot_remove; losetup -d /dev/loop1
else
	skip "blocks of 8 KiB" "this kernel has no such device"
fi
check "the device is taken down" zram-generator --reset-device zram0
equal "it is empty" "$(cat "$(z 0 disksize)")" 0
check "the loop device is free" losetup -d /dev/loop0
finish
