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

# Bulk page allocation into an array; 6.12 has it as alloc_pages_bulk_array_node().
have ALLOC_PAGES_BULK_NODE "$@" <<'END'
#include <linux/gfp.h>
unsigned long probe(struct page **pages);
unsigned long probe(struct page **pages)
{
	return alloc_pages_bulk_node(GFP_NOIO, NUMA_NO_NODE, 8, pages);
}
END

# hrtimer_init() and a function field, until both became one call.
have HRTIMER_SETUP "$@" <<'END'
#include <linux/hrtimer.h>
void probe(struct hrtimer *timer, enum hrtimer_restart (*fn)(struct hrtimer *));
void probe(struct hrtimer *timer, enum hrtimer_restart (*fn)(struct hrtimer *))
{
	hrtimer_setup(timer, fn, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
}
END

# Pages of compressed memory in /proc/vmstat; there if the kernel has zsmalloc.
have NR_ZSPAGES "$@" <<'END'
#include <linux/mm.h>
#include <linux/vmstat.h>
void probe(struct page *page);
void probe(struct page *page)
{
	mod_zone_page_state(page_zone(page), NR_ZSPAGES, 1);
}
END

mv "$tmp/out" "$out"
