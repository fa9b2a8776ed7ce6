#!/bin/sh
# Each codec keeps pages of every kind, at either end of its levels, with and without a dictionary.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: short=yes mem=1G timeout=150 progs=blkcheck
. /lib.sh
load || { not_ok "zram loads"; exit 1; }

params() { put "$1" "$(z 0 algorithm_params)"; }
algorithm() { put "$1" "$(z 0 comp_algorithm)"; }
second() { put "$1" "$(z 0 recomp_algorithm)"; }
size() { put 16M "$(z 0 disksize)"; }
reset() { put 1 "$(z 0 reset)"; }
chosen() { sed 's/.*\[\(.*\)\].*/\1/' "$(z 0 comp_algorithm)"; }
logs() { dmesg | tail -n 4 | grep -q "$1"; }

# Text, noise, zeros, one word, a program, what begins as noise, what ends as it.
text_pages 64 >/tmp/text
head -c 65536 /dev/urandom >/tmp/noise
{
	cat /tmp/text /tmp/noise
	head -c 65536 /dev/zero
	head -c 65536 /dev/zero | tr '\000' '\245'
	head -c 1048576 /bin/busybox
	i=1; while [ $i -le 40 ]; do
		head -c $((i * 100)) /dev/urandom; head -c $((4096 - i * 100)) /tmp/text
		head -c $((4096 - i * 100)) /bin/busybox; head -c $((i * 100)) /dev/urandom
		i=$((i + 1))
	done
} >/tmp/mix
text_pages 12 | head -c 40000 >/tmp/dict
text_pages 17 | head -c 65536 >/tmp/dict64k

# What is written is read, from the device itself; what the text came to is in $bytes.
carries() {
	dd if=/tmp/text of=/dev/zram0 bs=64k conv=fsync 2>/dev/null || return 1
	bytes=$(mm 0 2)
	dd if=/tmp/mix of=/dev/zram0 bs=64k conv=fsync 2>/dev/null || return 1
	echo 3 >/proc/sys/vm/drop_caches
	cmp -n "$(stat -c %s /tmp/mix)" /tmp/mix /dev/zram0
}

# check is another shell, which would keep $bytes to itself.
carried() { carries && _rc=0 || _rc=$?; check "$1" [ $_rc = 0 ]; }

# keeps NAME ALGORITHM [PARAMS]
keeps() {
	reset; algorithm "$2"; _ok=1
	[ -z "${3:-}" ] || params "$3" || _ok=0
	[ $_ok = 1 ] && size && carries || _ok=0
	check "$1" [ $_ok = 1 ]
	invariants 0
}

# denies NAME ALGORITHM PARAMS WORD: disksize says no, and the log has the word.
denies() {
	reset; algorithm "$2"; params "$3"
	refuse "$1" size
	# The log says ten in five seconds.
	logs "$4" || { sleep 6; algorithm "$2"; params "$3"; size; }
	check "which the log says" logs "$4"
	equal "and the slate is clean" "$(chosen)" "$default"
	check "and it starts without" size
}

default=$(chosen)
for c in $(codecs); do
	keeps "$c keeps pages" "$c"
	plain=$bytes
	[ $c != lz4 ] || plain_lz4=$bytes
	check "$c under threads" blkcheck /dev/zram0 --mb 16 --ms 500
	case $c in
	lzo | lzo-rle | 842)
		denies "$c has no level" "$c" level=1 level=1
		denies "$c has no dictionary" "$c" dict=/tmp/dict dict
		continue ;;
	lz4) low=1 high=2147483647 below=0 above= ;;
	lz4hc) low=1 high=16 below=0 above=17 ;;
	zstd) low=-131072 high=22 below=-131073 above=23 ;;
	deflate) low=-1 high=9 below=-2 above=10 ;;
	esac
	for l in $low $high; do
		keeps "$c at level $l" "$c" "level=$l"
	done
	for l in $below $above; do
		denies "$c has no level $l" "$c" "level=$l" "level=$l"
	done
	if [ $c = deflate ]; then
		denies "deflate has no dictionary" deflate dict=/tmp/dict dict
		continue
	fi
	keeps "$c with a dictionary" "$c" dict=/tmp/dict
	check "which makes it smaller ($plain to $bytes)" [ "$bytes" -lt "$plain" ]
	check "under threads, too" blkcheck /dev/zram0 --mb 16 --ms 500
	for l in $low $high; do
		keeps "$c with a dictionary at level $l" "$c" "dict=/tmp/dict64k level=$l"
	done
	head -c 8 /tmp/dict >/tmp/word
	keeps "$c with a dictionary of 8 bytes" "$c" dict=/tmp/word
	{ cat /tmp/dict64k; echo; } >/tmp/long
	[ $c = zstd ] || denies "$c has no dictionary over 64 KiB" "$c" dict=/tmp/long dict
