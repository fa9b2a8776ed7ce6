#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_bench_linux.py - what bench/linux boots, and what it makes of samples; prints TAP.

Nothing is booted: samples are made up.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest.mock

sys.dont_write_bytecode = True
import report_data
import tap

case = tap.Cases()
ROOT = pathlib.Path(__file__).resolve().parents[1]

run, counted = (report_data.module(name, f"bench/linux/{name}") for name in ("run", "counted"))
report, traced, LAST = run.report, counted.traced, run.report.LAST


def plan(**given):
    args = dict(only=list(run.PARTS), clients=["zram", "zswap"], allocators=list(run.ALLOCATORS),
                codecs=["lzo", "zstd"], data=["uniform", "mixed"], np=[1, 2], mb=16, mem="1G",
                apps_mem="512M", build_mem="112M", steps=8, files=2)
    return run.plan(argparse.Namespace(**{**args, **given}))


def sample(allocator, kind="munmap", np=1, data="uniform", others=0.0, client="zram", **measures):
    return dict({"kind": kind, "client": client, "allocator": allocator, "np": np, "mb": 16,
                 "data": data, "codec": "lzo", "others": others}, **measures)


def judged(samples, **wanted):
    """What came of the targets with these words."""
    return [t for t in report.targets(report.rows(samples, 0.08))
            if all(t[k] == v for k, v in wanted.items())]


@case
def what_leaks_is_booted_for_each_kind_of_data_the_largest_first():
    for name in ("floor", "floor-plus"):
        mine = [b for b in plan(only=["munmap"]) if b.allocator == name and b.client == "zswap"]
        assert len(mine) == 4, mine
        for b in mine:
            assert ["--np 2" in c for c in b.commands] == [True, False], b.commands
            assert not any("drain" in c for c in b.commands), b.commands
    other = [b for b in plan(only=["munmap"]) if b.allocator == "classic" and b.client == "zswap"]
    assert len(other) == 1 and len(other[0].commands) == 16, other


@case
def nothing_that_leaks_is_asked_what_memory_it_takes():
    for part in ("pool", "apps", "build"):
        boots = plan(only=[part])
        assert boots and not any(run.ALLOCATORS[b.allocator].leaks for b in boots), part


@case
def the_disk_under_zswap_has_room_for_what_a_boot_asks():
    for b in plan():
        for words in (c.split() for c in b.commands):
            given = {k: int(v) for k, v in zip(words, words[1:]) if k in ("--np", "--mb", "--disk")}
            asked = given.get("--disk", 2 * (given.get("--np", 1) * given.get("--mb", 0) + 64))
            assert b.disk > asked, (b, asked)


@case
def holds_are_counted_in_kernels_of_their_own():
    boots = plan()
    assert all(b.kernel.endswith("-holds") == (b.part == "holds") for b in boots), boots
    assert {b.allocator for b in boots if b.part == "holds"} == {
        a for a in run.ALLOCATORS if not a.startswith(("floor", "ebb"))}


@case
def ebb_is_a_zram_in_the_kernel_of_classic():
    mine = [b for b in plan() if run.ALLOCATORS[b.allocator].ebb]
    assert {(b.client, b.allocator, b.kernel) for b in mine} == {
        ("zram", "ebb", "uml-series-0"), ("zram", "ebb-sync", "uml-series-0")}, mine
    images = unittest.mock.Mock()
    with unittest.mock.patch.object(run.boots, "image", images), \
            unittest.mock.patch("allocators.module", lambda kernel: f"{kernel}.ko"):
        for name in ("ebb", "ebb-sync", "classic"):
            run.image("kernel", next(b for b in plan() if b.allocator == name), "to")
    args = [(c.args[1:3], c.args[4][-1].count("--release-limit 0")) for c in images.call_args_list]
    assert sorted(args, key=str) == sorted([
        (("deferred", "uml-series-0.ko"), 0), (("sync", "uml-series-0.ko"), 1),
        (("base", ""), 0)], key=str), args


@case
def a_boot_has_a_name_of_its_own():
    names = [(b.client, b.allocator, b.part, b.which) for b in plan()]
    assert len(set(names)) == len(names)


@case
def a_row_is_the_median_of_what_others_left_alone():
    rows = report.rows([sample("classic", mean_ms=m, others=o) for m, o in
                        ((3, 0), (4, 0), (8, 0), (90, 0.5))], 0.08)
    assert rows[0]["mean_ms"] == 4 and rows[0]["range"] == [3, 8], rows


@case
def the_floor_of_who_frees_by_range_is_the_one_that_does():
    found = {r["allocator"]: r for r in report.rows(
        [sample(a, mean_ms=m, cpu_ns_per_slot=m * 10) for a, m in
         (("floor", 2), ("floor-plus", 1), ("classic", 12), ("series-5", 11), ("series-6", 3))],
        0.08)}
    assert found["classic"]["mean_over_floor_ms"] == 10, found["classic"]
    assert found["series-5"]["mean_over_floor_ms"] == 9, found["series-5"]
    assert found["series-6"]["cpu_over_floor_ns"] == 20, found["series-6"]
    assert "mean_over_floor_ms" not in found["floor"]


