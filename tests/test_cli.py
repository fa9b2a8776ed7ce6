#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_cli.py [EBB [CASE...]] - runs the command as a user types it, and bench-user; prints TAP.

EBB is the command to run: the argument, or the environment's EBB, or build/ebb, and bench-user is
beside it; CASEs are the only ones to be run.  Everything is small: what a bench measures is not
judged here, only that it runs and what it leaves.
"""
import contextlib
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time

import tap

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
EBB = os.path.realpath(sys.argv[1] if len(sys.argv) > 1 else
                       os.environ.get("EBB", os.path.join(ROOT, "build", "ebb")))
BENCH = os.path.join(os.path.dirname(EBB), "bench-user")
COMMANDS = ["classes", "pack", "top", "tierd"]
BENCHES = ["release", "store", "density", "units", "malloc", "latency", "values", "cache"]
LIMIT_S = 120
NOBODY = 65534

test = tap.Cases()


def ebb(*args, **more):
    """The command with these arguments, or what begins with BENCH."""
    argv = [*args] if args[:1] == (BENCH,) else [EBB, *args]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False, **more)


def said(p):
    return f"{' '.join(p.args[1:])}: exit {p.returncode}, stderr {p.stderr!r}, stdout {p.stdout[-300:]!r}"


def works(*args, **more):
    p = ebb(*args, **more)
    assert p.returncode == 0, said(p)
    return p


def refused(status, value, *args, **more):
    """Exit status, and one line on stderr that names the value."""
    p = ebb(*args, **more)
    assert p.returncode == status, said(p)
    lines = p.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith(os.path.basename(p.args[0]) + ": ") and value in lines[0], said(p)
    assert not p.stdout, said(p)
    return lines[0]


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)
    return path


def tree(tmp):
    """Files of many kinds: text, noise, zeros, one byte, nothing, and a folder below."""
    top = os.path.join(tmp, "tree")
    os.makedirs(os.path.join(top, "below"))
    write(os.path.join(top, "text"), b"compressed memory that lets go at once\n" * 5000)
    write(os.path.join(top, "noise"), os.urandom(100000))
    write(os.path.join(top, "zeros"), bytes(70000))
    write(os.path.join(top, "one"), b"1")
    write(os.path.join(top, "empty"), b"")
    write(os.path.join(top, "below", "mixed"), b"".join(os.urandom(700) + b"x" * 2000 for _ in range(60)))
    return top


def codecs():
    """Those that this build has, as its help says."""
    line = next(x for x in works("pack", "--help").stdout.splitlines() if x.startswith("  --codec"))
    return line.split("NAME")[1].split("[")[0].replace(" or ", ", ").replace(" ", "").split(",")


@test
def help_is_there_for_every_command(tmp):
    top = works("--help").stdout
    assert top == works("-h").stdout
    for c in COMMANDS:
        assert c in top, c
        out = works(*c.split(), "--help").stdout
        assert out.startswith(f"Usage: ebb {c}"), out
        assert out == works("help", *c.split()).stdout
        for part in ("Options:", "--json", "Examples:", f"  ebb {c}", "Exit status:"):
            assert part in out or (c, part) == ("tierd", "--json"), (c, part)
    top = works(BENCH, "--help").stdout
    for b in BENCHES:
        assert f"  {b} " in top, b
        out = works(BENCH, b, "--help").stdout
        assert out.startswith(f"Usage: bench-user {b}") and "--json" in out, out


@test
def the_version_is_one_line(tmp):
    words = works("--version").stdout.split()
    assert len(words) == 2 and words[0] == "ebb" and words[1].count(".") == 2, words


@test
def the_class_table_ends_with_the_published_figures(tmp):
    assert works("classes").stdout.splitlines()[-1] == "123 classes, largest not huge 3632"
    for chain, classes, largest in ((4, 69, 3264), (10, 143, 3712), (16, 191, 3840)):
        out = works("classes", "--chain-size", str(chain)).stdout
        assert out.splitlines()[-1] == f"{classes} classes, largest not huge {largest}", out
        doc = json.loads(works("classes", f"--chain-size={chain}", "--json").stdout)
        assert len(doc["rows"]) == doc["classes"] == classes, doc["classes"]
        assert doc["rows"][-1]["size_bytes"] == 4096
    assert "largest not huge" in works("classes", "--page-size", "64K").stdout
    # Linux 7.3 has 119 at its default of 8.
    for chain, classes in ((8, 119), (16, 192)):
        doc = json.loads(works("classes", "--rule", "store", f"--chain-size={chain}", "--json").stdout)
        assert (doc["classes"], doc["rule"]) == (classes, "store"), doc["classes"]
    refused(2, "linux", "classes", "--rule", "linux")


@test
def a_tree_is_packed_verified_and_counted(tmp):
    top = tree(tmp)
    doc = json.loads(works("pack", "--json", top).stdout)
    page = os.sysconf("SC_PAGE_SIZE")
    sizes = [os.path.getsize(os.path.join(d, n)) for d, _, names in os.walk(top) for n in names]
    assert doc["files"] in (len(sizes), len(sizes) - 1), doc["files"]
    assert doc["verified"] is True
    # Whatever page size it is built for.
    pages = {sum(-(-s // p) for s in sizes) for p in (page, 4096, 8192, 16384, 32768, 65536)}
    assert doc["pages"] in pages, (doc["pages"], pages)
    text = works("pack", top).stdout
    for word in ("orig_data_size", "compr_data_size", "mem_used_total", "same_pages", "pool/B",
                 "all in/B"):
        assert word in text, (word, text)


@test
def pack_answers_first(tmp):
    lines = works("pack", tree(tmp)).stdout.splitlines()
    assert lines[0].startswith("5 files, ") and lines[0].endswith("%."), lines[0]
    assert lines[1] == "Every page was read back and is the same.", lines[1]


@test
def holes_of_a_sparse_file_are_not_read(tmp):
    path = os.path.join(tmp, "sparse")
    try:
        with open(path, "wb") as f:
            f.truncate(4 << 40)
            for at in (0, 5 << 30, (4 << 40) - 65536):
                f.seek(at)
                f.write(os.urandom(65536))
    except OSError as why:
        raise tap.Skip(f"no sparse file of 4 TiB: {why}") from None
    doc = json.loads(works("pack", "--json", path).stdout)
    page = int(doc["density"][0]["orig_bytes"] / doc["pages"])
    # A file system may keep more than was written: blocks of its own size.
    assert 3 * 65536 <= doc["pages"] * page <= 3 << 21, doc["pages"]
    assert doc["pages"] + doc["hole_pages"] == (4 << 40) // page, doc["hole_pages"]
    assert doc["verified"] is True
    assert "holes" in works("pack", path).stdout
    works(BENCH, "store", "--data", path, "--size", "1M", "--threads", "1", "--rounds", "1")
    with open(path, "r+b") as f:
        f.truncate(0)
        f.truncate(1 << 40)
    refused(1, path, "pack", path)


@test
def every_codec_packs_and_so_do_files_named_one_by_one(tmp):
    top = tree(tmp)
    assert codecs() in (["lz4", "lz4hc", "zstd"], ["lz4", "lz4hc", "zstd", "lzo"]), codecs()
    if "lzo" not in codecs():
        refused(2, "lzo", "pack", "--codec", "lzo", top)
        refused(2, "lzo", BENCH, "store", "--codec", "lzo")
    for codec in codecs():
        doc = json.loads(works("pack", "--codec", codec, "--json", top).stdout)
        assert doc["codec"] == codec and doc["verified"] is True, doc
    one, two = (os.path.join(top, n) for n in ("text", "one"))
    assert json.loads(works("pack", "--json", one, two).stdout)["files"] == 2
    works("pack", "--codec", "zstd", "--level", "19", one)
    os.rename(one, os.path.join(tmp, "--odd name"))
    assert json.loads(works("pack", "--json", "--", "--odd name", cwd=tmp).stdout)["files"] == 1


@test
def a_path_that_cannot_be_stored_is_named(tmp):
    missing, empty, fifo = (os.path.join(tmp, n) for n in ("missing", "empty", "fifo"))
    write(empty, b"")
    os.mkfifo(fifo)
    os.mkdir(os.path.join(tmp, "hollow"))
    for path in (missing, empty, fifo, "/dev/zero", "/dev/null", os.path.join(tmp, "hollow")):
        refused(1, path, "pack", path)
    refused(1, "''", "pack", "")
    refused(2, "pack", "pack")


@test
def one_bad_path_among_good_ones_is_named_and_the_rest_is_stored(tmp):
    top, missing = tree(tmp), os.path.join(tmp, "missing")
    p = ebb("pack", "--json", top, missing)
    assert p.returncode == 1 and missing in p.stderr and p.stderr.count("\n") == 1, said(p)
    doc = json.loads(p.stdout)
    assert doc["verified"] is True and doc["problems"] == 1, doc


@test
def a_path_without_permission_is_named(tmp):
    secret, closed = os.path.join(tmp, "secret"), os.path.join(tmp, "closed")
    write(secret, b"s" * 9000)
    os.mkdir(closed)
    write(os.path.join(closed, "inside"), b"s" * 9000)
    os.chmod(tmp, 0o755)
    os.chmod(secret, 0)
    os.chmod(closed, 0)
    more = ordinary_user()
    for path in (secret, closed):
        refused(1, path, "pack", path, **more)
    os.chmod(closed, 0o755)


@test
def a_file_that_changes_while_it_is_read_is_stored_or_named(tmp):
    path, over = write(os.path.join(tmp, "busy"), os.urandom(1 << 20)), threading.Event()

    def change():
        while not over.is_set():
            os.truncate(path, 5000)
            with open(path, "r+b") as f:
                f.write(os.urandom(1 << 20))

    t = threading.Thread(target=change)
    t.start()
    try:
        for _ in range(20):
            p = ebb("pack", "--json", path)
            assert p.returncode in (0, 1), said(p)
            if p.returncode == 1:
                assert path in p.stderr and p.stderr.count("\n") == 1, said(p)
            else:
                assert json.loads(p.stdout)["verified"] is True
    finally:
        over.set()
        t.join()


@test
def a_name_cannot_forge_a_message(tmp):
    """Not by a new line, by what moves a terminal's cursor, or by bytes that are no text."""
    evil = "a\nebb: all fine \x1b]0;owned\x07\r" + os.fsdecode(b"caf\xe9")
    shown = "a\\x0aebb: all fine \\x1b]0;owned\\x07\\x0dcaf\\xe9"
    refused(1, shown, "pack", os.path.join(tmp, evil))
    refused(2, shown, evil)
    refused(2, shown, "pack", "--codec", evil, tmp)
    refused(2, shown, BENCH, "store", "--out", os.path.join(tmp, evil, "out.json"))
    refused(2, shown, BENCH, "store", "--data", os.path.join(tmp, evil))
    # A name in a table is no other: it was made by who runs this, and is one line all the same.
    named = write(os.path.join(tmp, "two\nlines"), os.urandom(65536))
    rows = works(BENCH, "density", "--data", named, "--size", "64K").stdout.splitlines()
    assert len(rows) == 3 and "two\\x0alines" in rows[1], rows


