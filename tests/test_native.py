#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_native.py - bench/native builds, has each of its rows, and sees faults; prints TAP."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap
ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILT = ROOT / "build/native"
WAYS = {"ebb": {"single", "bulk32", "bulk512", "deferred"}, "7.3": {"single"},
        "7.3+mfence": {"single"}, "series-2": {"single"}, "series-3": {"single"},
        "series-5": {"single", "bulk32"}, "series-5+mfence": {"single", "bulk32"}}
skipped, rows = None, []


def call(*argv):
    return subprocess.run([str(a) for a in argv], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)


def needs_a_run():
    if skipped:
        raise tap.Skip(skipped)


def it_runs():
    global skipped, rows
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "native.json"
        p = call("bench/native/run", "--short", "--json", out)
        if p.returncode == 77:
            skipped = (p.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise tap.Skip(skipped)
        skipped = "it did not run"
        assert p.returncode == 0, p.stderr
        rows = json.loads(out.read_text())["rows"]
        skipped = None


def each_row_is_there():
    needs_a_run()
    for data in ("uniform", "mixed", "heap"):
        for threads in (1, 2):
            for allocator, ways in WAYS.items():
                of = [r for r in rows if (r["allocator"], r["data"], r["threads"]) ==
                      (allocator, data, threads)]
                have = sorted((r["kind"], r.get("way", "")) for r in of)
                want = sorted([("read", ""), ("store", "")] + [("free", w) for w in ways])
                assert have == want, f"{allocator} {data} {threads}: {have}, expected {want}"
                assert all(0 < r["q1_ns"] <= r["ns_range"][1] and r["cpu_ns"] > 0 for r in of), of
    assert {r["allocator"] for r in rows} == set(WAYS), "allocators that are not expected"


def zsmalloc_is_unchanged():
    needs_a_run()
    source = pathlib.Path(call("tests/vm/kernels", "source", "counted").stdout.strip())
    for name in ("mm/zsmalloc.c", "mm/zpdesc.h", "include/linux/zsmalloc.h"):
        assert (source / name).read_bytes() == (BUILT / "src/0" / name).read_bytes(), name


def fences_are_where_they_are_said_to_be():
    needs_a_run()
    for name in WAYS:
        if name != "ebb":
            code = call("objdump", "-d", "--no-show-raw-insn", BUILT / name / "zsmalloc.o").stdout
            free = re.search(r"<zs_free>:\n(.*?)\n\n", code, re.S)[1]
            unlock = re.search(r"<spin_unlock>:\n(.*?)\n\n", code, re.S)[1]
            assert "mfence" not in free, f"{name}: zs_free has a fence of its own"
            assert ("mfence" in unlock) == name.endswith("+mfence"), f"{name}: {unlock}"


def refused(function, says):
    """A zsmalloc of which a function does nothing."""
    needs_a_run()
    with tempfile.TemporaryDirectory() as tmp:
        c, to = pathlib.Path(tmp) / "stub.c", pathlib.Path(tmp) / "native"
        c.write_text(f"void __wrap_{function}(void);\nvoid __wrap_{function}(void) {{ }}\n")
        p = call("gcc", "-no-pie", BUILT / "native.o", *(BUILT / "7.3").glob("*.o"), c,
                 f"-Wl,--wrap={function}", "-pthread", "-o", to)
        assert p.returncode == 0, p.stderr
        p = call(to, 1, 512, 1, 1, 663)
        assert p.returncode and says in p.stderr, f"exit {p.returncode}: {p.stderr}"


def an_object_that_was_not_written_is_noticed():
    refused("zs_obj_write", "an object is not what was stored")


def an_object_that_is_not_freed_is_noticed():
    refused("zs_free", "pages are not back")


def an_aged_pool_is_told_and_can_be_read():
    needs_a_run()
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "aged.json"
        p = call("bench/native/run", "--aged", "--short", "--json", out)
        assert p.returncode == 0, p.stderr
        told = json.loads(out.read_text())["rows"]
    wanted = {(a, d) for a in WAYS if "mfence" not in a for d in ("uniform", "mixed", "heap")}
    assert {(r["allocator"], r["data"]) for r in told} == wanted, told
    for r in told:
        assert r["half"] * 0.45 < r["compacted"] < r["half"] * 0.65 < r["replaced"], r
        # One size fills what it had; others need more.
        assert r["stored"] <= r["replaced"] < 1.3 * r["stored"], r
    by = {(r["allocator"], r["data"]): [r[k] for k in ("stored", "replaced", "half", "compacted")]
          for r in told}
    for d in ("uniform", "mixed", "heap"):
        assert by["7.3", d] == by["series-2", d], f"patch 2 has moved objects to other zspages: {by}"


sys.exit(tap.run([it_runs, each_row_is_there, zsmalloc_is_unchanged,
                  fences_are_where_they_are_said_to_be, an_object_that_was_not_written_is_noticed,
                  an_object_that_is_not_freed_is_noticed, an_aged_pool_is_told_and_can_be_read]))