@case
def a_target_is_judged_over_the_floor_and_the_whole_beside_it():
    for client, ours, met in (("zram", 4.5, "yes"), ("zram", 4.6, "NO"), ("zswap", 4.5, "")):
        samples = [sample(a, mean_ms=m, client=client) for a, m in (
            ("floor", 2), ("floor-plus", 1), ("classic", 12), (LAST, ours))]
        came = judged(samples, what="munmap over the floor / classic's")
        assert [(t["allocator"], t["met"]) for t in came] == [(LAST, met)], came
        whole = judged(samples, what="munmap, the whole / classic's")
        assert [(t["is"], t["met"]) for t in whole] == [(round(ours / 12, 4), "")], whole


@case
def without_a_floor_nothing_is_judged_over_it():
    came = judged([sample("classic", mean_ms=12), sample(LAST, mean_ms=5)], met="yes")
    assert not came, came


@case
def what_writes_at_the_limit_is_zswap():
    assert {b.client for b in plan(only=["shrink"])} == {"zswap"}


@case
def pool_bytes_are_told_by_the_compressed_bytes_of_part_pool():
    rows = report.rows([sample("classic", np=4, mean_ms=1, pool_bytes_per_slot=612),
                        sample("classic", "pool", compr_bytes=600, pool_bytes=606, all_bytes=630)],
                       0.08)
    assert [r["pool_per_byte"] for r in rows] == [1.02, 1.01], rows
    assert rows[1]["all_per_byte"] == 1.05


@case
def writes_that_failed_are_counted_over_all_boots():
    rows = report.rows([sample("classic", "apps", np=8, failed_writes=n, oom_kills=0)
                        for n in (0, 0, 7)], 0.08)
    assert rows[0]["failed_writes"] == 0 and rows[0]["failed_writes_sum"] == 7, rows


@case
def guests_side_by_side_have_cpus_of_their_own():
    with unittest.mock.patch("os.sched_getaffinity", lambda pid: set(range(3, 12))):
        q = run.shares(4)
        sets = [q.get_nowait() for _ in range(4)]
        assert run.shares(1).get_nowait() is None
    assert q.empty() and all(len(s) == 2 for s in sets), sets
    assert len(set().union(*sets)) == 8 and set().union(*sets) <= set(range(3, 12)), sets
    for n in ("0", "1000000"):
        p = subprocess.run([ROOT / "bench/linux/run", "--at-once", n], capture_output=True,
                           text=True)
        assert p.returncode == 2 and f"--at-once {n}: from 1 to" in p.stderr, p.stderr


@case
def an_error_in_a_boot_ends_the_run():
    def kernel(name):
        return types.SimpleNamespace(name=name, release="7.3", home=pathlib.Path(name))

    def samples_of(*_):
        raise KeyError("no such measure")

    patch = unittest.mock.patch.object
    with tempfile.TemporaryDirectory() as tmp, patch(run.harness, "kernel", kernel), \
            patch(run, "image", lambda *_: None), patch(run, "samples_of", samples_of), \
            patch(sys, "argv", ["run", "--only", "munmap", "--json", f"{tmp}/found.json"]):
        try:
            run.main()
        except KeyError:
            return
    raise AssertionError("it went on")


@case
def what_others_use_is_told_of_the_cpus_in_question():
    text = "\n".join(f"{name} {{}} 0 0 {{}} 0 0 0 0 0 0" for name in ("cpu ", "cpu0", "cpu1"))
    stat = [text.format(0, 0, 0, 0, 0, 0), text.format(100, 100, 100, 0, 0, 100)]
    for cpus, share in ((None, 0.5), ({0}, 1.0), ({1}, 0.0)):
        others = run.boots.Others(cpus)
        with unittest.mock.patch.object(others, "session", lambda sid: 0), \
                unittest.mock.patch.object(pathlib.Path, "read_text", lambda self: stat[at]):
            at = 0
            others.share(-1)
            at = 1
            assert others.share(-1) == share, cpus


@case
def holds_changes_a_source_once_and_refuses_another():
    text = ('#include "swap.h"\n' + "spin_lock(&ci->lock); spin_unlock(&ci->lock);\n" * 2
            + "swap_cluster_unlock(ci);\n")
    with tempfile.TemporaryDirectory() as tmp:
        path = pathlib.Path(tmp) / "mm/swapfile.c"
        path.parent.mkdir()
        path.write_text(text)
        holds = [str(ROOT / "bench/linux/holds"), tmp]
        for _ in range(2):
            assert subprocess.run(holds).returncode == 0
            assert path.read_text().count("held_lock(&ci->lock);") == 2
        path.write_text("int x;\n")
        said = subprocess.run(holds, stderr=subprocess.PIPE, text=True)
        assert said.returncode == 1 and str(path) in said.stderr, said.stderr
        assert path.read_text() == "int x;\n"


