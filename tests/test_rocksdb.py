#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_rocksdb.py BUILD [--full] - the plugin of RocksDB in databases and in db_bench; prints TAP.

tests/rocksdb/ has the programs; what needs no database is a test of the build itself.  --full: the
same with the newest RocksDB that Debian has, in a folder, and more steps.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import rocksdb_upstream
import tap

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
BUILD = os.path.realpath(sys.argv[1])
FULL = "--full" in sys.argv
PLUGIN = os.path.join(BUILD, "librocksdb_ebb.so")
# The suite whose RocksDB is the newest.
NEWEST = "sid"
KEYS = 30000

CASES = []


def case(fn):
    def run_it():
        if not os.path.exists(PLUGIN):
            raise tap.Skip("the plugin was not built: no librocksdb-dev or no g++ here; "
                           "`scripts/deps check` installs them, as root")
        with tempfile.TemporaryDirectory(prefix="ebb-rocksdb-") as work:
            fn(work)
    CASES.append((fn.__name__, run_it))
    return fn


def full(fn):
    return case(fn) if FULL else fn


def sanitized():
    with open(PLUGIN, "rb") as f:
        return b"libasan.so" in f.read()


def run(argv, rc=0, **env):
    p = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, errors="replace", timeout=600,
                       env={**os.environ, **env}, check=False)
    assert rc is None or p.returncode == rc, \
        f"{' '.join(argv)}: exit {p.returncode}, not {rc}: {p.stdout[-1500:]}"
    return p.stdout


def passes(argv, **env):
    """A program that prints TAP, and has nothing against what it saw."""
    out = run(argv, None, **env)
    bad = [line for line in out.splitlines() if line.startswith(("not ok", "#"))]
    assert not bad and re.search(r"^ok ", out, re.M), "\n".join(bad) or out[-1500:]


class Bench:
    """db_bench, with a database of its own; before: the words that start it."""

    def __init__(self, work, plugin=PLUGIN, before=("db_bench",), preload=True):
        self.plugin, self.before, self.preload = plugin, list(before), preload
        self.options = [f"--db={work}/db", f"--num={KEYS}", "--value_size=400",
                        "--cache_size=1048576", "--cache_numshardbits=2",
                        "--compression_type=none", "--statistics"]
        self.db_bench("--benchmarks=fillseq,compact")

    def db_bench(self, *options, rc=0):
        words = [*self.before, *self.options, *options]
        return run(words, rc, LD_PRELOAD=self.plugin if self.preload else "")

    def read(self, uri, rc=0):
        return self.db_bench("--use_existing_db=1", "--benchmarks=readrandom",
                             f"--reads={KEYS * 2}", f"--secondary_cache_uri={uri}", rc=rc)


def db_bench(work):
    if not shutil.which("db_bench"):
        raise tap.Skip("no db_bench here (Debian: rocksdb-tools)")
    if sanitized():
        raise tap.Skip("db_bench is not for a sanitizer's library")
    return Bench(work)


def reads_hit(bench):
    out = bench.read("ebb://capacity=8M;codec=zstd")
    hits = int(re.search(r"rocksdb.secondary.cache.hits COUNT : (\d+)", out).group(1))
    assert hits > KEYS / 2, f"{hits} hits"
    assert f"({KEYS * 2} of {KEYS * 2} found)" in out, out[-500:]


@case
def a_database_with_it_answers_as_one_without(work):
    passes([os.path.join(BUILD, "test_rocksdb_db"), work], EBB_TEST_SCALE="1000" if FULL else "100")


@case
def db_bench_of_debian_loads_it(work):
    reads_hit(db_bench(work))


@case
def db_bench_tells_what_a_uri_has_that_is_not_known(work):
    bench = db_bench(work)
    for uri, said in (("ebb://capacity=8M;codec=brotli",
                       "codec=brotli: there is no such codec; there are lz4"),
                      ("ebb://cap=8M", "cap=8M: there is no such option; there are capacity")):
        out = bench.read(uri, rc=1)
        assert said in out, out[-500:]


def newest(work):
    """A RocksDB that is newer than the machine's: its folder of libraries, and its version."""
    debs = [os.path.join(ROOT, "tests/vm/debs"), NEWEST]
    p = subprocess.run([*debs, "closure", "librocksdb-dev", "rocksdb-tools"],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if p.returncode:
        raise tap.Skip("there is no newer RocksDB: " + p.stderr.strip())
    names = [n for n in p.stdout.split() if n != "linux-libc-dev"]
    p = subprocess.run([*debs, "unpack", work, *names], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, check=False)
    if p.returncode:
        raise tap.Skip("there is no newer RocksDB: " + p.stderr.strip())
    include = os.path.join(work, "only")
    os.mkdir(include)
    os.symlink(os.path.join(work, "usr/include/rocksdb"), os.path.join(include, "rocksdb"))
    libs = os.path.join(work, "usr/lib", os.uname().machine + "-linux-gnu")
    return include, libs, os.path.realpath(os.path.join(libs, "librocksdb.so"))


@full
def with_the_newest_rocksdb_of_debian_it_does_the_same(work):
    """Compiled with this machine's compiler, and run with the libraries of that Debian."""
    if sanitized():
        raise tap.Skip("it is built anew here, without a sanitizer")
    include, libs, rocksdb = newest(work)
    cxx = ["c++", "-std=c++17", "-O1", "-g", "-fno-rtti", "-Wall", "-Wextra", "-Werror",
           "-Wno-unused-parameter", "-I", include, "-I", os.path.join(ROOT, "user", "api")]
    ebb = ["-L", BUILD, "-lebb", "-pthread", "-Wl,--allow-shlib-undefined"]
    room, plugin = os.path.join(ROOT, "plugins/rocksdb"), os.path.join(work, "librocksdb_ebb.so")
    run([*cxx, "-shared", "-fPIC", "-fvisibility=hidden", "-o", plugin,
         *(os.path.join(room, n) for n in sorted(os.listdir(room)) if n.endswith(".cc")),
         rocksdb, *ebb])
    loader = [os.path.join(work, "usr/lib64/ld-linux-x86-64.so.2"), "--library-path",
              f"{libs}:{work}:{BUILD}"]
    if not os.path.exists(loader[0]):
        raise tap.Skip(f"no loader of {NEWEST} for this machine")
    for name in ("test_rocksdb", "test_rocksdb_db"):
        program = os.path.join(work, name)
        run([*cxx, "-o", program, os.path.join(ROOT, "tests/rocksdb", name + ".cc"), plugin,
             rocksdb, *ebb])
        passes([*loader, program, work])
    loader += ["--preload", plugin]
    reads_hit(Bench(work, before=[*loader, os.path.join(work, "usr/bin/db_bench")], preload=False))


@full
def rocksdbs_own_test_of_a_compressed_cache_passes(work):
    if sanitized():
        raise tap.Skip("its program is not for a sanitizer's library")
    rocksdb_upstream.check(work, BUILD, run)


if __name__ == "__main__":
    sys.exit(tap.run(CASES))
