#!/bin/sh
# Threads without turns on a few pages: what is read was written there, whole, or is zeros.
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# vm: short=yes mem=512M timeout=60 progs=contend
. /lib.sh
load || { not_ok "zram loads"; exit 1; }

run() { # NAME CODEC MS PAGES [OPTIONS]
	setup 0 64M "$2"
	_name=$1 _ms=$(($3 * SCALE)) _pages=$4
	shift 4
	contend 0 --ms $_ms --pages "$_pages" "$@" >/tmp/out 2>&1
	equal "$_name ($(tail -n 1 /tmp/out))" $? 0
	[ "$(wc -l </tmp/out)" = 1 ] || note "$(head -n 1 /tmp/out)"
}

for c in $(codecs); do run "16 pages, $c" "$c" 1000 16; done
run "2 pages" lz4 4000 2
run "4096 pages" lz4 3000 4096
run "2 pages, and files" lz4 3000 2 --threads 1 --files 3
invariants 0
finish
