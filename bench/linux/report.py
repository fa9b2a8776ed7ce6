# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What bench/linux/run makes of its samples: rows, tables, and the targets with what came of each.

A row is the median of a case over all boots, MEASURE_range its range. What is `over the floor` is
what an allocator costs beyond one that frees nothing under the same client: `floor`, and
`floor-plus` where swap frees by range.
"""
from allocators import ALLOCATORS, LAST, floor_of
import boots

KEY = ("kind", "client", "allocator", "np", "mb", "data", "codec")
CASE = ("client", "codec", "data", "np", "mb")
# By kind: what is measured, and the digits that the table shows.
SHOWN = {
    "munmap": {"mean_ms": 2, "mean_over_floor_ms": 2, "cpu_ns_per_slot": 0, "cpu_over_floor_ns": 0,
               "drained_ms": 2, "pageout_mb_per_s": 0, "pool_per_byte": 4},
    "swapin": {"swapin_mb_per_s": 0, "swapin_touch_mb_per_s": 0},
    "pool": {"pool_per_byte": 4, "all_per_byte": 4, "empty_pages": 0},
    "kill": {"t50_ms": 2, "t90_ms": 2, "t100_ms": 2},
    "apps": {"failed_writes": 0, "failed_writes_sum": 0, "oom_kills_sum": 0, "seconds": 2,
             "touch_p50_ms": 1, "kill_p50_ms": 2, "pages_out": 0},
    "build": {"seconds": 1, "system_s": 2, "pages_out": 0, "pages_in": 0, "failed_writes_sum": 0,
              "failed_compiles_sum": 0},
    "holds": {"hold_max_us": 0, "hold_p99_us": 1, "hold_p50_us": 1},
    "shrink": {"written_pages": 0, "refused_pages": 0, "stored_pages": 0, "full_pages": 0},
}
SUMS = ("failed_writes", "failed_reads", "oom_kills", "failed_compiles")
# What is told over the floor.
OVER = {"mean_ms": "mean_over_floor_ms", "cpu_ns_per_slot": "cpu_over_floor_ns"}
# What a sample may have; the others of the tables are made of these.
MADE = {*OVER.values(), *(m + "_sum" for m in SUMS), "pool_per_byte", "all_per_byte"}
MEASURES = [m for m in dict.fromkeys(
    [m for shown in SHOWN.values() for m in shown] +
    [*SUMS, "wall_ms", "ns_per_slot", "pool_bytes_per_slot", "compr_bytes", "pool_bytes",
     "all_bytes", "touch_max_ms", "pool_mb", "holds", "freed_mb"]) if m not in MADE]


def sort_key(r):
    return list(SHOWN).index(r["kind"]), r["client"], r["codec"], r["data"], r["np"], r["allocator"]


def of(by, r, **other):
    """The row that has the key of r but for what is said; {} if there is none."""
    return by.get(tuple({**r, **other}[k] for k in KEY), {})


def rows(samples, disturbed):
    out = boots.merge(samples, KEY, MEASURES, disturbed)
    by = {tuple(r[k] for k in KEY): r for r in out}
    for r in out:
        pool = of(by, r, kind="pool", np=1)
        if r["kind"] == "pool":
            r["pool_per_byte"] = round(r["pool_bytes"] / r["compr_bytes"], 4)
            r["all_per_byte"] = round(r["all_bytes"] / r["compr_bytes"], 4)
        elif r["kind"] == "munmap":
            r["range"] = r["mean_ms_range"]
            if pool:    # what the pages compress to is measured there alone
                r["pool_per_byte"] = round(r["pool_bytes_per_slot"] / pool["compr_bytes"], 4)
        floor = of(by, r, allocator=floor_of(r["client"], r["allocator"]))
        for m, over in OVER.items():
            if m in r and m in floor:
                r[over] = round(r[m] - floor[m], 4)
        mine = [s for s in samples if all(s[k] == r[k] for k in KEY)]
        r.update({m + "_sum": sum(s[m] for s in mine) for m in SUMS if m in r})
    return sorted(out, key=sort_key)


def cell(r, m, digits):
    if m not in r:
        return "-"
    lo, hi = r.get(m + "_range", (r[m], r[m]))
    return f"{r[m]:.{digits}f}" + (f" [{lo:.{digits}f}-{hi:.{digits}f}]" if lo != hi else "")


def table(found, names):
    """A line for each measure of a case, a column for each allocator."""
    for kind, shown in SHOWN.items():
        mine = [r for r in found if r["kind"] == kind]
        there = [n for n in names if any(r["allocator"] == n for r in mine)]
        lines = [[kind, "case", *there]]
        for m, digits in shown.items():
            for case in dict.fromkeys(tuple(r[k] for k in CASE) for r in mine):
                by = {r["allocator"]: r for r in mine if tuple(r[k] for k in CASE) == case}
                cells = [cell(by.get(n, {}), m, digits) for n in there]
                if any(c != "-" for c in cells):
                    lines.append([m, "{} {} {} np{} {}M".format(*case), *cells])
        if len(lines) > 1:
            print()
            boots.grid(lines)
    noisy = sum(r.get("noisy", False) for r in found)
    if noisy:
        print(f"\n# others used this machine in more than half of the samples of {noisy} of "
              f"{len(found)} rows ('noisy' in the JSON)")


# What is asked of the last of the series beside classic, with zram: kind, measure, what it is
# called, and the bound by data. Totals, which have no bound, come last.
ASKED = [
    ("munmap", "mean_over_floor_ms", "munmap over the floor", {"uniform": 0.35, "mixed": 0.55}),
    ("munmap", "cpu_over_floor_ns", "CPU a slot over the floor", {}),
    ("munmap", "mean_ms", "munmap, the whole", {}),
    ("munmap", "cpu_ns_per_slot", "CPU a slot, the whole", {}),
    ("munmap", "pageout_mb_per_s", "page-out", {}),
    ("swapin", "swapin_touch_mb_per_s", "page-in", {}),
    ("pool", "all_bytes", "pool bytes with all metadata", {}),
    ("shrink", "written_pages", "pages written at the limit", {}),
]


def targets(found):
    """What was asked and what came of it, case by case; 'met' is empty where nothing was asked."""
    by = {tuple(r[k] for k in KEY): r for r in found}
    out = []
    for kind, m, what, bounds in ASKED:
        for r in found:
            theirs = of(by, r, allocator="classic").get(m, 0)
            if r["kind"] != kind or m not in r or theirs <= 0 or r["allocator"] == "classic" or \
               ALLOCATORS[r["allocator"]].leaks:
                continue
            is_, bound = r[m] / theirs, None
            if r["allocator"] == LAST and r["client"] == "zram":
                bound = bounds.get(r["data"])
            out.append({"what": f"{what} / classic's", "allocator": r["allocator"],
                        "case": f"{r['client']} {r['codec']} {r['data']} np{r['np']}",
                        "is": round(is_, 4), "asked": f"<= {bound}" if bound else "",
                        "met": "" if not bound else "yes" if is_ <= bound else "NO"})
    return out


def show(found, names):
    table(found, names)
    came = targets(found)
    if came:
        lines = [["target", "allocator", "case", "is", "asked", "met"]]
        lines += [[t["what"], t["allocator"], t["case"], f"{t['is']:.3f}", t["asked"], t["met"]]
                  for t in came]
        print()
        boots.grid(lines)
        asked = [t for t in came if t["met"]]
        print(f"\n{sum(t['met'] == 'yes' for t in asked)} of {len(asked)} targets met")