@test
def what_is_asked_for_is_judged_before_the_work(tmp):
    good = write(os.path.join(tmp, "good"), os.urandom(65536))
    latin = os.fsdecode(os.fsencode(tmp) + b"/caf\xe9")
    write(latin, os.urandom(65536))
    hollow = os.path.join(tmp, "hollow")
    os.mkdir(hollow)
    for name in ("release", "store", "density", "malloc"):
        refused(2, "caf\\xe9", BENCH, name, "--data", latin, "--size", "64K")
    # Not after the first set was measured: progress and tables would be on standard output.
    refused(2, "/missing", BENCH, "density", "--data", f"{good},/missing", "--size", "64K")
    refused(1, hollow, BENCH, "density", "--data", f"{good},{hollow}", "--size", "64K")
    json.loads(works("pack", "--json", latin).stdout)


@test
def wrong_command_lines_are_told_in_one_line(tmp):
    refused(2, "command")
    refused(2, "no bench", BENCH)
    refused(2, "fast", BENCH, "fast")
    refused(2, "unpack", "unpack")
    refused(2, "--bogus", "classes", "--bogus")
    refused(2, "-x", "classes", "-x")
    refused(2, "operand", "classes", "operand")
    refused(2, "--json=1", "classes", "--json=1")
    for value in ("3", "17", "0", "-4", "four", "8x", "", "99999999999999999999"):
        refused(2, value, "classes", "--chain-size", value)
    for value in ("0", "1", "5000", "4095", "128K", "4Q", "-4K", "K", "99999999999999999999T"):
        refused(2, value, "classes", "--page-size", value)
    refused(2, "lz9", "pack", "--codec", "lz9", "/etc/hostname")
    refused(2, "99", "pack", "--codec", "zstd", "--level", "99", "/etc/hostname")
    refused(2, "1x", "pack", "--level", "1x", "/etc/hostname")
    refused(2, "--codec", "pack", "--codec")


