# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How plots are made and found: a function for each, which makes a Chart of a file's rows.

    @plot("Section", "file.json", "What it shows")
    def name(rows): ...

The order of the functions is the order of the page.
"""
import os
import sys
from typing import Callable, NamedTuple

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "linux"))
from allocators import ALLOCATORS, CLIENTS, LAST, STEPS, floor_of   # noqa: E402
from chart import Series
from formats import Absent


class Plot(NamedTuple):
    name: str
    section: str
    source: str         # a file of formats.SOURCES
    title: str
    chart: Callable
    html: str           # more words below it


PLOTS = []


def plot(section, source, title, html=""):
    def keep(fn):
        PLOTS.append(Plot(fn.__name__, section, source, title, fn, html))
        return fn
    return keep


# What the benches call it, what the page calls it, and the role of its colour.
KERNEL = [("base", "in-tree, as built for user-mode Linux", "built"),
          ("patched", "in-tree, Linux 7.3", "intree"),
          ("sync", "Ebb, synchronous", "sync"), ("deferred", "Ebb, deferred", "deferred"),
          ("floor", "a free that does nothing", "floor")]
LINUX = [("classic", "zsmalloc (classic)", "intree"),
         *((f"series-{n}", f"after {n} patches of linux/series", role)
           for n, role in zip(range(2, STEPS + 1),
                              "built other other sync deferred bulk bulk deferred".split())),
         ("ebb-sync", "Ebb's zram.ko, synchronous", "sync"),
         ("ebb", "Ebb's zram.ko, deferred", "deferred"),
         ("floor", "a free that does nothing", "floor"),
         ("floor-plus", "the same after linux/series", "more")]
# By client, the floor of each allocator.
OF_LINUX = {c: {a: floor_of(c, a) for a in ALLOCATORS if floor_of(c, a)} for c in CLIENTS}
HOST = [("sync", "Ebb, synchronous", "sync"), ("deferred", "Ebb, deferred", "deferred")]
GUEST = [("base", "in-tree, as built", "built"), ("patched", "in-tree, Linux 7.3", "intree"),
         ("ebb", "Ebb", "deferred"), ("floor", "a free that does nothing", "floor")]
OURS, OTHERS = ("deferred", "sync", "bulk"), ("intree", "built", "other", "more", "floor")
MOST = 64   # categories
COUNTS = ("floor", "other", "more", "bulk", "built")


def by(rows, key, names, over, measure, scale=1, **keys):
    """A Series for each name: the measure over another key."""
    out = []
    for value, name, role in names:
        s = Series(name, role, [])
        for x in rows.where(**keys, **{key: value}).values(over):
            if f := rows.get(measure, **keys, **{key: value, over: x}):
                s.add(x, [v / scale for v in f])
        out.append(s)
    return out


def named(rows, key):
    """Names and roles of what a key has. Ebb's are told by their names."""
    left = {True: list(OURS) * 9, False: list(OTHERS) * 9}
    return [(v, str(v), left["ebb" in str(v)].pop(0)) for v in rows.values(key)[:24]]


def counts(rows, key, word):
    """The same for a number of jobs or threads, in colours that are nobody's."""
    return [(n, f"{n} {word}{'s' if n != 1 else ''}", COUNTS[at % len(COUNTS)])
            for at, n in enumerate(rows.values(key))]


def asked(panels, rows, what):
    """The panels, of which one has figures at least."""
    panels = [p for p in panels if p.series]
    if not panels:
        raise Absent(f"{rows.name} has no {what}.")
    if (n := max(len(p.categories()) for p in panels)) > MOST:
        raise Absent(f"{rows.name} has {n} different {what}, and a plot has room for {MOST}.")
    return panels


def pick(values, *wanted):
    """The first of the wanted that is there, else the first."""
    return next((w for w in wanted if w in values), values[0] if values else None)


def most(values):
    return max((v for v in values if isinstance(v, (int, float))), default=None)


def join(words):
    """a, b and c"""
    words = list(words)
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def processes(n):
    return f"{n} process{'es' if n != 1 else ''}"


__all__ = ["PLOTS", "KERNEL", "LINUX", "LAST", "OF_LINUX", "HOST", "GUEST", "plot", "by", "named",
           "counts", "asked", "pick", "most", "join", "processes"]
