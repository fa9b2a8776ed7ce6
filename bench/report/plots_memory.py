# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Plots of memory: density, allocators, what comes back, many CPUs, tiers."""
from chart import Chart, Panel, Series, number, times
from formats import Absent
from plots import GUEST, KERNEL, LAST, LINUX, asked, by, counts, join, most, pick, plot, processes

DENSE, MALLOC, BACK = "Density", "Allocators", "Memory that comes back"
SCALE, TIERS = "Up to 512 CPUs", "Writeback and tiers"


@plot(DENSE, "density.json", "Pool bytes for a compressed byte, by set, filled and after churn",
      "Churned: every slot was replaced about ten times, and the pool compacted. The dashed line "
      "is a pool without any loss.")
def density(rows):
    chain = pick(rows.values("chain_size_pages"), 16)
    mine = rows.where(chain_size_pages=chain) if chain is not None else rows
    panels = []
    for codec in mine.values("codec"):
        of = mine.where(codec=codec)
        same = all(of.values("linux_measured"))
        theirs = "Linux's zram" + ("" if same else " (other samples of these sets)")
        series = [Series(theirs, "intree", []), Series("Ebb, filled", "deferred", []),
                  Series("Ebb, after churn", "sync", [])]
        for name in of.values("set"):
            series[0].add(name, of.get("linux_pool_per_byte", set=name, churned=False))
            series[1].add(name, of.get("pool_per_byte", set=name, churned=False))
            series[2].add(name, of.get("pool_per_byte", set=name, churned=True))
        panels.append(Panel("dots", series, "pool bytes for a compressed byte", "set", codec,
                            mark=1.0, digits=5))
    panels = asked(panels, rows, "pool_per_byte")
    losses = []
    for panel in panels:
        of = {s.role: {p.x: p.value for p in s.points} for s in panel.series}
        theirs = of.get("intree", {})
        losses += [(v - 1) / (theirs[x] - 1) for x, v in of.get("sync", {}).items()
                   if theirs.get(x, 0) > 1]
    if not losses:
        return Chart(panels, "What Linux's zram takes for these sets is not in this run.")
    return Chart(panels, f"After churn Ebb loses {number(min(losses), 2)} to "
                 f"{number(max(losses), 2)} times the bytes that Linux's zram loses when it is "
                 "filled once.")


@plot(DENSE, "kernel-release.json", "The same in a kernel: memory used for a compressed byte")
def density_kernel(rows):
    mine = rows.need(kind="munmap", np=1)
    names = [n for n in KERNEL if n[0] in ("patched", "sync", "deferred")]
    series = [Series(name, role, []) for _, name, role in names]
    for data in mine.values("data"):
        for codec in mine.where(data=data).values("codec"):
            for s, (value, _, _) in zip(series, names):
                s.add(f"{data}, {codec}", mine.get("used_per_compressed_byte", variant=value,
                                                   data=data, codec=codec))
    return dots(series, "used bytes for a compressed byte", rows, "used_per_compressed_byte")


@plot(DENSE, "linux-release.json", "zsmalloc and Ebb in its place, with all their metadata")
def density_linux(rows):
    mine = rows.need(kind="pool")
    names = [n for n in LINUX if not n[0].startswith("floor")]
    series = [Series(name, role, []) for _, name, role in names]
    for client in mine.values("client"):
        for codec in mine.values("codec"):
            for data in mine.values("data"):
                for s, (value, _, _) in zip(series, names):
                    s.add(f"{client}, {codec}, {data}",
                          mine.get("all_per_byte", allocator=value, client=client, codec=codec,
                                   data=data))
    return dots(series, "bytes with all metadata for a compressed byte", rows, "all_per_byte")


def dots(series, value, rows, measure):
    panels = asked([Panel("dots", series, value, "data, codec", mark=1.0, digits=5)], rows, measure)
    theirs = next((s for s in panels[0].series if s.role == "intree"), None)
    ours = next((s for s in panels[0].series if s.role == "deferred"), None)
    pairs = [(p.value, q.value) for p in (ours.points if ours else []) for q in
             (theirs.points if theirs else []) if p.x == q.x]
    if not pairs:
        return Chart(panels, "Only one side was measured.")
    change = [100 * (a / b - 1) for a, b in pairs]
    told = [f"{abs(c):.2f} % {'less' if c < 0 else 'more'}" for c in (min(change), max(change))]
    told = " to ".join(dict.fromkeys(told))
    return Chart(panels, f"Ebb takes {told} memory than in-tree, in {len(pairs)} "
                 f"case{'s' if len(pairs) != 1 else ''}.")


