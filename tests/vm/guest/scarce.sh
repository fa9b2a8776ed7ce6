#!/bin/sh
# The kernel has no memory to give: no file of the device waits for a recompression.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: kernel=uml-smp,uml-up,uml-debug mem=512M timeout=120 progs=scarce
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
is_ebb || { skip "work without memory" "in-tree holds a lock meanwhile"; finish; }
fresh() {
	put 1 "$(z 0 reset)"; put lz4 "$(z 0 comp_algorithm)"; put algo=zstd "$(z 0 recomp_algorithm)"
	put 256M "$(z 0 disksize)"
}

check "a device" fresh
out=$(scarce 128 2>&1)
equal "recompression ends when there is no memory" "${out##*; }" ENOMEM
check "a file is written and one is read meanwhile ($out)" [ "${out%% ms*}" -lt 1000 ]
before=$(flags r)
check "it goes on when there is some" put type=idle "$(z 0 recompress)"
check "some pages were idle still, and are smaller now" [ "$(flags r)" -gt "$before" ]
invariants 0
finish
