# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Plots of the release: its time, what it costs over a free that does nothing, and its CPU time."""
from chart import Chart, Panel, Series, number, times
from formats import Absent
from plots import (GUEST, HOST, KERNEL, LAST, LINUX, OF_LINUX, asked, by, join, most, pick, plot,
                   processes)
from published import DEFERRED, LOCKS, PUBLISHED

TIME, FLOOR, CPU = "Release", "Over the floor", "CPU time of a slot"
PAPERS = (f'The published figures are from the letters of two patch series for Linux: '
          f'<a href="{LOCKS}">fewer locks in a free</a>, which is in Linux 7.3, and '
          f'<a href="{DEFERRED}">frees deferred per CPU</a>, which was proposed.')


def published():
    out = []
    for machine, letter, what, values in PUBLISHED:
        of = "locks" if letter == LOCKS else "deferral"
        what = "before" if what == "before" else "after"
        role = {"locks": "other", "deferral": "bulk"}[of] if machine.startswith("Rasp") else "more"
        s = Series(f"{machine}, {what} ({of})", role, [], faint=what == "before")
        for n, ms in values.items():
            s.add(n, (ms, ms, ms))
        out.append(s)
    return out


def munmap(rows):
    """The published experiment's rows: 256 MB of uniform data, if they are there."""
    mine = rows.need(kind="munmap")
    keys = {"mb": pick(mine.values("mb"), 256), "data": pick(mine.values("data"), "uniform"),
            "codec": pick(mine.values("codec"), "lzo-rle", "lzo")}
    return mine.need(**keys), keys


def compared(rows, key, ours, theirs, measure, **keys):
    """(theirs, ours) of a row, or None."""
    found = [rows.get(measure, **{key: v}, **keys) for v in (theirs, ours)]
    return [f.value for f in found] if all(found) and found[1].value > 0 else None


def see_release(rows, key, ours, theirs, measure, over, unit, how):
    for n in sorted(rows.values(over), reverse=True):
        if pair := compared(rows, key, ours, theirs, measure, **{over: n}):
            ratio = f"{times(pair[0] / pair[1])} less" if pair[0] > pair[1] else \
                f"{times(pair[1] / pair[0])} as much"
            return how.format(n=n, ours=f"{number(pair[1])} {unit}", ratio=ratio,
                              theirs=f"{number(pair[0])} {unit}")
    raise Absent(f"{rows.name} has no {measure} of {ours} and {theirs} with the same {over}.")


@plot(TIME, "kernel-release.json", "munmap of swapped-out memory, in a real kernel", PAPERS)
def release_kernel(rows):
    rows, keys = munmap(rows)
    ours = by(rows, "variant", KERNEL, "np", "mean_ms")
    what = f"{keys['mb']} MB, {keys['data']}, {keys['codec']}"
    panels = asked([Panel("lines", ours, "mean ms", "processes at once", f"here: {what}",
                          log=True)], rows, "mean_ms of munmap")
    panels.append(Panel("lines", published(), "mean ms", "processes at once",
                        "published: 256 MB, lzo-rle", log=True))
    return Chart(panels, see_release(
        rows, "variant", "deferred", "patched", "mean_ms", "np", "ms",
        "With {n} at once, Ebb as it comes takes {ours} where in-tree zram takes {theirs}: "
        "{ratio}. The machines of the published figures are others, so compare shapes, not "
        "heights."), same=True)


@plot(TIME, "linux-release.json", "munmap with in-tree zram and zswap, on each allocator")
def release_linux(rows):
    rows, keys = munmap(rows)
    panels = [Panel("lines", by(rows, "allocator", LINUX, "np", "mean_ms", client=c), "mean ms",
                    "processes at once", f"{c}: {keys['mb']} MB, {keys['data']}, {keys['codec']}",
                    log=True) for c in rows.values("client")]
    client = pick(rows.values("client"), "zram")
    return Chart(asked(panels, rows, "mean_ms of munmap"), see_release(
        rows.where(client=client), "allocator", LAST, "classic", "mean_ms", "np", "ms",
        f"With {{n}} at once on {client}, munmap takes {{ours}} after the series and {{theirs}} "
        "before: {ratio}."), same=True)