UNITS = [("patched", 4096, "in-tree, Linux 7.3", "intree"),
         ("ebb", 4096, "Ebb, page by page", "sync"),
         ("ebb", 16384, "Ebb, 16 KiB at a time", "deferred"),
         ("ebb", 65536, "Ebb, 64 KiB at a time", "bulk")]


@plot(DENSE, "kernel-units.json", "Memory when neighbouring pages are compressed together")
def density_units(rows):
    series = [Series(name, role, []) for _, _, name, role in UNITS]
    for heap in rows.values("heap"):
        for codec in rows.values("codec"):
            for s, (variant, unit, _, _) in zip(series, UNITS):
                s.add(f"{heap}, {codec}", rows.get("memory", variant=variant, unit=unit, heap=heap,
                                                   codec=codec))
    panels = asked([Panel("dots", series, "bytes of memory for a byte, tables counted",
                          "bytes, codec", digits=3)], rows, "memory")
    less = [100 * (1 - b.value / a.value) for a, b in zip(series[1].points, series[2].points)
            if a.x == b.x]
    if not less:
        return Chart(panels, "Units of 16 KiB or single pages are missing from this run.")
    return Chart(panels, f"16 KiB compressed together take {min(less):.0f} to {max(less):.0f} % less "
                 "memory than page by page.")


@plot(MALLOC, "malloc.json", "Allocating and freeing compressed pages, beside general allocators")
def allocators(rows):
    threads = counts(rows, "threads", "thread")

    def panel(kind, measure, value, title, scale=1, **more):
        return Panel(kind, by(rows, "threads", threads, "allocator", measure, scale), value,
                     "allocator", title, **more)
    panels = asked([
        panel("bars", "alloc_ns", "ns an object", "allocate and fill"),
        panel("bars", "free_ns", "ns an object", "free: in the call"),
        panel("bars", "free_cpu_ns", "CPU ns an object", "free: until the memory is back"),
        panel("bars", "left_bytes", "MiB", "left when all is freed", 1 << 20),
        panel("dots", "rss_per_byte", "resident bytes for a byte", "filled", mark=1.0, digits=4),
        panel("dots", "rss_per_byte_churned", "resident bytes for a byte", "after churn", mark=1.0,
              digits=4)], rows, "alloc_ns and free_ns")
    one = rows.where(threads=pick(rows.values("threads"), 1))
    times_of = {m: {a: f.value for a in one.values("allocator") if (f := one.get(m, allocator=a))}
                for m in ("alloc_ns", "free_ns")}
    said = []
    for m, what in (("free_ns", "a free"), ("alloc_ns", "an allocation, filled,")):
        others = {a: v for a, v in times_of[m].items() if not a.startswith("ebb")}
        if "ebb" in times_of[m] and others:
            best = min(others, key=others.get)
            said.append(f"{what} takes Ebb {number(times_of[m]['ebb'])} ns and the fastest other, "
                        f"{best}, {number(others[best])} ns")
        elif not times_of[m]:
            said.append(f"{m} is missing from this run")
    if not said:
        return Chart(panels, "Ebb's row or all others are missing from this run.")
    text = "; ".join(said)
    return Chart(panels, f"With one thread, {text}.")


@plot(BACK, "kernel-release.json", "After processes are killed: how much memory is back, and when")
def kill_kernel(rows):
    mine = rows.need(kind="kill")
    panels = [Panel("lines", back_by(mine.where(np=n), "variant", KERNEL),
                    "ms after the kill", "% of the memory back", f"{processes(n)} killed",
                    turned=True) for n in mine.values("np")]
    return Chart(asked(panels, rows, "t50_ms, t90_ms and t100_ms"),
                 see_kill(mine, "variant", "deferred", "patched"))


@plot(BACK, "linux-release.json", "The same with in-tree zram and zswap as clients")
def kill_linux(rows):
    mine = rows.need(kind="kill")
    top = most(mine.values("np"))
    panels = [Panel("lines", back_by(mine.where(np=top, client=c), "allocator", LINUX),
                    "ms after the kill", "% of the memory back", f"{c}: {processes(top)} killed",
                    turned=True) for c in mine.values("client")]
    client = pick(mine.values("client"), "zram")
    return Chart(asked(panels, rows, "t50_ms, t90_ms and t100_ms"),
                 see_kill(mine.where(client=client), "allocator", LAST, "classic", "the series"))


def back_by(rows, key, names):
    out = []
    for value, name, role in names:
        s = Series(name, role, [])
        for share in (50, 90, 100):
            s.add(share, rows.get(f"t{share}_ms", **{key: value}))
        if s.points:
            s.points.insert(0, type(s.points[0])(0, 0, 0, 0))
        out.append(s)
    return out


