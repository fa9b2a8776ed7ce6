#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# probe.sh OUT CC FLAGS... - writes what this kernel offers as HAVE_... 0 or 1 into OUT.
#
# A probe is a piece of C that compiles if, and only if, the kernel has the interface.  A
# probe that must compile everywhere comes first, so that broken flags are an error and not
# an answer.
set -eu
out=$1
shift
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

compiles() {
	cat >"$tmp/probe.c"
	"$@" -Werror=implicit-function-declaration -c -o "$tmp/probe.o" "$tmp/probe.c" \
		>"$tmp/log" 2>&1
}

have() {
	name=$1
	shift
	if compiles "$@"; then value=1; else value=0; fi
	echo "#define HAVE_$name $value" >>"$tmp/out"
}

echo '/* Made by probe.sh. */' >"$tmp/out"

if ! compiles "$@" <<'END'
#include <linux/mm.h>
int probe(void);
int probe(void) { return PAGE_SHIFT; }
END
then
	echo "probe.sh: this kernel's headers do not compile:" >&2
	cat "$tmp/log" >&2
	exit 1
fi

# hrtimer_init() and a function field, until both became one call.
have HRTIMER_SETUP "$@" <<'END'
#include <linux/hrtimer.h>
void probe(struct hrtimer *timer, enum hrtimer_restart (*fn)(struct hrtimer *));
void probe(struct hrtimer *timer, enum hrtimer_restart (*fn)(struct hrtimer *))
{
	hrtimer_setup(timer, fn, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
}
END

mv "$tmp/out" "$out"
