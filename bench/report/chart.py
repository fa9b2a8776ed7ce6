# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a plot is, before it is drawn: panels of series, and the sentence of what to see.

The same Chart becomes an SVG (draw.py) and a table (table()), so the two cannot differ.
"""
from dataclasses import dataclass
from typing import NamedTuple


class Point(NamedTuple):
    x: object           # a number, or the name of a category where the panel has bars or dots
    value: float
    low: float
    high: float


# What a colour means on the whole page, by the name that follows --plot- in page.html.
ROLES = ("intree", "built", "sync", "deferred", "bulk", "floor", "other", "more")


@dataclass
class Series:
    name: str
    role: str           # of ROLES
    points: list
    faint: bool = False # for what was not measured here
    mark: int = 0       # the shape of its points, the same in all panels of a chart

    def add(self, x, figure):
        if figure:
            self.points.append(Point(x, *figure))


@dataclass
class Panel:
    """lines: over a number. bars: from zero, by category; stacked if so said. dots: by category,
    on an axis that need not start at zero."""
    kind: str           # lines, bars, stacked, dots
    series: list
    value: str          # what is measured, with its unit
    over: str           # the numbers below, or what the categories are
    title: str = ""
    log: bool = False   # the values, of lines and dots: a bar begins at zero
    log_over: bool = False
    band: bool = False  # ranges as bands
    turned: bool = False    # lines with the values to the right, where they are times
    mark: float = None  # a value with a line across
    digits: int = 3     # significant ones; 0: as it is

    def __post_init__(self):
        self.series = [s for s in self.series if s.points]

    def categories(self):
        return list(dict.fromkeys(p.x for s in self.series for p in s.points))


@dataclass
class Chart:
    panels: list
    see: str
    same: bool = False  # the panels have the same range of values

    def __post_init__(self):
        self.panels = [p for p in self.panels if p.series]
        names = [s.name for s in self.legend()]
        for s in (s for p in self.panels for s in p.series):
            s.mark = names.index(s.name)

    def legend(self):
        """One series of each name."""
        seen = {}
        for s in (s for p in self.panels for s in p.series):
            seen.setdefault(s.name, s)
        return list(seen.values())


def number(value, digits=3):
    """A figure for people: significant digits, and commas. Counts are exact."""
    if abs(value) >= 1e15:
        return f"{value:.2e}"
    if not digits:
        return f"{value:g}"
    if isinstance(value, int) or value == 0:
        return f"{value:,.0f}"
    whole = len(f"{abs(value):.0f}") if abs(value) >= 1 else 0
    if not whole:
        text = f"{value:.{digits}g}"
        return f"{value:.2e}" if "e" in text else text
    return f"{value:,.{max(0, digits - whole)}f}"


def times(value):
    """A factor in a sentence."""
    return f"{number(value, 2)} times"


def cell(point, digits):
    if point is None:
        return ""
    told = number(point.value, digits)
    ends = number(point.low, digits), number(point.high, digits)
    return told + (f" [{ends[0]} to {ends[1]}]" if point.low != point.high else "")


def table(panel):
    """(heads, lines) with the figures of a panel."""
    heads = [panel.over, *(s.name for s in panel.series)]
    by = [{p.x: p for p in s.points} for s in panel.series]
    keys = panel.categories()
    if panel.kind == "lines":
        keys.sort()
    return heads, [[str(k) if isinstance(k, str) else number(k), *(cell(b.get(k), panel.digits)
                                                                   for b in by)] for k in keys]
