# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Functions of the guest tests. A test sources this, reports with check/skip, and ends
# with `finish`, which unloads the module and looks for what was not given back.

failed=0

ok()     { echo "ok - $1"; }
not_ok() { failed=1; echo "not ok - $1 # ${2:-}"; }
skip()   { echo "ok - $1 # SKIP $2"; }
note()   { echo "# $*"; }

# check NAME COMMAND...: passes when the command does; its last line is the reason if not, and the
# first ones are notes.
check() {
	_name=$1; shift
	if _out=$("$@" 2>&1); then ok "$_name"; else
		_rc=$?
		echo "$_out" | head -n 10 | sed 's/^/# /'
		not_ok "$_name" "status $_rc: $(echo "$_out" | tail -n 1)"
	fi
}

# refuse NAME COMMAND...: passes when the command fails.
refuse() {
	_name=$1; shift
	if _out=$("$@" 2>&1); then not_ok "$_name" "it did not fail"; else ok "$_name"; fi
}

# equal NAME GOT WANTED
equal() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "'$2' is not '$3'"; fi; }

# put VALUE FILE: a write whose error is an exit code.
put() { printf '%s' "$1" 2>/dev/null >"$2"; } 2>/dev/null

# The module's own walk over all its invariants; the disk must be closed.
invariants() { ! is_ebb || equal "zram$1: every invariant holds" "$(cat "/sys/kernel/debug/zram/zram$1/check")" ok; }

# Bytes of the kernel's page.
pagesize=$(awk '$1 == "KernelPageSize:" { print $2 * 1024; exit }' /proc/self/smaps)

z()      { echo "/sys/block/zram$1/$2"; }
# mm DEV FIELD: a field of mm_stat, by position as in the documentation.
mm()     { awk -v f="$2" '{ print $f }' "$(z "$1" mm_stat)"; }
used()   { mm "$1" 3; }
miss()   { sed -n 2p "$(z 0 debug_stat)" | awk '{ print $2 }'; }
is_ebb() { [ -e "$(z 0 release_limit)" ]; }

# A device of SIZE with CODEC, ready for I/O.
setup() { # DEV SIZE [CODEC]
	put 1 "$(z "$1" reset)" || return 1
	[ -z "${3:-}" ] || put "$3" "$(z "$1" comp_algorithm)" || return 1
	put "$2" "$(z "$1" disksize)"
}

# Ends when the command succeeds, or after SECONDS; passes if it did.
within() { # NAME SECONDS COMMAND...
	_name=$1 _i=$(($2 * 10)); shift 2
	while ! "$@" >/dev/null 2>&1; do
		[ $_i -gt 0 ] || { not_ok "$_name" "not in time: $*"; return; }
		_i=$((_i - 1)); sleep 0.1
	done
	ok "$_name"
}

# N pages of text that compress to some hundred bytes each, no two alike.
text_pages() {
	awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) { s = sprintf("%08d", i); o = ""; for (j = 0; j < 64; j++) o = o sprintf("%s%06d", s, (i * 7919 + j * 104729) % 1000003); printf "%-4096s", o } }'
}

# Holes in the first N of a device's pages: of each 64, the first 48 are discarded.
holes() { # DEV N
	_i=0; while [ $_i -lt "$2" ]; do
		blkdiscard -o $((_i * 4096)) -l $((48 * 4096)) "/dev/zram$1" 2>/dev/null
		_i=$((_i + 64))
	done
}

# What is held back, and the other fields of release_stat by position.
released() { awk -v f="$2" '{ print $f }' "$(z "$1" release_stat)"; }

load() { modprobe zram "$@" && [ -e /sys/block/zram0 ]; }

# Codecs the module offers, brackets off.
codecs() { tr -d '[]' <"$(z 0 comp_algorithm)"; }

# The Nth empty disk of `# vm: disks=`.
disk() {
	_d=$(echo "$1" | tr 0123 abcd)
	for _p in vd ubd; do [ ! -b "/dev/$_p$_d" ] || echo "/dev/$_p$_d"; done
}

# What zswap writes to, $d: a disk, or a zram device made anew where the kernel has none.
backing() {
	d=$(disk 0)
	[ -z "$d" ] || return 0
	load && setup 0 1G && d=/dev/zram0
}

# zswap's parameters and what it counts; a count that is not there is 0.
zswap_set() { put "$2" "/sys/module/zswap/parameters/$1"; }
zswap() { cat "/sys/kernel/debug/zswap/$1" 2>/dev/null || echo 0; }
# Nothing is in it, and it has no memory.
zswap_empty() { [ "$(zswap stored_pages)" = 0 ] && [ "$(zswap pool_total_size)" = 0 ]; }
# It has no more than is swapped out: pages of the shell, and of the root file system, a tmpfs.
zswap_tidy() {
	_out=$(awk -v size="$pagesize" 'NR > 1 { n += $4 } END { print n * 1024 / size }' /proc/swaps)
	[ "$(zswap stored_pages)" -le "$_out" ]
}
# Until there is /tmp/stop: the largest number that COMMAND has printed, in /tmp/most.
watch() {
	_most=0
	while [ ! -e /tmp/stop ]; do
		_n=$("$@"); [ "$_n" -le $_most ] || _most=$_n
		echo $_most >/tmp/most; sleep 0.02
	done
}