@test
def wrong_options_of_a_bench_are_told_in_one_line(tmp):
    for value in ("0", "1", "-1", "4X", "4MM", "1.5G", "", "999999T", "99999999999999999999"):
        refused(2, value, BENCH, "release", "--size", value)
    # More than any machine has.
    refused(2, "8T", BENCH, "release", "--size", "8T", "--threads", "1")
    for value in ("0", "1,,2", ",", "1,x", "-1", "100000"):
        refused(2, value[-1], BENCH, "release", "--threads", value)
    refused(2, "fast", BENCH, "release", "--variant", "fast")
    refused(2, "lz9", BENCH, "release", "--codec", "lz9")
    refused(2, "lz9", BENCH, "density", "--codec", "lz4,lz9")
    refused(2, "0", BENCH, "release", "--rounds", "0")
    refused(2, "/missing", BENCH, "release", "--size", "4M", "--data", "/missing")
    refused(2, "1001", BENCH, "release", "--rounds", "1001")
    refused(2, "-1", BENCH, "latency", "--others", "-1")
    refused(2, "dlmalloc", BENCH, "malloc", "--variant", "dlmalloc")
    refused(2, "lz4hc", BENCH, "store", "--codec", "lz4hc", "--data", "mix", "--size", "64K")
    refused(2, "--one", BENCH, "store", "--one")