@case
def instructions_are_counted_over_the_floor_of_the_same_client():
    rows = [{"client": c, "data": "mixed", "allocator": a, "free": n} for c, a, n in (
        ("zram", "floor", 90), ("zram", "floor-plus", 70), ("zswap", "floor", 700),
        ("zram", "classic", 490), ("zram", "series-5", 400), ("zram", "series-6", 300),
        ("zswap", "classic", 1000), ("zswap", "series-7", 990), ("zswap", "series-8", 900))]
    counted.over_the_floor(rows)
    over = {(r["client"], r["allocator"]): r.get("over") for r in rows}
    assert over == {("zram", "floor"): None, ("zram", "floor-plus"): None, ("zswap", "floor"): None,
                    ("zram", "classic"): 400, ("zram", "series-5"): 310, ("zram", "series-6"): 230,
                    ("zswap", "classic"): 300, ("zswap", "series-7"): 290,
                    ("zswap", "series-8"): None}, over


@case
def what_counts_instructions_has_a_kernel_each_and_one_disk():
    known = subprocess.run([str(ROOT / "tests/vm/kernels"), "list"], stdout=subprocess.PIPE,
                           text=True, check=True).stdout.split()
    assert {*counted.KERNELS.values()} <= {*known}, {*counted.KERNELS.values()} - {*known}
    assert {*run.DEFAULT} <= {*counted.KERNELS}
    args = argparse.Namespace(codec="lzo", timeout=1)
    for client, disks in (("zram", []), ("zswap", ["704M"])):
        command = counted.command(client, args, 256, "mixed", "--mode cpu")
        assert ("--zswap" in command) == (client == "zswap"), command
        assert counted.machine(client, "classic", args, 256)["disks"] == disks


KERNEL, MODULE = 0xffffffff81000000, 0xffffffffa0000000


@case
def an_instruction_is_its_functions_and_those_of_programs_are_nobodys():
    known = [(MODULE, "slot_free"), (KERNEL + 0x40, "zs_free.cold"), (KERNEL, "zs_free"),
             (KERNEL + 0x80, "put.isra.0"), (KERNEL + 0xc0, "memcpy")]
    found = traced.by_function({KERNEL: 1, KERNEL + 0x3f: 2, KERNEL + 0x40: 4, KERNEL + 0xbf: 8,
                                KERNEL + 0xc0: 16, MODULE + 0x999: 32, 0x401000: 64}, known)
    assert dict(found) == {"zs_free": 7, "put": 8, "memcpy": 16, "slot_free": 32}, found


@case
def a_trace_of_the_emulator_is_read_by_address():
    line = "Trace 0: 0x7f0a2c0d3a40 [00000000/ffffffff811abff0/0040c2b3/ff020200] list_out\n"
    assert traced.EXECUTED.findall("IN: put\n" + line * 2) == ["ffffffff811abff0"] * 2
    told = traced.TOLD.match("symbol: ffffffffa0000180 t slot_free\t[zram]")
    assert told.groups() == ("ffffffffa0000180", "slot_free"), told
    assert not traced.TOLD.match("symbol: ffffffffa0000180 d zram_table\t[zram]")


@case
def a_log_is_cut_to_whole_clusters_and_to_none_without_them():
    known = [(KERNEL, "zs_free"), (KERNEL + 0x40, traced.FIRST), (KERNEL + 0x80, "put")]
    free, swap, other = KERNEL, KERNEL + 0x7f, KERNEL + 0x80
    cluster = ([swap] * 20 + [other] * 9) * 3 + [free] * (traced.PAUSE + 5)
    before = [other] * 777 + [swap] * 3 + [free] * (traced.PAUSE + 9)
    after = [swap] * 4 + [other] * 5
    assert traced.clusters(before + cluster * 3 + after, known) == cluster * 3
    assert traced.clusters(cluster * 3, known) == cluster
    for log in (cluster, [other] * 40000, []):
        assert not traced.clusters(log, known), len(log)
    assert not traced.clusters(cluster * 3, known[:1] + known[2:])


@case
def functions_of_a_free_add_up_to_it():
    rows = traced.rows(traced.collections.Counter(a=500, b=480, e=10, c=6, d=4), 400, client="zram")
    assert [(r["function"], r["share"], r["instructions"]) for r in rows] == [
        ("a", 0.5, 200), ("b", 0.48, 192), ("e", 0.01, 4), ("others", 0.01, 4),
        ("all", 1, 400)], rows
    assert all(r["client"] == "zram" for r in rows)


if __name__ == "__main__":
    sys.exit(tap.run(case))
