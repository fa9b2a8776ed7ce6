# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What bench/linux/run makes of its samples: rows, tables, and the targets with what came of each.

A row is the median of a case over all boots, MEASURE_range its range. What is `over the floor` is what an
allocator costs beyond one that frees nothing under the same client: floor for classic, ebb-sync and
ebb-deferred, floor-plus for those that swap calls by range.
"""
import boots

KEY = ("kind", "client", "allocator", "np", "mb", "data", "codec")
# By kind: what is measured, and the digits that the table shows.
SHOWN = {
    "munmap": {"mean_ms": 2, "mean_over_floor_ms": 2, "cpu_ns_per_slot": 0, "cpu_over_floor_ns": 0, "drained_ms": 2,
               "pageout_mb_per_s": 0, "pool_per_byte": 4},
    "pool": {"pool_per_byte": 4, "all_per_byte": 4, "empty_mb": 2},
    "kill": {"t50_ms": 2, "t90_ms": 2, "t100_ms": 2},
    "apps": {"failed_writes": 0, "failed_writes_sum": 0, "oom_kills_sum": 0, "seconds": 2, "touch_p50_ms": 1,
             "kill_p50_ms": 2, "pages_out": 0},
    "build": {"seconds": 1, "system_s": 2, "pages_out": 0, "pages_in": 0, "failed_writes_sum": 0,
              "failed_compiles_sum": 0},
    "holds": {"hold_max_us": 0, "hold_p999_us": 1, "hold_p99_us": 1},
    "pieces": {"piece_q1_ns": 0, "piece_ns": 0},
}
SUMS = ("failed_writes", "failed_reads", "oom_kills", "failed_compiles")
MEASURES = [*dict.fromkeys([m for s in SHOWN.values() for m in s if not m.endswith(("_sum", "_over_floor_ms"))]),
            *SUMS, "wall_ms", "ns_per_slot", "pool_bytes_per_slot", "compr_bytes", "pool_bytes", "all_bytes", "piece_q3_ns",
            "touch_max_ms", "pool_mb", "holds", "freed_mb"]
# Whose floor is whose.
FLOOR = {"classic": "floor", "ebb-sync": "floor", "ebb-deferred": "floor", "classic-plus": "floor-plus",
         "ebb-bulk": "floor-plus"}
OVER = {"mean_ms": "mean_over_floor_ms", "cpu_ns_per_slot": "cpu_over_floor_ns"}


def rows(samples, disturbed):
    out = boots.merge(samples, KEY, [m for m in dict.fromkeys(MEASURES) if m not in OVER.values()], disturbed)
    by = {tuple(r[k] for k in KEY): r for r in out}

    def of(r, **other):
        return by.get(tuple({**r, **other}[k] for k in KEY), {})

    for r in out:
        pool = of(r, kind="pool", np=1)
        if r["kind"] == "pool":
            r["pool_per_byte"] = round(r["pool_bytes"] / r["compr_bytes"], 4)
            r["all_per_byte"] = round(r["all_bytes"] / r["compr_bytes"], 4)
        elif r["kind"] == "munmap":
            r["range"] = r["mean_ms_range"]
            # What the pages compress to is measured in part pool, which a floor has not.
            pool = pool or of(r, kind="pool", np=1, allocator="classic")
            if pool:
                r["pool_per_byte"] = round(r["pool_bytes_per_slot"] / pool["compr_bytes"], 4)
        floor = of(r, allocator=FLOOR.get(r["allocator"]))
        for m, over in OVER.items():
            if m in r and m in floor:
                r[over] = round(r[m] - floor[m], 4)
        mine = [s for s in samples if all(s.get(k) == r.get(k) for k in KEY)]
        r.update({m + "_sum": sum(s[m] for s in mine) for m in SUMS if m in r})
    order = list(SHOWN)
    return sorted(out, key=lambda r: [order.index(r["kind"])] + [str(r[k]) if k != "np" else f"{r[k]:03}" for k in
                                                                ("client", "codec", "data", "np", "allocator")])


def table(rows, names):
    """A line for each measure of a case, a column for each allocator."""
    def cell(r, m, digits):
        if m not in r:
            return "-"
        lo, hi = r.get(m + "_range", (r[m], r[m]))
        return f"{r[m]:.{digits}f}" + (f" [{lo:.{digits}f}-{hi:.{digits}f}]" if lo != hi else "")

    for kind, shown in SHOWN.items():
        mine = [r for r in rows if r["kind"] == kind]
        there = [n for n in names if any(r["allocator"] == n for r in mine)]
        lines = [[kind, "case", *there]]
        for m, digits in shown.items():
            for case in dict.fromkeys((r["client"], r["codec"], r["data"], r["np"], r["mb"]) for r in mine):
                by = {r["allocator"]: r for r in mine if (r["client"], r["codec"], r["data"], r["np"], r["mb"]) == case}
                cells = [cell(by.get(n, {}), m, digits) for n in there]
                if any(c != "-" for c in cells):
                    lines.append([m, f"{case[0]} {case[1]} {case[2]} np{case[3]} {case[4]}M", *cells])
        if len(lines) > 1:
            print()
            boots.grid(lines)
    noisy = [r for r in rows if r.get("noisy")]
    if noisy:
        print(f"\n# others used this machine in more than half of the samples of {len(noisy)} of {len(rows)} rows "
              "('noisy' in the JSON)")


def targets(rows):
    """What was asked, case by case: [what, case, what it is, what was asked, met]."""
    by = {tuple(r[k] for k in KEY): r for r in rows}
    out = []

    def ratio(what, r, m, sign, most, other="classic"):
        ours, theirs = r.get(m), by.get(tuple({**r, "allocator": other}[k] for k in KEY), {}).get(m)
        if ours is None or not theirs or theirs < 0:
            return
        is_ = ours / theirs
        met = "" if most is None else "yes" if (is_ <= most if sign == "<=" else is_ >= most) else "NO"
        out.append({"what": what, "allocator": r["allocator"], "is": round(is_, 4),
                    "case": f"{r['client']} {r['codec']} {r['data']} np{r['np']}",
                    "asked": "" if most is None else f"{sign} {most}", "met": met})

    mean, cpu = {"ebb-sync": 0.35, "ebb-deferred": 0.12}, {"ebb-sync": 0.3, "ebb-deferred": 0.25}
    ours = [r for r in rows if r["allocator"].startswith("ebb-")]
    for r in ours:
        if r["kind"] == "munmap" and r["allocator"] in mean:
            ratio("munmap over the floor / classic's", r, "mean_over_floor_ms", "<=", mean[r["allocator"]])
    for r in ours:
        if r["kind"] == "munmap" and r["allocator"] in cpu:
            ratio("CPU a slot over the floor / classic's", r, "cpu_over_floor_ns", "<=", cpu[r["allocator"]])
    # Both sides' chain is 8 by default, so the rows at equal chain are those at the defaults.
    for r in ours:
        if r["kind"] == "pool":
            ratio("pool bytes, all metadata / classic's", r, "all_bytes", "<=", 0.99 if r["data"] == "mixed" else 1.0)
    for r in ours:
        if r["kind"] == "munmap" and r["allocator"] in mean:
            ratio("page-out / classic's", r, "pageout_mb_per_s", ">=", 1)
    for r in rows:
        if r["kind"] == "munmap" and r["allocator"] in ("ebb-sync", "ebb-deferred", "ebb-bulk", "classic-plus"):
            ratio("munmap, the whole / classic's", r, "mean_ms", "<=", None)
            ratio("CPU a slot, the whole / classic's", r, "cpu_ns_per_slot", "<=", None)
    return out


def show(rows, names):
    table(rows, names)
    found = targets(rows)
    if found:
        lines = [["target", "allocator", "case", "is", "asked", "met"]]
        lines += [[t["what"], t["allocator"], t["case"], f"{t['is']:.3f}", t["asked"], t["met"]] for t in found]
        print()
        boots.grid(lines)
        asked = [t for t in found if t["met"]]
        print(f"\n{sum(t['met'] == 'yes' for t in asked)} of {len(asked)} targets met")