def ordinary_user():
    """For subprocess: to run as one who is not root."""
    more = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        works("--version", **more)
    except (PermissionError, AssertionError):
        raise tap.Skip("an ordinary user cannot run " + EBB) from None
    return more


@test
def more_than_there_is_memory_for_is_refused(tmp):
    good = write(os.path.join(tmp, "good"), os.urandom(65536))
    for name in ("release", "store", "density", "malloc"):
        assert "expected at most" in refused(2, "8T", BENCH, name, "--size", "8T", "--data", good)
    # Threads count, not only the size of each.
    for name in ("release", "store"):
        refused(2, "64G", BENCH, name, "--size", "64G", "--threads", "1,250", "--data", good)


def cgroup(name, files):
    """A new control group, where the controller is, with words in its files; or Skip."""
    tops = []
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        for fields, _, kind in (line.partition(" - ") for line in f):
            at, (fs, _, options) = fields.split()[4], kind.split()
            if fs == "cgroup" and name in options.split(",") or fs == "cgroup2" and \
                    name in open(at + "/cgroup.subtree_control", encoding="ascii").read().split():
                tops.append((fs, at))
    for fs, at in tops:
        path = f"{at}/ebb-test-{os.getpid()}-{time.monotonic_ns()}"
        try:
            os.mkdir(path)
            for key, value in files[fs].items():
                with open(os.path.join(path, key), "w", encoding="ascii") as f:
                    f.write(str(value))
            return path
        except OSError:
            if os.path.exists(path):
                os.rmdir(path)
    raise tap.Skip(f"no control group with {name} can be made here")


def enter(path):
    def do():
        with open(path + "/cgroup.procs", "w", encoding="ascii") as f:
            f.write(str(os.getpid()))
    return do


def members(path):
    with open(path + "/cgroup.procs", encoding="ascii") as f:
        return [int(x) for x in f]


def remove_cgroup(path):
    for _ in range(100):
        for pid in members(path):
            os.kill(pid, signal.SIGKILL)
        try:
            return os.rmdir(path)
        except OSError:
            time.sleep(0.1)


def sanitized():
    """The command has memory of a sanitizer's in it."""
    with open(EBB, "rb") as f:
        return b"__asan_init" in (text := f.read()) or b"__tsan_init" in text