@plot(TIME, "release.json", "Letting go in user space, by threads")
def release_user(rows):
    first = rows[0]
    panels = [Panel("lines", by(rows, "variant", HOST, "threads", "mean_ms"), "mean ms",
                    "threads at once", "until the calls return", log=True),
              Panel("lines", by(rows, "variant", HOST, "threads", "drained_ms"), "ms",
                    "threads at once", "until every page is free (drained)", log=True)]
    size = first.get("slots_per_thread")
    size = f" of {size:,} pages each" if isinstance(size, int) else ""
    return Chart(asked(panels, rows, "mean_ms"), see_release(
        rows, "variant", "deferred", "sync", "mean_ms", "threads", "ms",
        f"With {{n}} threads{size}, the calls take {{ours}} deferred and {{theirs}} freeing at "
        "once: {ratio}."))


def over(rows, key, names, floors, measure, **keys):
    """A Series for each name: the measure less its floor's, by np. Ranges are those of the
    measure; the floor's own is left out."""
    out = []
    for value, name, role in names:
        s = Series(name, role, [])
        if value in floors:
            for n in rows.values("np"):
                mine = rows.get(measure, **{key: value}, np=n, **keys)
                base = rows.get(measure, **{key: floors[value]}, np=n, **keys)
                if mine and base:
                    s.add(processes(n), [x - base.value for x in mine])
        out.append(s)
    return out


def see_over(panel, ours, theirs, who="Ebb"):
    """Of the last category that has both."""
    of = {s.name: {p.x: p.value for p in s.points} for s in panel.series}
    for x in reversed(panel.categories()):
        a, b = of.get(ours, {}).get(x), of.get(theirs, {}).get(x)
        if a is not None and b and b > 0:
            return (f"With {x}, {who} takes {number(a / b * 100, 2)} % of what in-tree takes "
                    "over the floor.")
    return "Nothing here has both sides and a floor at the same number of processes."


OF_KERNEL = dict.fromkeys(("base", "patched", "sync", "deferred"), "floor")
THE_SERIES = next(name for value, name, _ in LINUX if value == LAST)


@plot(FLOOR, "kernel-release.json", "What a munmap costs beyond a free that does nothing")
def floor_kernel(rows):
    rows, _ = munmap(rows)
    panels = asked([Panel("dots", over(rows, "variant", KERNEL, OF_KERNEL, m), what, "processes",
                          log=True)
                    for m, what in (("mean_ms", "ms over the floor"),
                                    ("cpu_ns_per_slot", "CPU ns a slot over the floor"))],
                   rows, "row of the floor and one over it")
    return Chart(positive(panels), see_over(panels[0], "Ebb, deferred", "in-tree, Linux 7.3"))


@plot(FLOOR, "linux-release.json", "The same with in-tree zram and zswap as clients")
def floor_linux(rows):
    rows, _ = munmap(rows)
    panels = asked([Panel("dots", over(rows, "allocator", LINUX, OF_LINUX[c], "mean_ms", client=c),
                          "ms over the floor", "processes", c, log=True)
                    for c in rows.values("client")], rows, "row of the floor and one over it")
    return Chart(positive(panels), see_over(panels[0], THE_SERIES, LINUX[0][1], "the last of the series"))


@plot(FLOOR, "tiers.json", "The same for slots that are on a backing device")
def floor_tiers(rows):
    mine = rows.need(kind="free")
    panels = asked([Panel("bars", over(mine, "variant", GUEST[1:3],
                                       {"patched": "floor", "ebb": "floor"}, "mean_ms"),
                          "ms over the floor", "processes")], rows,
                   "row of the floor and one over it")
    return Chart(positive(panels), see_over(panels[0], "Ebb", "in-tree, Linux 7.3"))


def positive(panels):
    """Nothing is over a floor that measured more; a bar on a logarithmic axis needs a value."""
    for panel in panels:
        for s in panel.series:
            s.points = [p._replace(low=max(p.low, p.value / 10)) for p in s.points if p.value > 0]
    return [Panel(**vars(p)) for p in panels]


def stack(rows, key, names, floor_of):
    """CPU of a slot: what the client takes, which is the floor's, and what the allocator adds."""
    client = Series("page tables, swap and the client (the floor)", "floor", [])
    allocator = Series("the allocator", "other", [])
    for value, name, _ in names:
        mine = rows.get("cpu_ns_per_slot", **{key: value})
        base = rows.get("cpu_ns_per_slot", **{key: floor_of.get(value, "")})
        if mine and base:
            low = min(base.value, mine.value)
            client.add(name, (low, low, low))
            allocator.add(name, [mine.value - low] * 3)
    return [client, allocator]


