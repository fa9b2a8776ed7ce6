#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What scripts/steps makes of callgrind's counts, and bench/kernel/latency of what guests say."""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import report_data
import tap

ROOT = pathlib.Path(__file__).resolve().parents[1]
steps = report_data.module("steps", "scripts/steps")
latency = report_data.module("latency", "bench/kernel/latency")

CALLGRIND = """version: 1
positions: instr line
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Ge
ob=/a/program
fn=f
0x10 7 5 1 0 0 0 0 0 2 1 3
calls=1 0x99 7
0x10 7 900 9 9 9 9 9 9 9 9 9
0x14 8 1
ob=/lib/other
0x10 7 4
"""


def same(found, wanted):
    assert found == wanted, f"{found}, expected {wanted}"


def what_is_called_is_not_counted_twice():
    with tempfile.NamedTemporaryFile("w") as f:
        f.write(CALLGRIND)
        f.flush()
        found = steps.costs(f.name)
    same(dict(found["/a/program", 0x10]), {"instructions": 5, "lines": 3, "locked": 3})
    same(dict(found["/a/program", 0x14]), {"instructions": 1})
    same(dict(found["/lib/other", 0x10]), {"instructions": 4})


def a_helper_counts_for_who_calls_it():
    helper = "user/home/host_impl.h:host_a64_cas"
    same(steps.step_of([helper, "core/mm/pool.c:put", "core/mm/pool.c:pool_free"])[0], "class")
    same(steps.step_of([helper, "core/store/slot.h:slot_swap", "core/store/store.c:store_free"])[0], "slot")
    same(steps.step_of(["core/mm/pool.c:sort_key", "core/mm/pool.c:pool_free_bulk"])[0], "order")
    same(steps.step_of(["core/mm/release.h:release_push", "core/store/store.c:store_free"])[0], "push")
    same(steps.step_of(["core/mm/release_drain.c:take"])[0], "drain")
    same(steps.step_of([]), ("other", "outside of this tree"))


def each_step_has_a_row_of_the_table():
    text = (ROOT / "docs" / "internals" / "measuring.md").read_text(encoding="utf-8")
    for name in [*steps.NAMES, "all"]:
        assert f"row step={name} " in text, f"docs/internals/measuring.md has no row of step {name}"


def frees_are_told_apart_where_there_is_valgrind():
    with tempfile.TemporaryDirectory(prefix="ebb-steps-") as tmp:
        out = os.path.join(tmp, "steps.json")
        p = subprocess.run([ROOT / "scripts" / "steps", "--slots", "2048", "--json", out],
                           text=True, capture_output=True, check=False, timeout=1200)
        if p.returncode == 77:
            raise tap.Skip(p.stderr.strip().splitlines()[-1])
        assert not p.returncode, p.stdout[-1000:] + p.stderr[-1000:]
        rows = steps.json.loads(pathlib.Path(out).read_text())["rows"]
    by = {(r["how"], r["sizes"], r["step"]): r for r in rows}
    for how, sizes in steps.CASES:
        # The exchange of the slot's word is the one locked instruction there.
        same(round(by[how, sizes, "slot"]["locked"], 2), 1.0)
        total = sum(by[how, sizes, s]["instructions"] for s in steps.NAMES)
        assert abs(total - by[how, sizes, "all"]["instructions"]) < 0.1, (how, sizes, total)
        deferred = how == "deferred"
        for step in ("push", "drain", "order"):
            n = by[how, sizes, step]["instructions"]
            assert (n > 4) == deferred, f"{how}, {sizes}: {n} instructions of {step}"


def a_tracers_row_keeps_where_the_longest_was():
    said = {"np": 4, "mb": 32, "codec": "lz4", "others": 0.9, "tracer": "irqsoff",
            "page_out_us": 9, "page_out_in": "a to b, x-1", "exit_in": "c to d, y-2"}
    rows = [r for us, name in ((16, "first"), (40, "worst"), (24, "last"))
            for r in latency.of_off(dict(said, exit_us=us, exit_in=name), "deferred", 1)]
    found = {r["when"]: r for r in latency.merged_rows(rows, 0.08)}
    same(sorted(found), ["exit", "page-out"])
    same((found["exit"]["at"], found["exit"]["instructions"]), ("worst", 3000))
    # A clock of instructions is not disturbed by who else uses the machine.
    assert not found["exit"].get("noisy"), found["exit"]
    two = latency.merged_rows(latency.of_off(dict(said, exit_us=16), "deferred", 2), 0.08)
    same({"longest_us" in r and "instructions" not in r for r in two}, {True})
    same({r.get("noisy") for r in two}, {True})


def calls_have_a_row_each():
    op = {"calls": 9, "p50_us": 1.0, "p99_us": 2.0, "p999_us": 3.0, "max_us": 4.0, "lost": 1,
          "lost_max_us": 900.0}
    said = {"np": 4, "mb": 64, "codec": "lz4", "others": 0.01, "exit_ms": 5.0,
            "ops": {name: op for name in latency.OPS}}
    rows = latency.merged_rows(latency.of_calls(said, "sync") * 3, 0.08)
    same([r["op"] for r in rows], latency.OPS)
    same({(r["kind"], r["calls"], r["samples"], r["max_us"]) for r in rows}, {("call", 9, 3, 4.0)})


def a_run_of_one_part_keeps_the_other():
    call, off = {"kind": "call", "max_us": 1}, {"kind": "off", "cpus": 1, "instructions": 2}
    two = dict(off, cpus=2)
    with tempfile.TemporaryDirectory(prefix="ebb-rows-") as tmp:
        path = pathlib.Path(tmp) / "latency.json"
        same(latency.beside([off], path), [off])
        path.write_text(steps.json.dumps({"rows": [call, dict(off, instructions=9), two]}))
        same(latency.beside([off], path), [call, two, off])


if __name__ == "__main__":
    sys.exit(tap.run([what_is_called_is_not_counted_twice, a_helper_counts_for_who_calls_it,
                      each_step_has_a_row_of_the_table,
                      frees_are_told_apart_where_there_is_valgrind,
                      a_tracers_row_keeps_where_the_longest_was, calls_have_a_row_each,
                      a_run_of_one_part_keeps_the_other]))
