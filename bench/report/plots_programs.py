# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Plots of programs: disks in memory, caches, values, Dask, and a guest that is short of memory."""
from chart import Chart, Panel, Series, number, times
from plots import GUEST, asked, by, counts, join, most, named, pick, plot

PROGRAMS, DASK = "Programs", "Dask"
MIB = 1 << 20


def variant_of(r):
    words = [r.get("plugin"), r.get("allocator"), r.get("codec")]
    unit = r.get("unit_bytes")
    words.append(f"{unit >> 10}k" if isinstance(unit, int) and r.get("plugin") == "ebb" else "")
    return " ".join(dict.fromkeys(str(w) for w in words if w and w != "-"))


@plot(PROGRAMS, "nbd.json", "nbdkit's disks in memory: Ebb's plugin beside nbdkit's own",
      "128 MiB of /usr/lib; fio over one connection for each job, one request at a time.")
def nbd(rows):
    rows = rows.also(variant=variant_of)
    resident = Series("resident", "floor", [])
    for v in rows.values("variant"):
        if f := rows.get("resident_bytes", variant=v):
            resident.add(v, [x / MIB for x in f])
    panels = []
    for op in rows.values("op"):
        block = rows.where(op=op).values("block_bytes")[:1]
        size = f", {block[0] >> 10} KiB" if block and isinstance(block[0], int) else ""
        panels.append(Panel("bars", by(rows.where(op=op), "jobs", counts(rows, "jobs", "job"),
                                       "variant", "iops"), "requests a second", "plugin",
                            f"{op}{size}"))
    panels = asked(panels, rows, "iops")
    panels.insert(0, Panel("bars", [resident], "MiB", "plugin", "memory of nbdkit with the image"))
    best, plain = ({v: f.value for v in rows.where(plugin=p).values("variant")
                    if (f := rows.get("resident_bytes", variant=v))} for p in ("ebb", "memory"))
    if not best or not plain:
        return Chart(panels, "Ebb's plugin or nbdkit's own is missing from this run.")
    a, b = min(best, key=best.get), min(plain, key=plain.get)
    return Chart(panels, f"The smallest of Ebb's, {a}, has the image in "
                 f"{number(best[a] / MIB)} MiB; the smallest of nbdkit's own, {b}, in "
                 f"{number(plain[b] / MIB)} MiB.")


def cached(rows):
    """Caches of one capacity, by what is asked of them: bench-user cache and RocksDB's db_bench tell
    both by the same keys."""
    top = most(rows.values("threads"))
    rows = rows.where(threads=top).also(
        variant=lambda r: " ".join(str(r[k]) for k in ("variant", "codec")
                                   if r.get(k) not in (None, "-")),
        hit_percent=lambda r: 100 * r["hits"] / r["lookups"]
        if r.get("lookups") and r.get("hits") is not None else None)
    names = named(rows, "variant")
    at = f"{top} thread{'s' if top != 1 else ''}"
    panels = [Panel("bars", by(rows, "variant", names, "benchmark", measure, scale), value,
                    "benchmark", title)
              for measure, scale, value, title in (
                  ("hit_percent", 1, "% of lookups", "hits"),
                  ("ops_per_s", 1, "operations a second", f"rate, {at}"),
                  ("resident_bytes", MIB, "MiB", "resident"))]
    panels = asked(panels, rows, "ops_per_s")
    first = rows.values("benchmark")[0]
    rates = {v: f.value for v, _, _ in names
             if (f := rows.get("ops_per_s", variant=v, benchmark=first))}
    ours = {v: x for v, x in rates.items() if "ebb" in v}
    others = {v: x for v, x in rates.items() if "ebb" not in v}
    if not ours or not others:
        return Chart(panels, "The rate of Ebb's rows or of all others is missing from this run.")
    a, b = max(ours, key=ours.get), max(others, key=others.get)
    hits = [rows.get("hit_percent", variant=v, benchmark=first) for v in (a, b)]
    told = [f" and {number(h.value)} % of hits" if h else "" for h in hits]
    return Chart(panels, f"{first}, {at}: {a} does {number(ours[a])} operations a second{told[0]}; "
                 f"the fastest other, {b}, {number(others[b])}{told[1]}.")


@plot(PROGRAMS, "ebb-cache.json", "A cache of a capacity: hits, rate and memory, beside what programs "
      "have today")
def cache(rows):
    return cached(rows)


@plot(PROGRAMS, "cache.json", "RocksDB with a second cache below its own: hits, rate and memory")
def rocksdb(rows):
    return cached(rows)


