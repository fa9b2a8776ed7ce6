#!/bin/sh
# The kernel's own tests of zram and zswap, as they are in its source (tools/testing/selftests).
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=uml-series* mem=1G timeout=400 disks=1G selftests=zram,test_zswap
# vm: tools=mkswap,swapon,swapoff,mkfs.ext4
. /lib.sh
ln -sf /usr/local/bin/dash /bin/bash
modprobe ext4 2>/dev/null

cd /selftests || exit 1
./zram.sh >/tmp/out 2>&1
for t in zram01 zram02; do
	check "zram/$t.sh" grep -qx "$t : \[PASS\]" /tmp/out
done
equal "none of their steps failed" "$(grep FAIL /tmp/out)" ""
sed 's/^/# /' /tmp/out | head -n 80
cd /tmp || exit 1

if [ -d /sys/module/zswap ]; then
	backing
	mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
	zswap_set compressor lzo; zswap_set enabled Y
	mkswap "$d" >/dev/null && swapon "$d"
	# Some of its cases wait for seconds, and fail on a machine that is busy with other things.
	# test_swapin_nozswap does without zswap, and its group of 1.5 MB is killed in every
	# other try while its pages are on their way to the disk, whatever the allocator.
	for try in 1 2 3 4 5 6 7 8; do
		/selftests/test_zswap >/tmp/out 2>&1
		sed "s/^/# try $try: /" /tmp/out
		! grep -q "^not ok" /tmp/out || continue
		break
	done
	sed -n 's/^\(ok\|not ok\) [0-9]* \(.*\)/\1 - cgroup\/test_zswap: \2/p' /tmp/out
	if grep -q "^not ok" /tmp/out; then failed=1; fi
	check "all of cgroup/test_zswap ran" grep -q "^# Totals:" /tmp/out
	check "swapoff" swapoff "$d"
	within "nothing is left in zswap" 10 zswap_empty
else
	skip "cgroup/test_zswap" "there is no zswap"
fi
exit $failed
