# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The allocators that the benches of this folder compare, and how words of a command line name them.
"""
import argparse
import pathlib
from typing import NamedTuple

SERIES = pathlib.Path(__file__).resolve().parents[2] / "linux/series"
STEPS = len([p for p in SERIES.glob("0*.patch") if not p.name.startswith("0000-")])
CLIENTS = ["zram", "zswap"]


class Allocator(NamedTuple):
    kernel: str
    counting: str = ""      # the kernel that counts how long locks are held
    append: tuple = ()      # to the kernel's command line
    leaks: bool = False
    zswap: bool = True      # it can be measured with zswap
    parts: tuple = ()       # that it is in; none: all


ALLOCATORS = {
    "classic": Allocator("uml-classic", "uml-classic-holds"),
    "floor": Allocator("uml-classic-floor", leaks=True),
    "ebb-sync": Allocator("uml-ebb", "uml-ebb-holds", ("zsmalloc.deferred_free=0",)),
    "ebb-deferred": Allocator("uml-ebb", "uml-ebb-holds"),
    "ebb-chain8": Allocator("uml-ebb-chain8", parts=("pool",)),
    "classic-plus": Allocator("uml-classic-plus", "uml-classic-plus-holds"),
    "floor-plus": Allocator("uml-classic-plus-floor", leaks=True),
    "ebb-bulk": Allocator("uml-ebb-bulk", "uml-ebb-bulk-holds"),
    **{f"series-{n}": Allocator(f"uml-series-{n}", zswap=False) for n in range(STEPS + 1)},
}
DEFAULT = [a for a in ALLOCATORS if not a.startswith("series-")]


def words(known, what):
    def parse(text):
        given = text.split(",")
        for g in given:
            if g not in known:
                raise argparse.ArgumentTypeError(
                    f"'{g}' is no {what}: there are {', '.join(known)}")
        return given
    return parse
