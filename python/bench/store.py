#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""store.py [--smoke] [--json FILE] - Store beside the codec alone, both called from Python.

Values of 1 MiB of three kinds are put into a Store and read out of it, by 1 and 2 threads; beside
it, by turns, numcodecs' codec of the same name compresses and decompresses them and keeps nothing:
whole ("alone"), and in pieces of 64 KiB ("units"), as a Store does so that it can read any part.
A rate is the median of the rounds, in MiB/s of uncompressed bytes; a ratio is Store's to the
codec's.  --smoke: one short round, whose figures mean nothing.

The rows {what, codec, data, threads, store_mib_s, alone_mib_s, units_mib_s, ratio, ratio_units,
packed_store, packed_alone, packed_units} go into FILE, build/bench/python.json by default.
"""
import argparse
import json
import os
import random
import statistics
import sys
import threading
import time

import numcodecs
import numpy as np

import pyebb

MIB, UNIT = 1 << 20, 64 << 10
ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.append(os.path.join(ROOT, "tests", "vm"))
from harness import machine  # noqa: E402
LEVELS = {"lz4": 1, "zstd": 3}


def smooth(seed):
    """Floats of a field: smooth, with noise in the low bits."""
    r = np.random.default_rng(seed)
    x = np.linspace(0, 12 + seed, MIB // 4)
    return (280 + 15 * np.sin(x) + np.round(r.normal(0, 0.2, x.size), 2)).astype("f4")


def tokens(seed):
    """Ids of words, the common ones more often."""
    r = np.random.default_rng(seed)
    return (r.zipf(1.3, MIB // 4) % 50_000).astype("u4")


def noise(seed):
    """What is compressed already."""
    return np.frombuffer(random.Random(seed).randbytes(MIB), "u1")


KINDS = {"smooth": smooth, "tokens": tokens, "noise": noise}


def alone(codec):
    if codec == "lz4":
        return numcodecs.LZ4(acceleration=LEVELS[codec])
    return numcodecs.Zstd(level=LEVELS[codec])


def in_units(array):
    """The bytes of an array, a piece for each unit of it."""
    flat = array.reshape(-1).view("u1")
    return [flat[at:at + UNIT] for at in range(0, flat.size, UNIT)]


def decode_units(one, pieces, room):
    for piece, part in zip(pieces, in_units(room)):
        one.decode(piece, out=part)


def timed(threads, count, call):
    """MiB/s of call(i) for each i below count, split among threads."""
    start = threading.Barrier(threads + 1)

    def work(me):
        start.wait()
        for i in range(me, count, threads):
            call(i)

    workers = [threading.Thread(target=work, args=(t,)) for t in range(threads)]
    for w in workers:
        w.start()
    start.wait()
    begin = time.perf_counter()
    for w in workers:
        w.join()
    return count / (time.perf_counter() - begin)


def measure(codec, kind, threads, count, rounds):
    """A row for each operation."""
    values = [KINDS[kind](i) for i in range(16)]
    units = [in_units(v) for v in values]
    numbers = {what: ([], [], []) for what in ("put", "get", "get_into")}
    rooms = [np.empty(MIB, "u1") for _ in range(count)]
    for _ in range(rounds):
        one = alone(codec)
        packed = [one.encode(v) for v in values]
        pieces = [[one.encode(u) for u in us] for us in units]
        with pyebb.Store(codec=codec, level=LEVELS[codec]) as store:
            # Once before it counts: memory that is new costs both the same elsewhere.
            timed(threads, count, lambda i: store.__setitem__(i, values[i % 16]))
            calls = {
                "put": (lambda i: store.__setitem__(i, values[i % 16]),
                        lambda i: one.encode(values[i % 16]),
                        lambda i: [one.encode(u) for u in units[i % 16]]),
                "get": (lambda i: store[i], lambda i: one.decode(packed[i % 16]),
                        lambda i: decode_units(one, pieces[i % 16], np.empty(MIB, "u1"))),
                "get_into": (lambda i: store.get_into(i, rooms[i]),
                             lambda i: one.decode(packed[i % 16], out=rooms[i]),
                             lambda i: decode_units(one, pieces[i % 16], rooms[i])),
            }
            for what, each in calls.items():
                for found, call in zip(numbers[what], each):
                    found.append(timed(threads, count, call))
            packed_store = store.stats()["packed"] / count
    for what, found in numbers.items():
        a, b, c = map(statistics.median, found)
        yield {"what": what, "codec": codec, "data": kind, "threads": threads,
               "store_mib_s": round(a, 1), "alone_mib_s": round(b, 1), "units_mib_s": round(c, 1),
               "ratio": round(a / b, 3), "ratio_units": round(a / c, 3),
               "packed_store": round(packed_store),
               "packed_alone": round(statistics.mean(len(p) for p in packed)),
               "packed_units": round(statistics.mean(sum(map(len, p)) for p in pieces))}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--smoke", action="store_true", help="one short round")
    p.add_argument("--json", default=os.path.join(ROOT, "build", "bench", "python.json"))
    args = p.parse_args()
    count, rounds = (8, 1) if args.smoke else (128, 7)
    facts = machine()       # before this is what loads it
    rows = []
    print(f"{'what':9}{'codec':6}{'data':8}{'threads':>7}{'Store':>9}{'alone':>9}{'ratio':>7}"
          f"{'units':>9}{'ratio':>7}")
    for codec in LEVELS:
        for kind in KINDS:
            for threads in (1, 2):
                for r in measure(codec, kind, threads, count, rounds):
                    rows.append(r)
                    print(f"{r['what']:9}{codec:6}{kind:8}{threads:7}{r['store_mib_s']:9.0f}"
                          f"{r['alone_mib_s']:9.0f}{r['ratio']:7.2f}{r['units_mib_s']:9.0f}"
                          f"{r['ratio_units']:7.2f}", flush=True)
    os.makedirs(os.path.dirname(os.path.abspath(args.json)), exist_ok=True)
    with open(args.json, "w", encoding="utf-8") as f:
        json.dump({"machine": facts, "python": sys.version.split()[0],
                   "libebb": pyebb.version(), "smoke": args.smoke, "rows": rows}, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
