#!/bin/sh
# An unprivileged process frees swap as fast as it can: what is held back stays within the budget.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=512M timeout=120 progs=swapcheck tools=mkswap,swapon,swapoff,setpriv
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
is_ebb || { skip "held back within the budget" "in-tree zram holds nothing back"; finish; exit; }

cpus=$(nproc)
for limit in 4096 65536 1048576 16777216; do
	setup 0 512M || not_ok "limit $limit: set up"
	put $limit "$(z 0 release_limit)"
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
	refuse "limit $limit: nobody may not change it" setpriv --reuid 65534 --regid 65534 --clear-groups \
		sh -c "echo 1G >$(z 0 release_limit)"
	check "limit $limit: nobody swaps and frees" setpriv --reuid 65534 --regid 65534 --clear-groups \
		swapcheck --mb 48 --procs 4 --passes $SCALE --forks 1
	# One buffer a CPU may come on top: full at its share, or at 508 objects of a page.
	share=$((limit / (2 * cpus) + 4096)); [ $share -lt $((508 * 4096)) ] || share=$((508 * 4096))
	peak=$(released 0 2)
	check "limit $limit: at most $peak bytes were held back" [ "$peak" -le $((limit + cpus * share)) ]
	check "limit $limit: some were" [ "$peak" -gt 0 ]
	[ $limit -gt 65536 ] || check "limit $limit: and it was spent" [ "$(released 0 4)" -gt 0 ]
	swapoff /dev/zram0
	emptied() { [ "$(released 0 1)" = 0 ]; }
	within "limit $limit: nothing is held back in the end" 5 emptied
	invariants 0
done
finish