@plot(PROGRAMS, "values.json", "Values under keys: Ebb's table beside what a program has today")
def values(rows):
    one = rows.where(threads=pick(rows.values("threads"), 1))
    per = [("put_ns", "put", "built"), ("get_ns", "get", "more"), ("delete_ns", "delete", "bulk")]
    speed = [Series(name, role, []) for _, name, role in per]
    memory = [Series("all values", "floor", []), Series("a fifth left", "other", [])]
    for v in one.values("variant"):
        for s, (m, _, _) in zip(speed, per):
            s.add(v, one.get(m, variant=v))
        for s, m in zip(memory, ("resident_bytes", "after_bytes")):
            if f := one.get(m, variant=v):
                s.add(v, [x / MIB for x in f])
    panels = asked([Panel("bars", speed, "ns a value", "variant", "time"),
                    Panel("bars", memory, "MiB", "variant", "resident")], rows,
                   "put_ns and resident_bytes")
    a, b = (one.get("resident_bytes", variant=v) for v in ("ebb", "map"))
    if not a or not b or not a.value:
        return Chart(panels, "Ebb's row or the map's is missing from this run.")
    return Chart(panels, f"With all values in, Ebb has {number(a.value / MIB)} MiB resident, a "
                 f"hash map of malloc'ed lz4 strings {number(b.value / MIB)} MiB: "
                 f"{times(b.value / a.value)} as much.")


@plot(PROGRAMS, "kernel-pressure.json", "Programs in a guest that is short of memory")
def pressure(rows):
    panels = []
    for kind, over, measure, value, title in (
            ("apps", "mem", "seconds", "seconds", "eight programs in turn, by memory"),
            ("readers", "case", "write_p50_us", "us", "a write beside readers: median")):
        mine = rows.where(kind=kind)
        mine = mine.where(cpus=most(mine.values("cpus"))).also(
            case=lambda r: f"{r.get('codec')}, readers: {r.get('readers')}")
        panels.append(Panel("bars", by(mine, "variant", GUEST, over, measure), value, over, title))
    panels = asked(panels, rows, "seconds of part apps and write_p50_us of part readers")
    apps = rows.where(kind="apps")
    sums = {v: sum(r.get("failed_writes_sum") or 0 for r in apps.where(variant=v))
            for v in apps.values("variant")}
    if not sums:
        return Chart(panels, "The part apps is missing from this run.")
    names = {value: name for value, name, _ in GUEST}
    told = "; ".join(f"{names.get(v, v)}: {number(n)}" for v, n in sums.items())
    return Chart(panels, "Writes of swap that failed with eight programs in turn, all boots "
                 f"together: {told}.")


@plot(DASK, "dask.json", "Dask with more data than its limit: time, spilled bytes, memory")
def dask(rows):
    panels, names = [], named(rows, "variant")
    for work, disk in [(w, d) for w in rows.values("workload")
                       for d in rows.where(workload=w).values("disk") or [None]]:
        of = rows.where(workload=work, disk=disk) if disk else rows.where(workload=work)
        where = f"{work}, disk: {disk}" if disk else work
        for measure, scale, value, what in (
                ("seconds", 1, "seconds", ""), ("spilled_bytes", MIB, "MiB", ": spilled to disk"),
                ("peak_resident_bytes", MIB, "MiB", ": most resident")):
            series = by(of, "variant", names, "data_over_limit", measure, scale)
            panels.append(Panel("lines", series, value, "data / limit of memory",
                                f"{where}{what}"))
    panels = asked(panels, rows, "seconds")
    wrong = [f"{r['variant']}, {r['workload']}" for r in rows if r.get("checksum_ok") is False]
    if wrong:
        return Chart(panels, f"WRONG RESULTS: the checksum of {join(wrong[:3])} was not as it "
                     "should be.")
    top = most(rows.values("data_over_limit"))
    of = rows.where(data_over_limit=top, workload=rows.values("workload")[0])
    disks = of.values("disk")
    of = of.where(disk=disks[0]) if disks else of
    where = f" on a disk of {disks[0]}" if len(disks) > 1 else ""
    seconds = {v: f.value for v in of.values("variant") if (f := of.get("seconds", variant=v))}
    if not seconds:
        return Chart(panels, "The rows with the most data have no seconds.")
    best = min(seconds, key=seconds.get)
    return Chart(panels, f"With {number(top)} times the limit, {of[0]['workload']}{where} takes "
                 f"{number(seconds[best])} s with the fastest, {best}"
                 + (f", and {number(max(seconds.values()))} s with the slowest"
                    if len(seconds) > 1 else "") + ". All checksums were right.")
