#!/bin/sh
# ext4 on the device: fio --verify, discard, a clean fsck; direct I/O of every shape.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: short=yes mem=1G timeout=240 tools=mkfs.ext4,fsck.ext4,fio,dumpe2fs progs=blkcheck
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
modprobe ext4 2>/dev/null

check "set up" setup 0 256M
check "random direct I/O, discards and zeroings, checked" blkcheck /dev/zram0 --mb 64 --threads 4 --ms $((6000 * SCALE))
check "the same through the page cache" blkcheck /dev/zram0 --mb 64 --threads 4 --ms $((3000 * SCALE)) --buffered
equal "all was discarded at the end" "$(mm 0 1)" 0

mkdir -p /mnt/z
check "mkfs.ext4" mkfs.ext4 -q -F /dev/zram0
check "mount" mount -t ext4 -o discard /dev/zram0 /mnt/z
for bs in 4k 16k 128k; do
	check "fio --verify, random writes of $bs" fio --name=v --directory=/mnt/z --size=48m --bs=$bs --rw=randwrite \
		--verify=crc32c --verify_fatal=1 --do_verify=1 --ioengine=psync --fallocate=none --refill_buffers \
		--buffer_compress_percentage=60 --minimal --output=/tmp/fio.out
done
check "fio --verify, mixed load of two jobs" fio --name=m --directory=/mnt/z --size=24m --bsrange=4k-64k --rw=randrw --numjobs=2 \
	--verify=crc32c --verify_fatal=1 --ioengine=psync --direct=1 --fallocate=none --minimal --output=/tmp/fio.out
sync
before=$(mm 0 1)
rm -f /mnt/z/v* /mnt/z/m*
# The file system discards when it gets round to it.
i=0
while [ $i -lt 40 ]; do
	sync; fstrim /mnt/z 2>/dev/null; after=$(mm 0 1)
	[ "$after" -ge $((before / 2)) ] || break
	i=$((i + 1)); sleep 0.5
done
check "deleting files with discard gives slots back ($before to $after)" [ "$after" -lt $((before / 2)) ]
check "umount" umount /mnt/z
check "fsck finds it clean" fsck.ext4 -f -n /dev/zram0
equal "nothing failed" "$(awk '{ print $1, $2, $3 }' "$(z 0 io_stat)")" "0 0 0"
finish
