# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the benches leave in build/bench/, and what of it is published, in docs/figures/: which
file, made by which command, with which keys.

    SOURCES            each file, its command and what every row of it must have
    load(folder, kept) all of them; what cannot be read says why, in one line (Source.problem)
    Rows               rows by their keys, and a measure with its range

Two ways of telling a range are known: M_range of the benches in Python, M_min and M_max of
bench-user's.  A measure that is null was not taken.
"""
import json
import os
import re
import time
from typing import NamedTuple


class Absent(Exception):
    """The rows have no such figure."""


class Figure(NamedTuple):
    value: float
    low: float
    high: float


KEPT = os.path.join("docs", "figures")
# File: (the command that makes it, the keys that each of its rows has).
SOURCES = {
    "kernel-release.json": ("make measure WHAT=kernel", ("kind", "variant", "np")),
    "kernel-latency.json": ("make measure WHAT=kernel", ("kind", "variant")),
    "kernel-units.json": ("make measure WHAT=units", ("variant", "heap", "codec", "unit")),
    "linux-release.json": ("make measure WHAT=linux", ("kind", "client", "allocator", "np")),
    "kernel-pressure.json": ("make measure WHAT=pressure", ("kind", "variant")),
    "tiers.json": ("make measure WHAT=tiers", ("kind", "variant")),
    "release.json": ("make demo", ("variant", "threads")),
    "store.json": ("make measure WHAT=library", ("threads", "codec")),
    "density.json": ("make measure WHAT=library", ("set", "churned")),
    "malloc.json": ("make measure WHAT=library", ("allocator", "threads")),
    "latency.json": ("make measure WHAT=library", ("allocator", "others", "op")),
    "values.json": ("make measure WHAT=library", ("variant", "threads")),
    "back.json": ("build/measure_back --json >build/bench/back.json", ("figure", "target")),
    "scale.json": ("make measure WHAT=scale", ("scenario", "variant", "cpus")),
    "nbd.json": ("make measure WHAT=programs", ("plugin", "op", "jobs")),
    "ebb-cache.json": ("make measure WHAT=library", ("variant", "benchmark", "threads")),
    "cache.json": ("make measure WHAT=programs", ("variant", "benchmark", "threads")),
    "dask.json": ("make measure WHAT=python", ("variant", "workload", "data_over_limit")),
}


def clean(text):
    """A name for a page: control characters, which XML cannot have, are replaced."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", str(text))


def plain(value):
    return clean(value) if isinstance(value, str) else value


def is_number(value):
    """One that a plot can have: finite, and as a float, too."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e307


class Rows(list):
    """Rows of one file, by the name that it is told by when something is missing; cpus: of the
    machine, 1 where that is not said."""

    def __init__(self, name, rows, cpus=1):
        super().__init__(rows)
        self.name, self.cpus = name, cpus

    def where(self, **keys):
        return Rows(self.name, (r for r in self if all(r.get(k) == v for k, v in keys.items())),
                    self.cpus)

    def also(self, **made):
        """The rows with more keys, each made by a function of the row."""
        return Rows(self.name, ({**r, **{k: fn(r) for k, fn in made.items()}} for r in self),
                    self.cpus)

    def values(self, key):
        """What the key has in the rows, in their order; null is nothing."""
        return list(dict.fromkeys(r[key] for r in self if r.get(key) is not None
                                  and isinstance(r[key], (str, int, float))))

    def need(self, **keys):
        """The rows with these keys, of which there is one at least."""
        found = self.where(**keys)
        if not found:
            said = " and ".join(f"{k} {v}" for k, v in keys.items())
            raise Absent(f"{self.name} has no row of {said}.")
        return found

    def get(self, measure, **keys):
        """The Figure of the first of these rows that has it, or None."""
        for r in self.where(**keys):
            if (value := r.get(measure)) is None:
                continue
            ends = r.get(measure + "_range")
            low, high = ends if isinstance(ends, list) and len(ends) == 2 else \
                (r.get(measure + "_min"), r.get(measure + "_max"))
            low = value if low is None else low
            high = value if high is None else high
            for x in (value, low, high):
                if not is_number(x):
                    raise Absent(f"{self.name}: {measure} is {clean(repr(x))[:40]}, "
                                 "where a number was expected.")
            return Figure(value, low, high)
        return None


class Source(NamedTuple):
    name: str
    command: str
    rows: Rows          # None if there is no such file, or it cannot be used
    problem: str        # why it cannot be used; "" if it can, or is not there
    machine: str
    taken: str = ""     # when; "" if there is nothing


def facts_of(doc):
    """Where a document's figures are from, under the names that benches have for such facts."""
    told = doc.get("machine")
    return told if isinstance(told, dict) else {**doc, "cpu_model": told}


