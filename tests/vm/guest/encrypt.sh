#!/bin/sh
# An encrypted backing device: what is written back cannot be read off the disk.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: suite=trixie mem=1G kernel=stock-6.12,stock-7.3 timeout=60 disks=64M
# vm: tools=cryptsetup,mkswap,swapon,swapoff,losetup progs=swapcheck
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
[ -e "$(z 0 writeback)" ] || { skip "writeback" "this zram has none"; finish; }
for m in virtio_blk dm-crypt xts; do modprobe $m 2>/dev/null; done
export DM_DISABLE_UDEV=1
[ -e /dev/vda ] && [ -e /dev/mapper/control ] ||
	{ skip "encryption" "no disk, or no mapper"; finish; }
yes "A page that is swapped out says who you are, and more of that." | head -c 4194304 >/tmp/data
want=$(md5sum </tmp/data)
fresh() { # compressed_writeback DEVICE
	put 1 "$(z 0 reset)"; put "$1" "$(z 0 compressed_writeback)"; put "$2" "$(z 0 backing_dev)"
	put 64M "$(z 0 disksize)" && dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct 2>/dev/null
	put all "$(z 0 idle)"; put idle "$(z 0 writeback)"
}
on_disk() { grep -ac "says who you are" "$1"; }

check "a plain device" fresh 0 /dev/vda
check "has it in clear" [ "$(on_disk /dev/vda)" -gt 0 ]
put 1 "$(z 0 reset)"
dd if=/dev/zero of=/dev/vda bs=1M count=64 2>/dev/null

# As docs/backing-device.md has it.
check "cryptsetup with a key that nobody knows" cryptsetup open --type plain --cipher aes-xts-plain64 \
	--key-size 512 --key-file /dev/urandom /dev/vda zram-back
dev=/dev/mapper/zram-back
[ -e $dev ] || dev=/dev/dm-0
for packed in 0 1; do
	check "mode $packed: an encrypted device" fresh $packed $dev
	check "pages are there" [ "$(awk '{ print $1 }' "$(z 0 bd_stat)")" -ge 1024 ]
	equal "and not in clear" "$(on_disk /dev/vda)" 0
	equal "all reads as it was" "$(dd if=/dev/zram0 bs=1M count=4 iflag=direct 2>/dev/null | md5sum)" "$want"
	invariants 0
done
put 1 "$(z 0 reset)"; put $dev "$(z 0 backing_dev)"; put 256M "$(z 0 disksize)"
mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
: >/tmp/go
while [ -e /tmp/go ]; do put all "$(z 0 idle)"; put idle "$(z 0 writeback)"; sleep 0.1; done & w=$!
check "swap on it" swapcheck --mb 24 --procs 2 --passes 1 --forks 1
rm -f /tmp/go; wait $w
swapoff /dev/zram0
put 1 "$(z 0 reset)"
check "the device is closed" cryptsetup close zram-back
finish