def see_kill(rows, key, ours, theirs, who="Ebb"):
    for n in sorted(rows.values("np"), reverse=True):
        a, b = (rows.get("t90_ms", np=n, **{key: v}) for v in (ours, theirs))
        if a and b and a.value > 0:
            return (f"With {processes(n)} killed, 90 % of the memory is back after "
                    f"{number(a.value)} ms with {who} and {number(b.value)} ms in-tree, "
                    f"{times(b.value / a.value)} as long.")
    return "One of the two sides is missing from this run."


@plot(BACK, "back.json", "What programs get back, and what stores take: measured over target",
      "One is the target; less is better. docs/internals/measuring.md says what each figure is.")
def back(rows):
    s = Series("measured / target", "deferred", [])
    for r in rows:
        value, target = (rows.get(m, figure=r["figure"]) for m in ("value", "target"))
        if value and target and target.value > 0:
            s.add(str(r["figure"]), [value.value / target.value] * 3)
    panels = asked([Panel("bars", [s], "measured / target", "figure", mark=1.0, digits=2)], rows,
                   "value with a target")
    met = sum(p.value <= 1 for p in s.points)
    missed = [p.x for p in s.points if p.value > 1]
    return Chart(panels, f"{met} of {len(s.points)} targets are met"
                 + (f"; missed: {join(missed[:4])}." if missed else "."))


SCENARIOS = {
    "exit-storm": "every CPU frees what it stored",
    "exit-scattered": "the same, stored by all in turn",
    "exit-few": "four CPUs free what they stored",
    "mixed": "write, read and free, a third each",
    "refault": "each CPU reads a page and frees it",
    "reclaim-storm": "64 CPUs reclaim, the others free",
    "remote": "each frees what another node stored",
    "spent-budget": "as the first, with little room",
}


def cores(rows):
    """The variants: the core as it is, and as it was before it was made for many CPUs."""
    out = [("deferred", "Ebb, deferred", "deferred"), ("sync", "Ebb, synchronous", "sync")]
    old = [v for v in rows.values("variant") if isinstance(v, str) and "-" in v]
    return out + [(v, f"{v.partition('-')[0]}, at {v.partition('-')[2]}",
                   "built" if v.startswith("deferred") else "intree") for v in sorted(old)]


@plot(SCALE, "scale.json", "Objects a second on simulated CPUs",
      "The band is between a line of another CPU that takes 100 ns and one that takes 400 ns. "
      "docs/internals/scale.md says how CPUs are simulated, and what that cannot know.")
def scale_rate(rows):
    panels = []
    for scenario, what in SCENARIOS.items():
        mine = rows.where(scenario=scenario)
        series = []
        for value, name, role in cores(rows):
            s = Series(name, role, [])
            of = mine.where(variant=value)
            for n in of.values("cpus"):
                # Of the largest there are two: on one node, and on eight.
                on = of.where(cpus=n)
                on = on.where(nodes=most(on.values("nodes"))) if on.values("nodes") else on
                low, high = on.get("objects_per_s_low"), on.get("objects_per_s_high")
                if low and high and low.value > 0 and high.value > 0:
                    s.add(n, ((low.value * high.value) ** 0.5 / 1e6, low.value / 1e6,
                              high.value / 1e6))
            series.append(s)
        panels.append(Panel("lines", series, "millions of objects a second", "CPUs",
                            f"{scenario}: {what}", log=True, log_over=True, band=True))
    panels = asked(panels, rows, "objects_per_s_low")
    of = rows.where(scenario="exit-storm", variant="deferred")
    top = most(of.values("cpus"))
    best = of.get("speedup_low", cpus=top)
    see = f"{panels[0].title.partition(':')[0]}: " if not best else \
        f"When every CPU frees what it stored, {top} CPUs do at least {number(best.value)} times " \
        "what one does"
    worst = min(((s, f.value) for s in rows.where(variant="deferred", cpus=top).values("scenario")
                 if (f := rows.get("speedup_low", variant="deferred", cpus=top, scenario=s))),
                key=lambda x: x[1], default=None)
    if not best or not worst:
        return Chart(panels, "The rows of the largest machine have no speedup_low.")
    return Chart(panels, f"{see}; the worst scenario, {worst[0]}, does {number(worst[1])} times.")


@plot(SCALE, "scale.json", "Lines of other CPUs that an object costs, on the largest machine")
def scale_lines(rows):
    top = most(rows.values("cpus"))
    mine = rows.where(cpus=top)
    mine = mine.where(nodes=most(mine.values("nodes"))) if mine.values("nodes") else mine
    panels = asked([Panel("bars", by(mine, "variant", cores(rows), "scenario", measure), value,
                          "scenario", title, digits=2)
                    for measure, value, title in (
                        ("remote_lines_per_object", "lines an object", "the caller"),
                        ("worker_lines_per_object", "lines an object", "the worker, later"))],
                   rows, "remote_lines_per_object")
    a = mine.get("remote_lines_per_object", scenario="exit-storm", variant="deferred")
    b = mine.get("worker_lines_per_object", scenario="exit-storm", variant="deferred")
    if not a or not b:
        return Chart(panels, "The deferred exit-storm is missing from this run.")
    return Chart(panels, f"On {top} CPUs a deferred free of the exit storm costs its caller "
                 f"{number(a.value, 2)} lines of other CPUs, and the worker {number(b.value, 2)}.")


