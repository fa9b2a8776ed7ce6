# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# root.sh - a Debian in a folder, in which apt installs kernels.  For scripts that source it.
#
#   root_open SUITE PKG...   a fresh copy of the Debian (tests/vm/box root) in $box
#   within CMD...            runs CMD in it, with $top where it is here
#   is NAME PATTERN CMD...   a line of TAP: what CMD prints in it, whole, matches
#   apt_is NAME ARG...       such a line: apt-get in it ends with 0.  It gets packages as files
#   fetch SUITE get PKG...   these files, of tests/vm/debs, in $box/debs; prints their names in it
#   newest SUITE SERIES      the release of the newest cloud kernel there: newest trixie 6.12
#   kernel SUITE RELEASE     fetches its packages and its headers'
#   renamed NEW CMD FILE...  makes of files of kernel $rel those of a kernel NEW, which has few
#                            modules; CMD is run in the folder of each package
#   kernels                  a program in it: a line for each kernel, whose zram would be loaded,
#                            and whose from its initrd ("no": one that is broken)
#   each RELEASE=WHOSE...    the pattern of what it prints if all is well; WHOSE is Ebb or own
#
# It needs $here (tests/vm) and $top.  $n counts the lines of TAP, $bad is 1 if one failed.

n=0 bad=0 box='' rel=''
trap '[ -z "$box" ] || rm -rf "$box"' EXIT

within() { timeout -k 10 900 "$here/box" run "$box" "$top" -- "$@" 2>&1; }

is() {
	local name=$1 pattern=$2 out; shift 2
	out=$(within "$@")
	n=$((n + 1))
	# shellcheck disable=SC2053
	if [[ $out == $pattern ]]; then
		echo "ok $n - $suite: $name"
	else
		bad=1
		echo "$out" | tail -n 30 | sed 's/^/# /'
		echo "not ok $n - $suite: $name"
	fi
}

root_open() {
	local made
	suite=$1
	made=$("$here/box" root "$@" initramfs-tools zstd '?essential' apt) || exit
	[ -z "$box" ] || rm -rf "$box"
	box=$(mktemp -d "$made.XXXXXX") && cp -a "$made/." "$box/" && mkdir -p "$box/debs" || exit 1
	echo COMPRESSLEVEL=1 >"$box/etc/initramfs-tools/conf.d/fast"
	cat >"$box/usr/bin/kernels" <<-'EOF'
		#!/bin/bash
		whose() {
			[ -n "$1" ] || { echo no; return; }
			[ -n "$(modinfo -F version "$1")" ] && echo Ebb || echo own
		}
		loads() {
			local files file
			files=$(modprobe "$@" --show-depends zram | awk '{ print $2 }')
			for file in $files; do [ -e "$file" ] || return; done
			echo "$file"
		}
		for k in /lib/modules/*; do
			k=${k##*/} i=$(mktemp -d) in=none
			unmkinitramfs "/boot/initrd.img-$k" "$i" || { echo "$k: no initrd"; continue; }
			[ -z "$(find "$i" -name 'zram.ko*')" ] || in=$(whose "$(loads -d "$i" -S "$k")")
			echo "$k: $(whose "$(loads -S "$k")"), initrd: $in"
			rm -rf "$i"
		done
	EOF
	chmod +x "$box/usr/bin/kernels"
}

apt_is() {
	local name=$1 cmd='apt-get -y --no-install-recommends -o Dpkg::Use-Pty=0 "$@"'; shift
	is "$name" "*apt ends with 0" sh -c "$cmd; echo apt ends with \$?" sh "$@"
}

fetch() {
	local f
	[ $# -gt 2 ] || return 0
	for f in $("$here/debs" "$@"); do cp "$f" "$box/debs/" && echo "/debs/${f##*/}"; done
}

newest() {
	"$here/debs" "$1" names "^linux-headers-${2/./[.]}[.].*-cloud-amd64\$" | sort -V | tail -n 1 |
		sed 's/^linux-headers-//' | grep .
}

# Newer packages keep image and modules beside a linux-image that holds nothing; older ones have
# tools that are those of a series.
kernel() {
	local base=${2%-cloud-amd64} parts='image|headers|base|binary|modules|kbuild' names
	parts="($parts)-${base//[.+]/[.+]}(-cloud-amd64|-common)?"
	names=$("$here/debs" "$1" names "^linux-($parts|kbuild-${base%.*}|compiler-gcc-12-x86)\$") || exit
	# shellcheck disable=SC2086
	fetch "$1" get $names
}

renamed() {
	local new=$1 cmd=$2 deb d f l t name; shift 2
	for deb; do
		d=$(mktemp -d) f=/debs/${deb##*/} f=${f/"$rel"/$new}
		dpkg-deb -R "$box$deb" "$d" || exit 1
		find "$d" -path '*/kernel/*' -name '*.ko*' ! -path '*/drivers/block/*' ! -path '*/mm/*' \
			! -path '*/lib/*' ! -path '*/crypto/*' -delete
		find "$d" -depth -name "*$rel*" | while read -r t; do
			name=${t##*/}
			mv "$t" "${t%/*}/${name/"$rel"/$new}"
		done
		find "$d" -type l -lname "*$rel*" | while read -r l; do
			t=$(readlink "$l")
			ln -sfn "${t/"$rel"/$new}" "$l"
		done
		grep -rlIF -- "$rel" "$d" | xargs -r sed -i "s/$rel/$new/g"
		(cd "$d" && eval "$cmd") && dpkg-deb -b -Znone "$d" "$box$f" >/dev/null || exit 1
		rm -rf "$d"
		echo "$f"
	done
}

each() {
	printf '%s\n' "$@" | LC_ALL=C sort | sed 's/=\(.*\)/: \1, initrd: @(own|none|Ebb)/'
}
