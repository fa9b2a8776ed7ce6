# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The chart of kernel/README.md, of its table by number of processes.

The drawing's <desc> has the figures in words. So whether it is the table's needs no drawing:
scripts/figures compares the two.
"""
import os
import re
import xml.etree.ElementTree as ET

from chart import Chart, Panel, Series

FILE = "docs/release.svg"
PAGE = "kernel/README.md"
TITLE = "Unmapping 256 MB of swapped-out memory: ms until the last munmap has returned, by variant"
MARK = re.compile(r"<!-- figures: kernel-release\.json [^\n]*\n[^\n]*\n"
                  r"columns np=1 \|(?:(?!-->).)*?^-->\n((?:\|[^\n]*\n)+)", re.S | re.M)
# In the order of the table's rows.
ROWS = [("in-tree, Linux 7.3", "intree"),
        ("Ebb, synchronous", "sync"), ("Ebb, deferred", "deferred"),
        ("a free that does nothing", "floor")]


def figures(text):
    """(heads, [ms, ...] of each row) of the table; ValueError if it is not as expected."""
    m = MARK.search(text)
    if not m:
        raise ValueError(f"{PAGE} has no table that is marked as of kernel-release.json")
    lines = [[c.strip() for c in line.strip("|\n").split("|")] for line in m[1].splitlines()]
    heads, rows = lines[0][1:], [line[1:] for line in lines[2:]]
    values = [[re.match(r"[\d.]+", c) for c in row] for row in rows]
    if len(rows) != len(ROWS) or not all(v for row in values for v in row):
        raise ValueError(f"{PAGE}'s table was expected to have {len(ROWS)} rows of figures")
    return heads, [[float(v[0]) for v in row] for row in values]


def told(heads, values):
    """The figures in words, as the drawing has them."""
    return "; ".join(f"{name}: " + ", ".join(f"{h} {v:g} ms" for h, v in zip(heads, row))
                     for (name, _), row in zip(ROWS, values))


def of_page(path):
    """(chart, its figures in words)"""
    with open(path, encoding="utf-8") as f:
        heads, values = figures(f.read())
    series = [Series(name, role, []) for name, role in ROWS]
    for s, row in zip(series, values):
        for head, v in zip(heads, row):
            s.add(head, (v, v, v))
    panel = Panel("bars", series,
                  "ms until the last munmap of 256 MB has returned; less is better", "", digits=0)
    return Chart([panel], ""), told(heads, values)


def wrong(root):
    """Why the drawing is not of that table; "" if it is."""
    try:
        with open(os.path.join(root, PAGE), encoding="utf-8") as f:
            want = told(*figures(f.read()))
        drawn = ET.parse(os.path.join(root, FILE)).find("{http://www.w3.org/2000/svg}desc")
    except ValueError as e:
        return str(e)
    except (OSError, ET.ParseError) as e:
        return f"{FILE} cannot be compared: {e}"
    if drawn is None or drawn.text != want:
        return f"{FILE} has other figures than {PAGE}'s table; make report draws it anew"
    return ""