@test
def in_a_small_cgroup_nothing_is_killed(tmp):
    if sanitized():
        raise tap.Skip("a sanitizer takes memory of its own")
    if json.loads(works(*TINY, "--json").stdout)["machine"]["page_bytes"] != 4096:
        raise tap.Skip("pages of 4 KiB only: a class of larger ones takes much of so small a group")
    noise = write(os.path.join(tmp, "noise"), os.urandom(100 << 20))
    group = cgroup("memory", {"cgroup": {"memory.limit_in_bytes": 64 << 20},
                              "cgroup2": {"memory.max": 64 << 20}})
    more = {"preexec_fn": enter(group)}
    try:
        line = refused(1, noise, "pack", noise, **more)
        may = int(line.split(" MiB")[0].split()[-1])
        assert 48 <= may <= 56, line
        # What it leaves in the group, for each file that was looked at, is not there for the next.
        os.mkdir(os.path.join(tmp, "many"))
        for i in range(4000):
            write(os.path.join(tmp, "many", str(i)), b"%d of many files\n" % i * 400)
        works("pack", os.path.join(tmp, "many"), **more)
        for name, args in (("release", ["--threads", "1,2"]), ("store", ["--threads", "2"]),
                           ("density", []),
                           ("malloc", ["--threads", "2", "--variant", "ebb"])):
            args += ["--data", noise, "--rounds", "1"]
            line = refused(2, "--size", BENCH, name, *args, **more)
            # What it calls enough is.
            works(BENCH, name, *args, "--size", line.split()[-1], **more)
    finally:
        remove_cgroup(group)


@test
def the_kernel_is_left_alone_by_who_is_not_root(tmp):
    more = ordinary_user()
    p = ebb(BENCH, "density", "--vs-kernel", "--size", "4M", **more)
    assert p.returncode in (1, 2) and "root" in p.stderr and p.stderr.count("\n") == 1, said(p)


def zram_control():
    if os.geteuid() != 0 or not os.path.exists("/sys/class/zram-control"):
        raise tap.Skip("making a zram device needs root, and a kernel with zram")