def cpu_and_count(facts):
    yield facts.get("cpu_model") or facts.get("cpu") or facts.get("processor")
    if is_number(n := facts.get("cpus")):
        yield f"{n} CPU{'s' if n != 1 else ''}"


def time_of(facts, written):
    date = facts.get("date")
    return date if isinstance(date, str) else written


def kernel_of(facts):
    kernel = facts.get("host_kernel") or facts.get("kernel")
    if not isinstance(kernel, str):
        return ""
    return kernel if kernel.startswith("Linux") else f"Linux {kernel}"


def words_of_machine(doc, written):
    """One line on where the figures are from, with all that may move them."""
    facts = facts_of(doc)
    said = [*cpu_and_count(facts)]
    if is_number(n := facts.get("memory_bytes")):
        said.append(f"{n / (1 << 30):.0f} GiB")
    said.append(kernel_of(facts))
    guest = doc.get("kernel")
    if isinstance(guest, dict) and guest.get("release"):
        said.append(f"guest: {guest.get('name', 'kernel')}, Linux {guest['release']}")
    if is_number(n := doc.get("rounds")):
        said.append(f"{n} round{'s' if n != 1 else ''}")
    if is_number(n := facts.get("load_at_start")):
        said.append(f"load {n:.1f} at the start")
    if not any(said):
        said = ["the file does not say which machine"]
    said.append(time_of(facts, written)[:10])
    said.append(f"commit {facts['commit']}" if facts.get("commit") else "")
    return clean(", ".join(str(s) for s in said if s))


def taken(doc, written):
    """The same for the line under a table of a page."""
    facts = facts_of(doc)
    kernel = re.match(r"Linux \d+\.\d+", kernel_of(facts))
    load = facts.get("load_at_start")
    said = [*cpu_and_count(facts), kernel and kernel[0], is_number(load) and f"load {load:.1f}",
            time_of(facts, written)[:10]]
    return clean(f"Taken at {facts.get('commit')} on {', '.join(str(s) for s in said if s)}: "
                 f"`{facts.get('command')}`.")


def rows_of(doc, name, keys):
    """The rows of a document; ValueError says what else was expected."""
    if not isinstance(doc, dict) or not isinstance(doc.get("rows"), list):
        raise ValueError("expected an object with a list \"rows\"")
    if not doc["rows"]:
        raise ValueError("expected one row at least, and \"rows\" is empty")
    for number, row in enumerate(doc["rows"], 1):
        if not isinstance(row, dict):
            raise ValueError(f"expected an object as row {number}")
        for key in keys:
            if key not in row:
                raise ValueError(f"expected \"{key}\" in each row, and row {number} has none")
    facts = doc.get("machine")
    cpus = facts.get("cpus") if isinstance(facts, dict) else None
    return Rows(name, ({k: plain(v) for k, v in row.items()} for row in doc["rows"]),
                cpus if is_number(cpus) else 1)


def document(folder, name):
    """(what the file has, when it was written)"""
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(os.fstat(f.fileno()).st_mtime))
        return json.load(f), written


def load_one(folder, name, whose):
    command, keys = SOURCES[name]
    try:
        doc, written = document(folder, name)
        return Source(name, command, rows_of(doc, name, keys), "",
                      f"{whose}: {words_of_machine(doc, written)}", time_of(facts_of(doc), written))
    except FileNotFoundError:
        return Source(name, command, None, "", "")
    except (OSError, ValueError, RecursionError) as e:
        why = "nested too deeply" if isinstance(e, RecursionError) else e
        if isinstance(e, json.JSONDecodeError) or isinstance(e, UnicodeError):
            why = f"expected JSON ({e})"
        return Source(name, command, None, clean(f"{name} cannot be used: {why}."), "")


def load(folder, kept):
    """The published figures, but a later run's where there is one."""
    out = {}
    for name in SOURCES:
        published = load_one(kept, name, "Published")
        mine = load_one(folder, name, "This machine's run")
        out[name] = mine if mine.problem or mine.taken > published.taken else published
    return out