# Groups below one folder: group NAME LIMIT makes one, in_group NAME COMMAND runs there.
groups=/sys/fs/cgroup
groups_on() {
	mkdir -p $groups; mount -t cgroup2 none $groups 2>/dev/null
	put +memory $groups/cgroup.subtree_control
}
group() { mkdir -p "$groups/$1" && put "$2" "$groups/$1/memory.max"; }
in_group() { _g=$1; shift; sh -c "echo \$\$ >$groups/$_g/cgroup.procs && exec \"\$@\"" sh "$@"; }
group_stat() { awk -v f="$2" '$1 == f { print $2 }' "$groups/$1/memory.stat"; }
group_gone() { rmdir "$groups/$1"; }

vmstat() { awk -v f="$1" '$1 == f { print $2 }' /proc/vmstat; }

# Pages of compressed memory by the kernel's own count, each CPU's share included.
zspages() { { echo 1 >/proc/sys/vm/stat_refresh; } 2>/dev/null; vmstat nr_zspages; }
zspages_before=$(zspages)

# ---- backing devices, and what is on them ----

units=$((pagesize / 4096))              # of a page, as bd_stat counts
slots=$((256 / units))                  # pages of a MiB
state=/sys/kernel/debug/zram/zram0/block_state

# Fields by position, of zram0.
bd()            { awk -v f="$1" '{ print $f }' "$(z 0 bd_stat)"; }
failed_writes() { awk '{ print $2 }' "$(z 0 io_stat)"; }
# Of such a field: for within.
is()            { [ "$($1 "$2")" = "$3" ]; }
over()          { [ "$($1 "$2")" -gt "$3" ]; }
# Slots that have a letter in block_state.
flags()         { awk -v f="$1" 'index($3, f) { n++ } END { print n + 0 }' $state; }
# What is in use is what slots have; the disk is closed.  Its thread may be writing as yet.
blocks() { # NAME
	_tries=0
	while _used=$(bd 1); _n=$(flags w); [ "$(bd 1)" != "$_used" ] && [ $_tries -lt 50 ]; do
		_tries=$((_tries + 1)); sleep 0.1
	done
	equal "$1: each block in use is a slot's" "$_used" $((_n * units))
	invariants 0
}

# Skips a test where zram0 has no such file, or the kernel no loop device.
need_loop() { # NAME FILE
	[ -e "$(z 0 "$2")" ] || { skip "$1" "this zram has none"; finish; }
	modprobe loop 2>/dev/null
	[ -e /dev/loop0 ] || { skip "$1" "this kernel has no loop device"; finish; }
}

loop() { # MiB: a file on tmpfs behind loop0
	losetup -d /dev/loop0 2>/dev/null; rm -f /tmp/back
	dd if=/dev/zero of=/tmp/back bs=1M count=0 seek="$1" 2>/dev/null
	losetup /dev/loop0 /tmp/back
}

# Everything back: devices whole, and reset, the module gone, slab and pages where they were.
finish() {
	swapoff -a 2>/dev/null
	for d in /sys/block/zram[0-9]*; do
		[ -e "$d" ] || continue
		invariants "${d##*/zram}"
		check "${d##*/} resets at the end" put 1 "$d/reset"
		equal "${d##*/} holds no memory after its reset" "$(awk '{ print $1, $2 }' "$d/mm_stat")" "0 0"
	done
	check "the module unloads" modprobe -r zram
	# Who is called when memory is short is still there.
	{ echo 2 >/proc/sys/vm/drop_caches; } 2>/dev/null
	# Fewer there may be: in zsmalloc's place others' lists give back pages meanwhile.
	_left=$(zspages)
	check "no page is left ($_left of $zspages_before)" [ "$_left" -le "$zspages_before" ]
	equal "no device is left" "$(ls -d /sys/block/zram* 2>/dev/null)" ""
	equal "no thread of its own is left" "$(cat /proc/[0-9]*/comm 2>/dev/null | grep '^kworker/R-zram')" ""
	if [ -e /sys/kernel/debug/kmemleak ]; then
		# The first scan marks, the second reports; young objects are passed over for 5 s.
		echo scan >/sys/kernel/debug/kmemleak; sleep 6
		echo scan >/sys/kernel/debug/kmemleak
		_leaks=$(grep -c '^unreferenced' /sys/kernel/debug/kmemleak)
		_ours=$(grep -cE 'zram|zs_|zsmalloc|ebb|zcomp|pool_|slot_' \
			/sys/kernel/debug/kmemleak)
		[ "$_ours" = 0 ] || head -n 60 /sys/kernel/debug/kmemleak
		equal "kmemleak names nothing of ours (of $_leaks)" "$_ours" 0
	fi
	exit $failed
}

# The end of a test in which loop0 was zram0's backing device.
finish_loop() {
	put 1 "$(z 0 reset)"
	check "the loop device is free again" losetup -d /dev/loop0
	rm -f /tmp/back
	finish
}