@test
def density_beside_the_kernels_zram_leaves_no_device_behind(tmp):
    zram_control()
    args = (BENCH, "density", "--vs-kernel", "--data", "mix", "--json")
    before = os.listdir("/sys/block")
    p = ebb(*args, "--size", "4M")
    if p.returncode:
        raise tap.Skip("no zram device can be made here: " + p.stderr.strip()[-200:])
    rows = json.loads(p.stdout)["rows"]
    assert all(r["linux_measured"] and 1 < r["linux_pool_per_byte"] < r["linux_all_in_per_byte"] < 2
               for r in rows), rows
    assert os.listdir("/sys/block") == before
    # An interruption while the device is being written to.
    p = subprocess.Popen([*args, "--size", "64M"], stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + LIMIT_S
    while not zram_written(before) and p.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    p.send_signal(signal.SIGTERM)
    said_last = p.communicate(timeout=LIMIT_S)[1]
    assert p.returncode == 128 + signal.SIGTERM and not said_last, (p.returncode, said_last)
    assert os.listdir("/sys/block") == before


def zram_written(before):
    """A block device that was not there before holds pages."""
    for name in set(os.listdir("/sys/block")) - set(before):
        try:
            with open(f"/sys/block/{name}/mm_stat", encoding="ascii") as f:
                if int(f.read().split()[0]):
                    return True
        except OSError:
            pass
    return False


@test
def the_demo_shows_what_the_benches_found_and_where_to_look_next(tmp):
    os.makedirs(os.path.join(tmp, "build"))
    os.symlink(BENCH, os.path.join(tmp, "build", "bench-user"))
    demo = {"__name__": "demo", "__file__": os.path.join(ROOT, "scripts", "demo")}
    with open(demo["__file__"], encoding="utf-8") as f:
        exec(f.read(), demo)   # pylint: disable=exec-used
    demo.update(ROOT=tmp, size_mib=lambda: 4, pack=lambda: True, may_compare=lambda: "a test")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert demo["main"]() == 0, out.getvalue()
    text = out.getvalue()
    assert "Without this kernel's zram: a test." in text, text
    for start, rows, figures in (("  Ebb ", 1, 2), ("  freed in the call ", 3, 6),
                                 ("  deferred to a worker ", 3, 6)):
        found = [x.split()[-figures:] for x in text.splitlines()
                 if x.startswith(start) and x[-1].isdigit()]
        assert len(found) == rows and all(float(x) >= 0 for row in found for x in row), text
    assert text.index("make measure WHAT=kernel") > text.rindex("held back MB")
    assert os.path.exists(os.path.join(tmp, "build", "bench", "release.json"))


def bench(tmp, name, *args):
    """Rows of the file that --out names; --json prints the same."""
    out = os.path.join(tmp, name + ".json")
    text = works(BENCH, name, *args, "--out", out).stdout
    with open(out, encoding="utf-8") as f:
        doc = json.load(f)
    assert isinstance(doc["machine"], dict) and doc["machine"] and doc["rows"], doc
    assert len(text.splitlines()) > len(doc["rows"]), text
    for row in doc["rows"]:
        assert all(not isinstance(v, (dict, list)) for v in row.values()), row
        for key in (k.removesuffix("_min") for k in row if k.endswith("_min")):
            assert row[key] is None or row[f"{key}_min"] <= row[key] <= row[f"{key}_max"], row
    return doc["rows"]


def has(rows, keys):
    for row in rows:
        assert not set(keys.split()) - set(row), (set(keys.split()) - set(row), row)


@test
def bench_release_writes_a_row_for_each_mode_and_number_of_threads(tmp):
    rows = bench(tmp, "release", "--size", "4M", "--threads", "1,2", "--rounds", "1")
    has(rows, "variant threads data wall_ms mean_ms ns_per_slot cpu_ns_per_slot drained_ms held_back_peak_bytes")
    assert {(r["variant"], r["threads"]) for r in rows} == \
        {(m, t) for m in ("sync", "deferred") for t in (1, 2)}, rows
    for r in rows:
        assert all(r[k] > 0 for k in ("store_ns_per_slot", "ns_per_slot", "cpu_ns_per_slot",
                                      "drained_ms")), r
        assert (r["held_back_peak_bytes"] == 0) == (r["variant"] == "sync"), r
    rows = bench(tmp, "release", "--size=1M", "--threads=1", "--rounds=3", "--variant=sync",
                 "--data=mix")
    assert [r["variant"] for r in rows] == ["sync"] and rows[0]["data"] == "mix", rows


@test
def bench_store_writes_its_rows(tmp):
    rows = bench(tmp, "store", "--size", "4M", "--threads", "1,2", "--rounds", "1", "--data", tree(tmp))
    has(rows, "threads ns_per_page codec_ns_per_page")
    assert [r["threads"] for r in rows] == [1, 2], rows


@test
def bench_density_writes_its_rows(tmp):
    rows = bench(tmp, "density", "--size", "4M", "--data", tree(tmp), "--codec", "lz4,zstd")
    has(rows, "set codec pool_per_byte all_in_per_byte churned")
    assert {(r["codec"], r["churned"]) for r in rows} == \
        {(c, b) for c in ("lz4", "zstd") for b in (False, True)}, rows
    for r in rows:
        assert 1 < r["pool_per_byte"] < r["all_in_per_byte"], r


@test
def bench_units_writes_its_rows(tmp):
    page = json.loads(works(*TINY, "--json").stdout)["machine"]["page_bytes"]
    due = [u for u in (page, 4 * page, 16 * page) if u <= 65536]
    rows = bench(tmp, "units", "--size", "4M", "--data", tree(tmp))
    has(rows, "codec unit_bytes taken_per_byte write_us read_us page_us random_us")
    assert [(r["codec"], r["unit_bytes"]) for r in rows] == \
        [(c, u) for c in ("lz4", "zstd") for u in due], rows


@test
def values_bench_writes_its_rows(tmp):
    out = os.path.join(tmp, "values.json")
    # Each variant but the codec rests for three seconds a number of threads.
    works(BENCH, "values", "--values", "2000", "--threads", "2", "--rounds", "1", "--data", "mix",
          "--out", out)
    with open(out, encoding="utf-8") as f:
        rows = json.load(f)["rows"]
    has(rows, "variant threads put_ns get_ns delete_ns value_bytes packed_bytes resident_bytes "
              "over_bytes after_bytes fresh_bytes")
    assert {(r["variant"], r["threads"]) for r in rows} == \
        {(v, 2) for v in ("codec", "ebb", "ebb-key", "map", "map-trim", "slabs")}, rows
    for r in rows:
        assert r["put_ns"] > 0 and r["get_ns"] > 0, r
    # What a table of ours says that it packed is what the codec makes of it.
    packed = {r["variant"]: r["packed_bytes"] for r in rows}
    assert abs(packed["ebb"] / packed["codec"] - 1) < 0.02, packed
    refused(2, "tree", BENCH, "values", "--variant", "ebb,tree")
    refused(2, "--to 10", BENCH, "values", "--to", "10")
    refused(2, "lz9", BENCH, "values", "--codec", "lz9")
    refused(2, "expected at most", BENCH, "values", "--values", "1000000000")


@test
def cache_bench_writes_its_rows(tmp):
    out = os.path.join(tmp, "cache.json")
    keys, requests = (20000, 8000) if sanitized() else (100000, 60000)
    works(BENCH, "cache", "--keys", str(keys), "--requests", str(requests), "--capacity", "8M",
          "--threads", "1,2", "--rounds", "1", "--data", "mix", "--trace", "zipf-0.8,loop", "--out", out)
    with open(out, encoding="utf-8") as f:
        rows = json.load(f)["rows"]
    has(rows, "variant benchmark threads capacity_bytes resident_bytes resident_most_bytes hits lookups "
              "hit_percent refused ops_per_s cpu_ns")
    assert {(r["variant"], r["benchmark"], r["threads"]) for r in rows} == \
        {(v, b, t) for v in ("ebb", "ebb-second", "map", "slabs") for b in ("zipf-0.8", "loop")
         for t in (1, 2)}, rows
    by = {(r["variant"], r["benchmark"], r["threads"]): r for r in rows}
    for r in rows:
        assert r["capacity_bytes"] == 8 << 20 and r["lookups"] == requests * 3 // 4 and r["ops_per_s"] > 0, r
    # The policy, and what it counts: of one thread the requests are the same each time.
    ebb, lru = by["ebb", "zipf-0.8", 1], by["map", "zipf-0.8", 1]
    # A page is a small part of so small a cache only where it has 4 KiB.
    small = json.loads(works(*TINY, "--json").stdout)["machine"]["page_bytes"] == 4096
    if small and not sanitized():
        assert ebb["hits"] > lru["hits"], (ebb, lru)
        assert ebb["resident_most_bytes"] < 1.06 * ebb["capacity_bytes"], ebb
    refused(2, "tree", BENCH, "cache", "--variant", "ebb,tree")
    refused(2, "--trace zipf-9", BENCH, "cache", "--trace", "zipf-9")
    refused(2, "--trace loop-2", BENCH, "cache", "--trace", "loop-2")
    refused(2, "at least 8388608", BENCH, "cache", "--capacity", "1M")
    refused(2, "--to 10", BENCH, "cache", "--to", "10")


@test
def bench_malloc_writes_its_rows(tmp):
    rows = bench(tmp, "malloc", "--size", "4M", "--threads", "1", "--rounds", "1", "--variant",
                 "ebb,glibc", "--data", tree(tmp))
    has(rows, "allocator threads alloc_ns alloc_again_ns alloc_churned_ns free_ns rss_per_byte "
              "rss_per_byte_churned left_bytes")
    assert all(r[k] > 0 for r in rows for k in ("alloc_again_ns", "alloc_churned_ns")), rows
    assert {r["allocator"] for r in rows} == {"ebb", "glibc"}, rows


@test
def bench_latency_writes_its_rows(tmp):
    rows = bench(tmp, "latency", "--size", "1M", "--rounds", "1",
                 "--variant", "ebb,ebb-sync,glibc,nothing", "--data", tree(tmp))
    has(rows, "allocator others op samples p50_ns p99_ns p999_ns max_ns lost lost_max_ns")
    # Two of threads, four allocators, four calls; those of a thread alone are so many.
    assert len(rows) == 32, len(rows)
    for r in rows:
        assert r["p50_ns"] <= r["p99_ns"] <= r["p999_ns"] <= r["max_ns"], r
        if not r["others"]:
            assert r["samples"] + r["lost"] >= 10000, r
    # A call that does nothing is shorter than any store.
    p50 = {(r["allocator"], r["others"], r["op"]): r["p50_ns"] for r in rows}
    assert p50["nothing", 0, "store"] < min(p50["ebb", 0, "store"], p50["glibc", 0, "store"]), p50


@test
def json_on_stdout_is_all_there_is_there(tmp):
    p = works(*TINY, "--json", "--out", os.path.join(tmp, "store.json"))
    assert json.loads(p.stdout)["rows"]


TINY = (BENCH, "store", "--size", "64K", "--threads", "1", "--rounds", "1", "--data", "mix")
LONG = (BENCH, "store", "--rounds", "1000", "--data", "mix")


@test
def nothing_is_written_that_was_not_asked_for(tmp):
    works(*TINY, cwd=tmp)
    assert not os.listdir(tmp), os.listdir(tmp)
    works(*TINY, cwd="/", **ordinary_user())
    out = os.path.join(tmp, "out.json")
    for _ in range(2):
        works(*TINY, "--out", "out.json", cwd=tmp, umask=0o027)
        assert os.listdir(tmp) == ["out.json"], os.listdir(tmp)
        assert os.stat(out).st_mode & 0o777 == 0o640, oct(os.stat(out).st_mode)
    with open(out, encoding="utf-8") as f:
        assert json.load(f)["rows"]


@test
def an_out_file_that_cannot_be_written_is_named_before_the_work(tmp):
    where = os.path.join(tmp, "no", "such", "folder.json")
    write(os.path.join(tmp, "no"), b"a file, not a folder")
    for out in (where, os.path.join(tmp, "missing", "out.json"), tmp, tmp + "/", "/dev/null",
                os.path.join(tmp, "new") + "/"):
        refused(2, out, *LONG, "--out", out)
    os.mkdir(os.path.join(tmp, "closed"), 0o555)
    os.chmod(tmp, 0o755)
    refused(2, "closed", *LONG, "--out", os.path.join(tmp, "closed", "out.json"), **ordinary_user())


@test
def no_link_leads_what_is_written_elsewhere(tmp):
    precious = write(os.path.join(tmp, "precious"), b"precious\n")
    there = os.path.join(tmp, "there")
    os.mkdir(there)
    for name, target in (("link.json", precious), ("dangling.json", os.path.join(tmp, "new"))):
        os.symlink(target, os.path.join(there, name))
        refused(2, "no regular file", *TINY, "--out", os.path.join(there, name))
        assert os.readlink(os.path.join(there, name)) == target
    # The name that the file had while it was written, once.
    os.symlink(precious, os.path.join(there, "out.json.part"))
    works(*TINY, "--out", os.path.join(there, "out.json"))
    with open(precious, "rb") as f:
        assert f.read() == b"precious\n"
    assert sorted(os.listdir(tmp)) == ["precious", "there"], os.listdir(tmp)


@test
def a_signal_that_is_ignored_stays_ignored(tmp):
    """As nohup, and a script's job in the background, have it."""
    for ignored in (signal.SIGHUP, signal.SIGINT):
        p = subprocess.Popen([*LONG], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             preexec_fn=lambda sig=ignored: signal.signal(sig, signal.SIG_IGN))
        try:
            def mask(what):
                with open(f"/proc/{p.pid}/status", encoding="ascii") as f:
                    return next(int(line.split()[1], 16) for line in f if line.startswith(what))

            end = time.monotonic() + LIMIT_S
            while not mask("SigCgt:") >> (signal.SIGTERM - 1) & 1:
                assert p.poll() is None and time.monotonic() < end
            assert mask("SigIgn:") >> (ignored - 1) & 1, ignored
            p.send_signal(ignored)
            assert p.poll() is None
            p.send_signal(signal.SIGTERM)
            assert p.wait(LIMIT_S) == 128 + signal.SIGTERM
        finally:
            p.kill()
            p.wait()


@test
def a_full_standard_output_is_a_failure(tmp):
    if not os.path.exists("/dev/full"):
        raise tap.Skip("there is no /dev/full")
    with open("/dev/full", "wb") as full:
        p = subprocess.run([EBB, "classes"], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                           timeout=LIMIT_S)
    assert p.returncode == 1 and p.stderr.startswith("ebb: ") and p.stderr.count("\n") == 1, said_full(p)


def said_full(p):
    return f"exit {p.returncode}, stderr {p.stderr!r}"


@test
def an_interrupted_bench_stops_with_130_and_leaves_nothing(tmp):
    out = os.path.join(tmp, "release.json")
    try:
        master, slave = pty.openpty()   # progress is for terminals: it tells that the bench runs
    except OSError as why:
        raise tap.Skip(f"no terminal can be had: {why}") from None
    p = subprocess.Popen([BENCH, "release", "--size", "32M", "--threads", "2", "--rounds",
                          "1000", "--data", "mix", "--out", out], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    try:
        assert select.select([master], [], [], LIMIT_S)[0], "no progress is shown"
        assert os.read(master, 1000)
        assert p.poll() is None
        p.send_signal(signal.SIGINT)
        end = time.monotonic() + LIMIT_S
        while p.poll() is None and time.monotonic() < end:
            # A terminal that nobody reads would stop the writer.
            if select.select([master], [], [], 0.05)[0]:
                try:
                    os.read(master, 1000)
                except OSError:
                    pass
        assert p.poll() == 130, p.poll()
        assert not os.path.exists(out)
    finally:
        if p.poll() is None:
            p.kill()
        p.stdout.close()
        p.wait()
        os.close(master)


if __name__ == "__main__":
    sys.exit(tap.run(test, sys.argv[2:]))
