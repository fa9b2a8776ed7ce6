# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Made-up JSON of every bench, for the tests of the report.

Where a bench is in Python, its own code makes the rows of made-up samples: a key that it renames is
missing from the report then, and a test fails. Rows of bench/user have the names of its tables
(TABLES, which a test compares with it).
"""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# As harness.machine() gives them, and as bench-user does.
GUEST_FACTS = {"cpu": "A CPU <made up> & more", "cpus": 2, "host_kernel": "6.18.0",
               "load_at_start": 0.4}
FACTS = {"cpu_model": "A CPU <made up> & more", "cpus": 2, "memory_bytes": 24 << 30,
         "kernel": "Linux 6.18.0 x86_64", "thp": "madvise", "ebb_version": "0.1.0",
         "page_bytes": 4096, "date": "2026-11-01T00:00:00Z"}
KERNEL = {"name": "uml-smp", "release": "7.3.4", "build": "build"}


def module(name, path):
    """A bench's script as a module; what it imports from its folder is found there."""
    path = ROOT / path
    sys.path.insert(0, str(path.parent))
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    made = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(made)
    return made


def three(value):
    """Three rounds of one figure."""
    return [value * by for by in (0.9, 1.0, 1.2)]


def samples(keys, **measures):
    """Three samples with these measures."""
    return [{**keys, **{m: three(v)[at] for m, v in measures.items()}, "others": 0.01}
            for at in range(3)]


def spread(value):
    """A measure of bench-user's: median and range."""
    return lambda key: {key: value, key + "_min": value * 0.9, key + "_max": value * 1.2}


def row(keys, **measures):
    out = dict(keys)
    for m, v in measures.items():
        out.update(spread(v)(m))
    return out


def kernel_release():
    made = []
    ms = {"base": (15.8, 64.8, 100), "patched": (16.7, 64.6, 103), "sync": (3.4, 3.8, 4.4),
          "deferred": (1.8, 3.2, 3.7), "floor": (1.0, 1.0, 1.3)}
    cpu = {"base": (287, 1014, 855), "patched": (319, 990, 886), "sync": (75, 71, 69),
           "deferred": (72, 63, 64), "floor": (27, 26, 20)}
    back = {"base": 20.1, "patched": 17.6, "sync": 6.0, "deferred": 4.4, "floor": 4.9}
    for v in ms:
        for at, n in enumerate((1, 2, 4)):
            for data, codec, dense in (("uniform", "lzo-rle", 1.0303), ("mixed", "lzo-rle", 1.0193),
                                       ("uniform", "lz4", 1.0166)):
                key = {"variant": v, "kernel": "uml-smp", "kind": "munmap", "np": n, "mb": 256,
                       "data": data, "codec": codec}
                made += samples(key, mean_ms=ms[v][at], cpu_ns_per_slot=cpu[v][at],
                                drained_ms=ms[v][at] * 1.3)
                made.append({**key, "others": 0, "used_per_compressed_byte":
                             dense if v in ("base", "patched", "floor") else 1.0146})
        for n in (1, 4):
            t = back[v] * (1 if n == 1 else 3)
            made += samples({"variant": v, "kernel": "uml-smp", "kind": "kill", "np": n, "mb": 256,
                             "data": "mixed", "codec": "lzo-rle"},
                            t50_ms=t / 2, t90_ms=t, t100_ms=t * 1.4)
    rows = module("kernel_run", "bench/kernel/run").merged_rows(made, 0.08)
    return {"machine": GUEST_FACTS, "kernel": KERNEL, "rounds": 3, "seconds": 1, "failed": [],
            "rows": rows}


