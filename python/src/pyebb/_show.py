# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Sizes as people write and read them, and the tables that Jupyter shows."""
import html
import operator
import re
from collections.abc import Iterable
from typing import SupportsIndex

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGTP", 1):
    _UNITS[_letter] = _UNITS[_letter + "IB"] = 1024 ** _power    # G: as Ebb's commands have it
    _UNITS[_letter + "B"] = 1000 ** _power


_LIMIT = 1 << 64


def parse_size(size: SupportsIndex | str, name: str) -> int:
    """Bytes that a size says: an int, or a str such as "64 MiB", "64M", "1.5GB" or "4096".

    name is what the size is of, for the ValueError that anything else is.
    """
    n = -1
    if isinstance(size, str):
        m = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([A-Za-z]*)\s*", size)
        if m and m[2].upper() in _UNITS:
            number = float(m[1]) if "." in m[1] else int(m[1])
            n = int(min(number * _UNITS[m[2].upper()], _LIMIT))
    elif not isinstance(size, bool):
        try:
            n = operator.index(size)
        except TypeError:
            pass
    if not 0 <= n < _LIMIT:
        raise ValueError(f"{name} {size!r}: expected bytes as an int of at least 0 and less than "
                         "2**64, or a text such as '64 MiB' or '1.5GB'")
    return n


def size_text(size: float) -> str:
    """A size in bytes as a person reads it: "1.5 GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size /= 1024
    else:
        unit = "TiB"
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"


def strips_html(bar: Iterable[tuple[str, int, str]], whole: int) -> str:
    """A bar of parts (name, bytes, colour) of whole bytes, or of more if they are more."""
    parts = [(name, n, colour) for name, n, colour in bar if n]
    whole = max(whole, sum(n for _, n, _ in parts), 1)
    strips = "".join(
        f'<div title="{html.escape(f"{name}: {size_text(n)}")}" '
        f'style="width:{100 * n / whole:.2f}%;background:{colour}"></div>'
        for name, n, colour in parts)
    return ('<div style="display:flex;width:24em;height:1em;border:1px solid #888">'
            f"{strips}</div>")


def table_html(title: str, rows: Iterable[tuple[str, str]],
               bar: Iterable[tuple[str, int, str]], whole: int) -> str:
    """A table of rows (name, text) below a bar of parts (name, bytes, colour) of whole bytes."""
    lines = "".join(f'<tr><th style="text-align:left">{html.escape(name)}</th>'
                    f"<td>{html.escape(text)}</td></tr>" for name, text in rows)
    return (f"<div><b>{html.escape(title)}</b>{strips_html(bar, whole)}"
            f"<table>{lines}</table></div>")
