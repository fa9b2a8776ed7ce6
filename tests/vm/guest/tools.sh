#!/bin/sh
# Real mkswap, swapon, swapoff, zramctl, kmod and blkdiscard, as a user types them.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: short=yes mem=1G tools=zramctl,mkswap,swapon,swapoff,blkdiscard,blkid,kmod,lsblk
. /lib.sh

mkdir -p /sbin
for t in modprobe lsmod rmmod insmod modinfo; do ln -sf /usr/local/bin/kmod "/sbin/$t"; done
check "kmod's modprobe loads zram" /sbin/modprobe zram
check "kmod's lsmod shows it" sh -c "/sbin/lsmod | grep -q '^zram '"
check "modinfo names the licence" sh -c "/sbin/modinfo -F license zram | grep -qE 'GPL'"
check "Ebb's is the GPL, as kernel/ is" sh -c "[ ! -e /sys/block/zram0/release_limit ] || /sbin/modinfo -F license zram | grep -qx GPL"
for p in /sys/module/zram/parameters/*; do
	check "modinfo says what ${p##*/} is" sh -c "/sbin/modinfo -p zram | grep -q '^${p##*/}:[^ (]'"
done
check "Ebb's has a version, so that DKMS installs it" sh -c "[ ! -e /sys/block/zram0/release_limit ] || [ -s /sys/module/zram/version ]"
[ -e /dev/zram0 ] || mknod /dev/zram0 b $(tr : ' ' </sys/block/zram0/dev)

dev=$(zramctl --find --size 64M)
equal "zramctl --find --size gives the free device" "$dev" /dev/zram0
equal "zramctl shows the size" "$(zramctl --noheadings --raw --bytes --output DISKSIZE /dev/zram0)" 67108864
check "mkswap" mkswap /dev/zram0
check "blkid sees swap" sh -c "blkid /dev/zram0 | grep -q 'TYPE=\"swap\"'"
check "swapon -p 100" swapon -p 100 /dev/zram0
check "swapon --show lists it" sh -c "swapon --show=NAME --noheadings | grep -qx /dev/zram0"
check "zramctl shows the mount point" sh -c "zramctl --noheadings --output MOUNTPOINT /dev/zram0 | grep -qx '\[SWAP\]'"
refuse "zramctl --reset refuses while in use" zramctl --reset /dev/zram0
check "swapoff" swapoff /dev/zram0
check "blkdiscard" blkdiscard /dev/zram0
equal "nothing is stored after a discard of all" "$(mm 0 1)" 0
check "zramctl --reset" zramctl --reset /dev/zram0
check "which takes the device away" [ ! -e /sys/block/zram0 ]

all=$(cat /sys/class/zram-control/hot_add >/tmp/n && tr -d '[]' <"/sys/block/zram$(cat /tmp/n)/comp_algorithm")
put "$(cat /tmp/n)" /sys/class/zram-control/hot_remove
for c in $all; do
	dev=$(zramctl --find --algorithm "$c" --size 32M)
	check "zramctl --find --algorithm $c --size 32M" [ -b "$dev" ]
	equal "zramctl shows $c" "$(zramctl --noheadings --output ALGORITHM "$dev")" "$c"
	check "swap on $c" sh -c "mkswap $dev && swapon $dev && swapoff $dev"
	check "reset after $c" zramctl --reset "$dev"
done
refuse "zramctl with an algorithm that does not exist" zramctl --find --algorithm nonesuch --size 32M

# Where the kernel's own zram has max_comp_streams, too, which does nothing.
case $(uname -r) in
6.1[0-4].*) check "zramctl --streams 2" zramctl --find --size 16M --streams 2
	check "which may be anything" put many "$(z 0 max_comp_streams)"
	equal "and shows the CPUs" "$(cat "$(z 0 max_comp_streams)")" "$(nproc)"
	zramctl --reset /dev/zram0 ;;
esac

dev=$(zramctl --find --size 16M)
check "a device is to be had again" [ -b "$dev" ]
check "lsblk knows it" sh -c "lsblk -nro NAME | grep -q zram"
finish
