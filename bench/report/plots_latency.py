# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Plots of the worst case: the longest of a single call while others exit, in both homes."""
from chart import Chart, Panel, number
from formats import Absent
from plots import KERNEL, asked, by, named, plot

WORST = "The worst case"
TIMED = (("p50_{u}", "half are within"), ("p999_{u}", "99.9 % are within"),
         ("max_{u}", "the longest"))


def panels_of(rows, key, names, unit, **keys):
    return [Panel("dots", by(rows, key, names, "op", measure.format(u=unit), **keys), unit, "call",
                  title, log=True) for measure, title in TIMED]


def see(rows, key, ours, theirs, op, unit, what, **keys):
    """Of the calls that take longer than 99.9 % of all."""
    found = [rows.get(f"p999_{unit}", op=op, **{key: v}, **keys) for v in (ours, theirs)]
    if not all(found):
        raise Absent(f"{rows.name} has no {op} of both {ours} and {theirs}.")
    return (f"While {what}, 99.9 % of the calls named {op} are within {number(found[0].value)} "
            f"{unit} in Ebb and within {number(found[1].value)} {unit} in {theirs}. A call in "
            "which the timed thread lost its CPU is not among them.")


@plot(WORST, "kernel-latency.json", "One page-out, swap-in or free, while four processes exit")
def latency_kernel(rows):
    calls = rows.need(kind="call")
    np = max(calls.values("np"))
    panels = asked(panels_of(calls, "variant", KERNEL, "us", np=np), calls, "p999_us of calls")
    return Chart(panels, see(calls, "variant", "deferred", "patched", "free", "us",
                             f"{np} processes exit", np=np), same=True)


@plot(WORST, "kernel-latency.json", "Longest time with interrupts or preemption off, at an exit",
      "By the kernel's tracers. With one CPU the clock of the emulated machine counts "
      "instructions; with two, CPUs wait for each other's locks, and for this machine.")
def latency_off(rows):
    off = rows.need(kind="off", when="exit")
    panels = [Panel("bars", by(off, "variant", KERNEL, "tracer", measure), value, "tracer", title)
              for measure, value, title in (("instructions", "instructions", "one CPU"),
                                            ("longest_us", "us", "two CPUs, emulated"))]
    panels = asked(panels, off, "longest times")
    found = [off.get("instructions", tracer="preemptirqsoff", variant=v)
             for v in ("deferred", "patched")]
    if not all(found):
        return Chart(panels, "Compare bars within one panel.")
    return Chart(panels, "At most so many instructions ran with interrupts or preemption off: "
                 f"{number(found[0].value)} with Ebb, {number(found[1].value)} with in-tree zram.")


@plot(WORST, "latency.json", "One store, read or free in user space, while four threads let go")
def latency_user(rows):
    others = max(rows.values("others"))
    names = named(rows, "allocator")
    panels = asked(panels_of(rows, "allocator", names, "ns", others=others), rows, "p999_ns")
    return Chart(panels, see(rows, "allocator", "ebb", "glibc", "free", "ns",
                             f"{others} threads free all that they have", others=others), same=True)