def kernel_latency():
    bench, made = module("latency", "bench/kernel/latency"), []
    ops = {"page-out": 12.0, "swap-in": 6.0, "free": 3.0, "give-back": 3.5}
    for v, by in (("patched", 3), ("sync", 2), ("deferred", 1), ("floor", 0.8)):
        for np in (0, 4):
            for n in range(3):
                made += bench.of_calls(
                    {"np": np, "mb": 64, "codec": "lzo-rle", "others": 0.01, "exit_ms": 9.0 * by,
                     "ops": {op: {"calls": 9000, "p50_us": us, "p99_us": us * 2 * by,
                                  "p999_us": us * 9 * by, "max_us": us * (70 + n) * by, "lost": 3,
                                  "lost_max_us": 4000.0} for op, us in ops.items()}}, v)
        for tracer in bench.TRACERS if v != "floor" else ():
            for cpus in (1, 2):
                made += bench.of_off(
                    {"np": 4, "mb": 32, "codec": "lzo-rle", "others": 0.01, "tracer": tracer,
                     "page_out_us": int(90 * by), "page_out_in": "a to b, c-1",
                     "exit_us": int(50 * by), "exit_in": "d to e, f-2"}, v, cpus)
    return {"machine": GUEST_FACTS, "rounds": 3, "kernels": {"calls": "7.3.4", "off1": "7.3.4"},
            "failed": [], "rows": bench.merged_rows(made, 0.08)}


def linux_release():
    made = []
    ms = {"classic": 16, "series-2": 8, "series-6": 4, "series-9": 3, "floor": 1, "floor-plus": 0.6}
    for client, by in (("zram", 1), ("zswap", 1.6)):
        for name, t in ms.items():
            for n in (1, 2, 4, 8):
                made += samples({"kind": "munmap", "client": client, "allocator": name, "np": n,
                                 "mb": 256, "data": "uniform", "codec": "lzo"},
                                mean_ms=t * by * n ** 0.7, cpu_ns_per_slot=t * 20 * by,
                                pool_bytes_per_slot=680)
            for n in (1, 4):
                made += samples({"kind": "kill", "client": client, "allocator": name, "np": n,
                                 "mb": 256, "data": "mixed", "codec": "lzo"},
                                t50_ms=t * n / 2 + 2, t90_ms=t * n + 3, t100_ms=t * n * 1.3 + 4)
            if not name.startswith("floor"):
                for data in ("uniform", "mixed"):
                    made += samples({"kind": "pool", "client": client, "allocator": name, "np": 1,
                                     "mb": 256, "data": data, "codec": "lzo"}, compr_bytes=663)
                    for s in made[-3:]:
                        dense = 1.03 if name.startswith("classic") else 1.015
                        s.update(pool_bytes=s["compr_bytes"] * dense, empty_pages=1,
                                 all_bytes=s["compr_bytes"] * (dense + 0.02))
    rows = module("linux_run", "bench/linux/run").report.rows(made, 0.08)
    return {"machine": GUEST_FACTS, "rounds": 3, "kernels": {}, "failed": [], "targets": [],
            "rows": rows, "samples": made}


def tiers():
    made = []
    for v, by in (("patched", 1.0), ("ebb", 0.4), ("floor", 0.1)):
        for n in (1, 2, 4):
            made += samples({"kind": "free", "variant": v, "np": n, "mb": 256}, mean_ms=5 * n * by)
        if v == "floor":
            continue
        for packed in (0, 1):
            made += samples({"kind": "writeback", "variant": v, "packed": packed, "mb": 1024},
                            writeback_mb_per_s=600 / by)
            made += samples({"kind": "swapin", "variant": v, "packed": packed, "mb": 128},
                            swapin_p50_us=70 + by, swapin_p99_us=150 / by)
        made += samples({"kind": "recompress", "variant": v, "mb": 1024}, recompress_mb_per_s=154)
        for how in ("script", "auto") if v == "ebb" else ("script",):
            made += samples({"kind": "cliff", "variant": v, "how": how, "packed": 0, "np": 8,
                             "mb": 128}, net_stall_ms=200 if v == "ebb" else 18000, stall_ms=300)
            for s in made[-3:]:
                s.update(failed_writes=0 if v == "ebb" else 5000000, oom_kills=0, failed_reads=0)
    rows = module("tiers", "bench/kernel/tiers").merge(made, 0.08)
    return {"machine": GUEST_FACTS, "rounds": 3, "kernel": KERNEL, "failed": [], "rows": rows}