def see_stack(panel, ours, theirs, who="Ebb as it comes"):
    client, allocator = ({p.x: p.value for p in s.points} for s in panel.series)
    if ours not in allocator or theirs not in allocator:
        return "Ebb's row or in-tree's is missing from this run."
    return (f"With {panel.title.replace(',', ' and')}, the allocator's part of a slot is "
            f"{number(allocator[ours])} ns with {who} and {number(allocator[theirs])} ns "
            f"in-tree; the other {number(client[ours])} ns no allocator can take away.")


@plot(CPU, "kernel-release.json", "CPU time of a freed slot until all is back, by step")
def cpu_kernel(rows):
    rows, _ = munmap(rows)
    names = [n for n in KERNEL if n[0] not in ("base", "floor")]
    panels = asked([Panel("stacked", stack(rows.where(np=n), "variant", names, OF_KERNEL),
                          "CPU ns a slot", "variant", f"{processes(n)} at once")
                    for n in rows.values("np")], rows, "cpu_ns_per_slot of the floor and others")
    return Chart(panels, see_stack(panels[-1], "Ebb, deferred", "in-tree, Linux 7.3"))


@plot(CPU, "linux-release.json", "The same on each allocator, with in-tree clients")
def cpu_linux(rows):
    rows, _ = munmap(rows)
    top = most(rows.values("np"))
    names = [n for n in LINUX if not n[0].startswith("floor")]
    panels = asked([Panel("stacked", stack(rows.where(np=top, client=c), "allocator", names,
                                           OF_LINUX[c]), "CPU ns a slot", "allocator",
                          f"{c}, {processes(top)} at once") for c in rows.values("client")],
                   rows, "cpu_ns_per_slot of the floor and others")
    return Chart(panels, see_stack(panels[0], THE_SERIES, LINUX[0][1], "the series"))


@plot(CPU, "release.json", "In user space: in the calls, and in the worker afterwards")
def cpu_user(rows):
    panels, see = [], "Ebb as it comes (deferred) was not in this run."
    # With more threads than CPUs a call's time is not its CPU time.
    for n in (n for n in rows.values("threads") if n <= rows.cpus):
        calls = Series("in the call that frees", "more", [])
        worker = Series("in the worker, afterwards", "bulk", [])
        for value, name, _ in HOST:
            total = rows.get("cpu_ns_per_slot", variant=value, threads=n)
            wall = rows.get("ns_per_slot", variant=value, threads=n)
            if total and wall:
                call = min(wall.value, total.value)
                calls.add(name, (call, call, call))
                worker.add(name, [total.value - call] * 3)
                if value == "deferred":
                    see = (f"Deferred, with {n} thread{'s' if n != 1 else ''}: {number(call)} ns "
                           f"of CPU in the call and {number(total.value - call)} ns in the "
                           "worker.")
        panels.append(Panel("stacked", [calls, worker], "CPU ns a slot", "variant",
                            f"{n} thread{'s' if n != 1 else ''} at once"))
    return Chart(asked(panels, rows, "ns_per_slot and cpu_ns_per_slot"), see)


@plot(CPU, "store.json", "Storing a page: the codec and everything else")
def cpu_store(rows):
    codec = Series("the codec alone", "floor", [])
    rest = Series("everything else", "other", [])
    shares = []
    for n in rows.values("threads"):
        for c in rows.values("codec"):
            a = rows.get("codec_ns_per_page", threads=n, codec=c)
            b = rows.get("other_ns_per_page", threads=n, codec=c)
            if a and b:
                name = f"{c}, {n} thread{'s' if n != 1 else ''}"
                codec.add(name, a)
                rest.add(name, [max(0, x) for x in b])
                share = b.value / (a.value + b.value) * 100 if b.value > 0 else 0
                shares.append(f"{number(b.value)} ns ({share:.0f} %) with {name}" if share else
                              f"nothing that can be told from noise with {name}")
    panels = asked([Panel("stacked", [codec, rest], "ns a page", "codec, threads")], rows,
                   "codec_ns_per_page and other_ns_per_page")
    return Chart(panels, f"Beside the codec, a page costs {join(shares[:3])}.")
