#!/bin/sh
# Old pages compressed anew: which, how many, what stays the same, and what goes on meanwhile.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: mem=512M timeout=240 progs=blkcheck,swapcheck tools=mkswap,swapon,swapoff
. /lib.sh
load || { not_ok "zram loads"; exit 1; }
[ -e "$(z 0 recompress)" ] || { skip "recompression" "this zram has none"; finish; }
case " $(codecs) " in *" lz4 "*" zstd "*) ;; *) skip "recompression" "it takes lz4 and zstd"; finish ;; esac

again() { put "$1" "$(z 0 recompress)"; }
sum() { dd if=/dev/zram0 bs=1M count=16 iflag=direct 2>/dev/null | md5sum; }

# In MiB: 0 to 3 text; 4 to 7 hexadecimal digits, which lz4 leaves raw; 8 to 11 random; 12 to 15
# zeros.
text_pages 1024 >/tmp/data
dd if=/dev/urandom bs=1M count=2 2>/dev/null | od -An -v -tx1 | tr -d ' \n' >>/tmp/data
dd if=/dev/urandom bs=1M count=4 2>/dev/null >>/tmp/data
dd if=/dev/zero bs=1M count=4 2>/dev/null >>/tmp/data

size=256M
fresh() { # [ALGORITHM...]: those of priority 1 and up
	put 1 "$(z 0 reset)"; put lz4 "$(z 0 comp_algorithm)"
	_p=1; for _a; do put "algo=$_a priority=$_p" "$(z 0 recomp_algorithm)"; _p=$((_p + 1)); done
	put "$size" "$(z 0 disksize)" && dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct 2>/dev/null
}

refuse "no device yet" again priority=1
fresh
refuse "no algorithm of that priority" again priority=1
fresh zstd
was=$(sum) raw=$(mm 0 8) bytes=$(mm 0 2)
equal "hexadecimal and random pages are raw" "$raw" $((8 * slots))
for wrong in type=other type= threshold=x threshold=$pagesize max_pages=-1 priority=0 priority=4 \
	priority=2 algo=lz4 \
	"algo=zstd priority=2" "algo=lz4 priority=1" idle; do
	refuse "'$wrong' is refused" again "$wrong"
done
equal "nothing was recompressed" "$(flags r)" 0
check "max_pages=7" again "max_pages=7"
equal "tries that fail count, and raw pages are first" "$(($(flags r) + $(flags n)))" 7
check "type=idle, none is" again "type=idle"
equal "type=idle: as before" "$(($(flags r) + $(flags n)))" 7
check "idle" put all "$(z 0 idle)"
equal "all pages in objects are idle" "$(flags i)" $((12 * slots))
dd if=/dev/zram0 of=/dev/null bs=1M count=2 iflag=direct 2>/dev/null
equal "but those that are read are not any more" "$(flags i)" $((10 * slots))
check "type=huge_idle" again "type=huge_idle algo=zstd"
equal "the hexadecimal ones are not raw any more" "$(mm 0 8)" $((4 * slots))
equal "the random ones are, and will not be tried again" "$(flags n)" $((4 * slots))
equal "what was tried is not idle, and the first 7 are not raw" "$(flags i)" $((2 * slots + 7))
equal "huge_pages_since says what there was" "$(mm 0 9)" "$raw"
check "type=idle" again "type=idle"
equal "two MiB of text more" "$(flags r)" $((6 * slots))
check "threshold=3000: none is so large" again "threshold=3000"
equal "as before" "$(flags r)" $((6 * slots))
check "all that is left" again "priority=1"
equal "all but what is random" "$(flags r)" $((8 * slots))
check "the pages take less ($bytes to $(mm 0 2) bytes)" [ "$(mm 0 2)" -lt $((bytes * 3 / 4)) ]
equal "orig_data_size stays" "$(mm 0 1)" $((16 * 1048576))
equal "contents stay" "$(sum)" "$was"
equal "a write is of priority 0 again" "$(dd if=/tmp/data of=/dev/zram0 bs=1M count=1 oflag=direct 2>/dev/null; flags r)" $((7 * slots))
invariants 0

fresh lzo zstd
check "algo=zstd: of priority 2" again algo=zstd
check "there are pages of it" [ "$(flags r)" -ge $((7 * slots)) ]
check "lzo, of a lower priority, finds nothing to do" again "algo=lzo priority=1"
equal "contents stay" "$(sum)" "$was"

# Everything at once.
fresh zstd
rm -f /tmp/stop
( while [ ! -e /tmp/stop ]; do again priority=1; put all "$(z 0 idle)"; again type=idle; done ) & job=$!
check "reads, writes and discards meanwhile" blkcheck /dev/zram0 --mb 16 --threads 2 --ms $((4000 * SCALE))
check "compaction and statistics meanwhile" sh -c "for i in 1 2 3 4 5; do echo 1 >$(z 0 compact); cat $(z 0 mm_stat); done"
touch /tmp/stop; wait $job
invariants 0

size=1G; fresh zstd; size=256M
check "mkswap and swapon" sh -c "mkswap /dev/zram0 && swapon /dev/zram0"
rm -f /tmp/stop
( while [ ! -e /tmp/stop ]; do put all "$(z 0 idle)"; sleep 0.1; again type=idle; done ) & job=$!
check "swap under pressure meanwhile" swapcheck --mb 160 --procs 3 --passes $SCALE --forks 1
touch /tmp/stop; wait $job
check "swapoff" swapoff /dev/zram0
invariants 0

# A reset ends it, and so does a signal.
fresh zstd
( while again priority=1; do
	dd if=/tmp/data of=/dev/zram0 bs=1M oflag=direct
done ) >/dev/null 2>&1 & job=$!
sleep 0.3
within "a reset meanwhile" 20 put 1 "$(z 0 reset)"
wait $job
fresh zstd
again priority=1 & job=$!
sleep 0.1; kill -9 $job 2>/dev/null; wait $job
equal "contents stay after a kill" "$(sum)" "$was"
invariants 0
finish