def pressure():
    made = []
    for v in ("patched", "ebb"):
        base = {"variant": v, "kernel": "uml-smp", "cpus": 2}
        for mem in ("256M", "512M"):
            made += samples({**base, "kind": "apps", "mem": mem}, seconds=80, touch_p50_ms=3)
            for s in made[-3:]:
                s.update(failed_writes=0, oom_kills=0, pages_out=200000, failed_reads=0)
        for codec in ("lz4", "zstd"):
            for n in (1, 8):
                made += samples({**base, "kind": "readers", "mem": "256M", "codec": codec,
                                 "readers": n}, write_p50_us=160, write_max_us=20000)
    return {"machine": GUEST_FACTS, "failed": [],
            "rows": module("pressure", "bench/kernel/pressure").merge(made)}


def nbd():
    bench, made = module("nbd", "bench/programs/nbd"), {}
    for at, (variant, _) in enumerate(bench.VARIANTS):
        for work in bench.WORK:
            made[variant, work] = [(int(40e6 + 3e6 * at + n), 20000 - 1500 * at + n)
                                   for n in range(3)]
    return {"bench": "nbd", "machine": GUEST_FACTS, "nbdkit": "1.32", "rounds": 3, "seconds": 3,
            "rows": bench.rows_of(made)}


def scale():
    bench, made = module("scale_run", "bench/scale/run"), []
    for name in bench.SCENARIOS:
        for variant, by in (("deferred", 9), ("sync", 1), ("deferred-84d3dc0", 3),
                            ("sync-84d3dc0", 0.7)):
            for cpus, nodes in bench.MACHINES:
                role = {"remote_own": 900 * cpus / by, "remote_other": 40,
                        "holds": {"class": [20, 0]},
                        "max_hold_objects": 300, "max_hold_ns": 900, "visits": 3,
                        "wakes": 2, "sleeps": 0}
                ends = [{"scenario": name, "cpus": cpus, "nodes": nodes, "objects": 2048 * cpus,
                         "ns": ns * 2048 / by * cpus ** 0.2, "all_back_ns": 1e6, "op": role,
                         "worker": role, "reclaim": role, "reclaims": 0} for ns in (20, 60)]
                made.append(bench.row(variant, *ends))
    bench.add_speedups(made)
    return {"machine": bench.harness.machine(), "calibration": {}, "baseline": "built", "rows": made}


# What bench/user calls its columns, in so far as the report needs them.
TABLES = {
    "release": ("variant", "threads", "slots_per_thread", "mean_ms", "ns_per_slot",
                "cpu_ns_per_slot", "drained_ms"),
    "store": ("threads", "codec", "codec_ns_per_page", "other_ns_per_page"),
    "density": ("set", "codec", "chain_size_pages", "churned", "pool_per_byte",
                "linux_pool_per_byte", "linux_measured"),
    "malloc": ("allocator", "threads", "alloc_ns", "free_ns", "free_cpu_ns", "rss_per_byte",
               "rss_per_byte_churned", "left_bytes"),
    "latency": ("allocator", "others", "op", "p50_ns", "p99_ns", "p999_ns", "max_ns"),
    "values": ("variant", "threads", "put_ns", "get_ns", "delete_ns", "resident_bytes",
               "after_bytes"),
}