done

if codecs | grep -qw deflate; then
	for b in -15 -9 9 15; do keeps "deflate.winbits=$b" deflate "deflate.winbits=$b level=9"; done
	for b in -16 -8 0 8 16; do denies "no deflate.winbits=$b" deflate "deflate.winbits=$b" winbits=$b; done
	keeps "winbits are deflate's alone" lz4 "deflate.winbits=99"
fi
if codecs | grep -qw zstd; then
	printf '\067\244\060\354 no dictionary' >/tmp/bad
	denies "zstd has no such dictionary" zstd dict=/tmp/bad dict
	keeps "zstd takes a long one" zstd "dict=/tmp/long level=3"
fi

# The file is read at once and may be gone afterwards.
reset; algorithm lz4; cp /tmp/dict /tmp/gone
check "a dictionary" params dict=/tmp/gone
rm /tmp/gone
check "whose file is gone" size
carried "keeps pages"
smaller=$bytes

# In any order.
reset
check "parameters before their algorithm" params "algo=lz4 dict=/tmp/dict"
check "and others" params "algo=zstd level=1"
algorithm lz4; algorithm zstd; algorithm lz4
check "which are gone with the next choice" size
carried "and pages are kept"
equal "as without" "$bytes" "$plain_lz4"
reset
params "algo=lz4 dict=/tmp/dict"; algorithm lz4; size
carried "they are kept"
equal "as if they came after" "$bytes" "$smaller"
reset
params "algo=$default level=-999999"; algorithm "$default"
refuse "for the one that is there from the start, too" size
algorithm lz4; params "level=99 dict=/tmp/bad"; algorithm lz4
check "those without a name go when it is chosen" size
reset
params "algo=zstd priority=2 level=99"
check "a second algorithm" second "algo=zstd priority=2"
sleep 6
refuse "has its parameters judged" size
check "which the log says" logs level=99
equal "and is gone" "$(cat "$(z 0 recomp_algorithm)")" ""
params "algo=zstd priority=1 level=3"
second "algo=zstd priority=2"
refuse "parameters of an algorithm that is not chosen for their priority" size
check "which the log says" logs "algo=zstd priority=1: not chosen"
params "algo=zstd level=3"
refuse "or for none" size
check "which the log says" logs "algo=zstd: not chosen"
check "until the next try" size
reset
check "the limit before disksize" put 1M "$(z 0 mem_limit)"
params "algo=zstd priority=3 level=3"; second "algo=zstd priority=3"; second "algo=lz4"
check "and all of it" size
equal "lists what was chosen" "$(sed 's/^\(#.\).*\[\(.*\)\].*/\1 \2/' "$(z 0 recomp_algorithm)" | tr '\n' ' ')" "#1 lz4 #3 zstd "
reset
equal "a reset takes second algorithms away" "$(cat "$(z 0 recomp_algorithm)")" ""
params "priority=0 level=99"; reset
check "and parameters" size

# A refusal is logged as ASCII, and not without end.
dmesg -c >/dev/null
sleep 6
refuse "a value of raw bytes" put "$(printf 'a\177\240\303\251\377b\001')" "$(z 0 comp_algorithm)"
check "is logged as ASCII" sh -c "dmesg | grep -qF 'a\\177\\240\\303\\251\\377b\\001'"
check "all of it" sh -c "! dmesg | tr -d '\\n\\040-\\176' | grep -q ."
i=0; while [ $i -lt 200 ]; do put junk "$(z 0 comp_algorithm)"; i=$((i + 1)); done
check "and some of 200, not all" [ "$(dmesg | grep -c "'junk'")" -lt 100 ]
finish