def packed(value):
    return {0: "raw", 1: "packed"}.get(value, str(value))


def tiers_panel(rows, kind, measure, value, title, **more):
    mine = rows.where(kind=kind)
    series = [Series(name, role, []) for _, name, role in GUEST]
    for p in mine.values("packed") or [None]:
        for s, (variant, _, _) in zip(series, GUEST):
            keys = {} if p is None else {"packed": p}
            s.add("all" if p is None else packed(p), mine.get(measure, variant=variant, **keys))
    if mine and not any(s.points for s in series):
        raise Absent(f"{rows.name} has rows of {kind} without {measure}.")
    return Panel("bars", series, value, "how", title, **more)


def gained(rows, kind, measure, more_is_better, **keys):
    """Ebb's over in-tree's, as a phrase; "" if a side is missing."""
    a, b = (rows.get(measure, kind=kind, variant=v, **keys) for v in ("ebb", "patched"))
    if not a or not b or not a.value or not b.value:
        return ""
    return f"{number(a.value / b.value, 3)} times in-tree's" + ("" if more_is_better else " time")


@plot(TIERS, "tiers.json", "Writeback and recompression")
def writeback(rows):
    panels = asked([
        tiers_panel(rows, "writeback", "writeback_mb_per_s", "MB/s", "writeback of idle pages"),
        tiers_panel(rows, "recompress", "recompress_mb_per_s", "MB/s", "recompression by zstd")],
        rows, "writeback_mb_per_s")
    said = [f"{what} goes at {g} rate" for what, g in (
        ("raw writeback", gained(rows, "writeback", "writeback_mb_per_s", True, packed=0)),
        ("recompression", gained(rows, "recompress", "recompress_mb_per_s", True))) if g]
    text = join(said)
    return Chart(panels, f"{text[0].upper()}{text[1:]}." if said else "A side is missing.")


@plot(TIERS, "tiers.json", "Touching a page that was written back")
def swapin(rows):
    panels = asked([
        tiers_panel(rows, "swapin", "swapin_p50_us", "us", "median"),
        tiers_panel(rows, "swapin", "swapin_p99_us", "us", "99th percentile")], rows,
        "swapin_p50_us")
    said = [f"the {what} is {g}" for what, g in (
        ("median of a raw page", gained(rows, "swapin", "swapin_p50_us", False, packed=0)),
        ("99th percentile", gained(rows, "swapin", "swapin_p99_us", False, packed=0))) if g]
    text = join(said)
    return Chart(panels, f"{text[0].upper()}{text[1:]}." if said else "A side is missing.")


@plot(TIERS, "tiers.json", "Short of memory with a limit and a backing device: stalls and losses")
def cliff(rows):
    mine = rows.need(kind="cliff")
    series = {m: Series("all boots", "floor", []) for m in ("net_stall_ms_worst",
                                                              "failed_writes_sum")}
    for r in mine:
        name = {"patched": "in-tree", "ebb": "Ebb"}.get(r["variant"], str(r["variant"]))
        name += {"script": ", by a script", "auto": ", by itself"}.get(r.get("how"), "")
        for m, s in series.items():
            if name not in [p.x for p in s.points]:
                s.add(name, mine.get(m, variant=r["variant"], how=r.get("how")))
    panels = [Panel("bars", [series["net_stall_ms_worst"]], "ms", "variant, writeback",
                    "longest stall of a process"),
              Panel("bars", [series["failed_writes_sum"]], "writes", "variant, writeback",
                    "writes of swap that failed")]
    panels = asked(panels, rows, "net_stall_ms_worst of part cliff")
    a = mine.get("net_stall_ms_worst", variant="ebb", how="auto")
    b = mine.get("net_stall_ms_worst", variant="patched", how="script")
    lost = mine.get("failed_writes_sum", variant="ebb", how="auto")
    if not a or not b:
        return Chart(panels, "A side is missing from this run.")
    return Chart(panels, f"Where pages go to the device by themselves, no process stands still for "
                 f"longer than {number(a.value)} ms and "
                 f"{number(lost.value) if lost else 'an unknown number of'} writes fail; with "
                 f"in-tree zram and a script the longest stall is {number(b.value)} ms.")