def command():
    """The files of bench/user."""
    out = {name: [] for name in TABLES}
    for n in (1, 2, 4):
        for v, ms, cpu in (("sync", 2.1, 34), ("deferred", 0.9, 39)):
            out["release"].append(row(
                {"variant": v, "threads": n, "data": "system", "codec": "lz4",
                 "slots_per_thread": 65536}, mean_ms=ms * n, ns_per_slot=ms * 15.3 * n,
                cpu_ns_per_slot=cpu, drained_ms=ms * n + 2))
        out["store"].append(row({"threads": n, "codec": "lz4"}, codec_ns_per_page=5835,
                                other_ns_per_page=338))
    for at, name in enumerate(("libs", "source", "python", "exec")):
        for churned in (False, True):
            out["density"].append({"set": name, "codec": "lz4", "chain_size_pages": 16,
                                   "churned": churned, "pool_per_byte": 1.012 + at / 500,
                                   "linux_pool_per_byte": 1.025 + at / 250,
                                   "linux_measured": False})
    for at, v in enumerate(("ebb", "ebb-sync", "mimalloc", "jemalloc", "tcmalloc", "glibc")):
        for n in (1, 2):
            out["malloc"].append(row({"allocator": v, "threads": n, "left_bytes": at << 20},
                                     alloc_ns=1200 + at, free_ns=15 * (at + 1), free_cpu_ns=30,
                                     rss_per_byte=1.017 + at / 100,
                                     rss_per_byte_churned=1.02 + at / 50))
    for at, v in enumerate(("ebb", "ebb-sync", "mimalloc", "jemalloc", "glibc", "nothing")):
        for n in (0, 4):
            for op in ("store", "read", "free", "give-back"):
                ns = 20 * (at + 1) + n
                out["latency"].append(row({"allocator": v, "others": n, "op": op, "samples": 20000},
                                          p50_ns=ns, p99_ns=ns * 3, p999_ns=ns * 50,
                                          max_ns=ns * 1000))
    for at, v in enumerate(("codec", "ebb", "ebb-key", "map", "slabs")):
        made = row({"variant": v, "threads": 1}, put_ns=900 + at, get_ns=240)
        made.update(delete_ns=None if v == "codec" else 90,
                    resident_bytes=None if v == "codec" else (20 + at) << 20,
                    after_bytes=None if v == "codec" else (5 + at) << 20)
        out["values"].append(made)
    return {name + ".json": {"machine": FACTS, "rows": rows} for name, rows in out.items()}


def programs():
    """What benches of other languages write, by their formats."""
    back = [{"figure": f, "target": t, "value": v} for f, t, v in (
        ("churned_16", 1.25, 1.15), ("store_memory", 200, 112), ("reset_close", 1, 14))]
    cache = [{"variant": v, "codec": "lz4", "benchmark": b, "threads": n, "hits": 700 + at,
              "capacity_bytes": 1 << 28, "resident_bytes": (260 + at) << 20, "lookups": 1000,
              "ops_per_s": 50000 * n + at} for at, v in enumerate(("none", "lru", "ebb"))
             for b in ("readrandom", "skewed") for n in (1, 2)]
    dask = [{"variant": v, "workload": w, "data_over_limit": x, "seconds": s * x,
             "spilled_bytes": int(1e9 * x), "peak_resident_bytes": 1 << 30, "checksum_ok": True}
            for v, s in (("dask", 20), ("ebb", 12)) for w in ("shuffle", "sum")
            for x in (0.5, 1.5, 3)]
    return {"back.json": {"rows": back}, "ebb-cache.json": {"machine": FACTS, "rows": cache},
            "cache.json": {"machine": GUEST_FACTS, "rows": cache},
            "dask.json": {"machine": FACTS, "rows": dask}}


def units():
    rows = [{"variant": v, "heap": h, "codec": c, "unit": u, "memory": 0.2 + at / 20 - u / 1e6}
            for at, h in enumerate(("index", "trees")) for c in ("lz4", "zstd")
            for v, u in (("patched", 4096), ("ebb", 4096), ("ebb", 16384), ("ebb", 65536))]
    return {"machine": GUEST_FACTS, "rows": rows}


def every():
    return {"kernel-release.json": kernel_release(), "kernel-units.json": units(),
            "linux-release.json": linux_release(),
            "kernel-latency.json": kernel_latency(),
            "tiers.json": tiers(), "kernel-pressure.json": pressure(), "nbd.json": nbd(),
            "scale.json": scale(), **command(), **programs()}


def write(folder, documents):
    os.makedirs(folder, exist_ok=True)
    for name, doc in documents.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(doc, f)


if __name__ == "__main__":
    write(sys.argv[1], every())
