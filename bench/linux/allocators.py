# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The allocators that the benches of this folder compare, and how words of a command line name them.
"""
import argparse
import functools
import pathlib
import subprocess
from typing import NamedTuple

TOP = pathlib.Path(__file__).resolve().parents[2]
SERIES = TOP / "linux/series"
STEPS = len([p for p in SERIES.glob("0*.patch") if not p.name.startswith("0000-")])
CLIENTS = ["zram", "zswap"]


class Allocator(NamedTuple):
    kernel: str
    counting: str = ""      # the kernel that counts how long locks are held
    leaks: bool = False
    ebb: str = ""           # Ebb's module, and as which of the variants of bench/kernel


LAST = f"series-{STEPS}"
# Patch 1 has tests alone.
ALLOCATORS = {
    "classic": Allocator("uml-series-0", "uml-series-0-holds"),
    **{f"series-{n}": Allocator(f"uml-series-{n}", f"uml-series-{n}-holds")
       for n in range(2, STEPS + 1)},
    "ebb-sync": Allocator("uml-series-0", ebb="sync"),
    "ebb": Allocator("uml-series-0", ebb="deferred"),
    "floor": Allocator("uml-series-0-floor", leaks=True),
    "floor-plus": Allocator(f"uml-series-{STEPS}-floor", leaks=True),
}
DEFAULT = ["classic", LAST, "ebb-sync", "ebb", "floor", "floor-plus"]
# The number of patches after which swap frees by range in a client.
BY_RANGE = {"zram": 6, "zswap": 8}


def has(client, allocator):
    """Whether there is the one under the other: Ebb's is a zram."""
    return client == "zram" or not ALLOCATORS[allocator].ebb


@functools.cache
def module(kernel):
    """Ebb's zram.ko for a kernel of the tests."""
    p = subprocess.run([TOP / "scripts/module", kernel], text=True, stdout=subprocess.PIPE)
    if p.returncode:
        raise SystemExit(f"no zram.ko for {kernel}")
    return pathlib.Path(p.stdout.strip())


def zram_of(allocator, kernel):
    """Its zram in a guest with that kernel: the variant and, if it is Ebb's, the module."""
    how = ALLOCATORS[allocator].ebb
    return how or "base", how and module(kernel)


def floor_of(client, allocator):
    """The allocator that frees nothing under the same client; None: it is one, or there is none."""
    if ALLOCATORS[allocator].leaks or ALLOCATORS[allocator].ebb:
        return None
    step = int(allocator.partition("series-")[2] or 0)
    return "floor-plus" if step >= BY_RANGE[client] else "floor"


def words(known, what):
    def parse(text):
        given = text.split(",")
        for g in given:
            if g not in known:
                raise argparse.ArgumentTypeError(
                    f"'{g}' is no {what}: there are {', '.join(known)}")
        return given
    return parse
