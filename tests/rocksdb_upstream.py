# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""RocksDB's own test of a compressed cache, with the plugin's in it: a case of test_rocksdb.py.

compressed_secondary_cache_test.cc is in Debian's source package alone, which is fetched.  It is
compiled against the installed librocksdb, with EDITS made to its text.  tests/rocksdb/
upstream_cache.cc makes the caches, and upstream_skips.txt lists the cases that do not apply.
"""
import os
import re
import subprocess
import tarfile

import tap

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
CACHE = os.path.join(ROOT, "tests/rocksdb/upstream_cache.cc")
SKIPS = os.path.join(ROOT, "tests/rocksdb/upstream_skips.txt")
VERSION = "7.8.3"       # whose test was looked at
TEST = "cache/compressed_secondary_cache_test.cc"
HARNESS = "test_util/testharness.cc"
GTEST = "third-party/gtest-1.8.1/fused-src"
# Pattern, what comes in its place, and how often: a text that is not as it was is an error.
EDITS = [
    # What RocksDB's own cache counts of itself in PerfContext.
    (r"ASSERT_EQ\(get_perf_context\(\)->compressed_sec_cache_\w+,[^;]*;", ";", 35),
    # The text that a cache is made from.
    (r'"compressed_secondary_cache://"(\s*"[^"]*")+', '"ebb://capacity=8M"', 6),
    # A capacity to grow to.
    (r"\b7000\b", "(size_t{8} << 20)", 2),
]


def text_of(command):
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       check=False)
    return p.returncode, p.stdout.strip(), p.stderr.strip()


def sources(work):
    """Unpacks what is needed of the source of the librocksdb that is installed."""
    try:
        rc, installed, _ = text_of(["dpkg-query", "-W", "-f", "${source:Version}",
                                    "librocksdb-dev"])
    except OSError:
        rc, installed = 1, ""
    if rc or installed.split("-")[0] != VERSION:
        raise tap.Skip(f"RocksDB's test was looked at in {VERSION}, and librocksdb-dev here is "
                       f"{installed or 'not of a package'}")
    suite = text_of(["sh", "-c", '. /etc/os-release && echo "$VERSION_CODENAME"'])[1]
    rc, files, why = text_of([os.path.join(ROOT, "tests/vm/debs"), suite, "source", "rocksdb"])
    if rc:
        raise tap.Skip("RocksDB's source package cannot be fetched: " + why)
    files = files.splitlines()
    if not any(os.path.basename(f) == f"rocksdb_{installed}.dsc" for f in files):
        raise tap.Skip(f"the source that can be fetched is not that of {installed}")
    with tarfile.open(next(f for f in files if ".orig.tar." in f)) as tar:
        for member in tar:
            member.name = member.name.partition("/")[2]
            if member.isfile() and (member.name.endswith(".h") or member.name in (TEST, HARNESS)
                                    or member.name.startswith(GTEST)):
                tar.extract(member, work)


def edited(work):
    path = os.path.join(work, TEST)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for pattern, new, times in EDITS:
        text, found = re.subn(pattern, new, text)
        assert found == times, f"{TEST}: {pattern} is there {found} times, not {times}"
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def built(work, build, run):
    """
    The program, for a build of the plugin.  Debian's librocksdb is compiled without NDEBUG, on
    which the size of RocksDB's mutexes depends: a program with it would write past the end of their
    owners.  testutil.cc is in that library, so a second copy in the program would end its objects
    twice.
    """
    objects = []
    for number, (name, *more) in enumerate((
            (os.path.join(work, TEST), "-DNewCompressedSecondaryCache=NewEbbUnderTest"),
            (os.path.join(work, HARNESS),),
            (os.path.join(work, GTEST, "gtest/gtest-all.cc"),),
            (CACHE,))):
        objects.append(os.path.join(work, f"{number}.o"))
        run(["c++", "-std=c++17", "-O0", "-g0", "-w", "-DROCKSDB_PLATFORM_POSIX",
             "-DROCKSDB_LIB_IO_POSIX", "-DOS_LINUX", "-DLZ4", "-DZSTD", "-DSNAPPY", *more,
             "-I", work, "-I", os.path.join(work, "include"), "-I", os.path.join(work, GTEST),
             "-I", os.path.join(ROOT, "user", "api"), "-c", "-o", objects[-1], name], 0)
    program = os.path.join(work, "compressed_secondary_cache_test")
    run(["c++", "-o", program, *objects, "-L", build, f"-Wl,-rpath,{build}", "-lrocksdb_ebb",
         "-lebb", "-lrocksdb", "-pthread"], 0)
    return program


def skips():
    with open(SKIPS, encoding="utf-8") as f:
        return dict(line.strip().split(": ", 1) for line in f
                    if line.strip() and not line.startswith("#"))


def name_of(case):
    """SUITES/SUITE.NAME/NUMBER -> NAME"""
    return case.partition(".")[2].partition("/")[0]


def listed(out):
    """All cases that the program lists, as SUITES/SUITE.NAME/NUMBER."""
    found, suite = [], ""
    for line in out.splitlines():
        word = line.split("#")[0].strip()
        if line.startswith("  "):
            found.append(suite + word)
        else:
            suite = word
    return found


def check(work, build, run):
    """run(argv, rc): a program's output; another exit status than rc is an AssertionError."""
    sources(work)
    edited(work)
    program = built(work, build, run)
    every, not_ours = listed(run([program, "--gtest_list_tests"], 0)), skips()
    unknown = not_ours.keys() - {name_of(c) for c in every}
    assert not unknown, f"{SKIPS} has what is no case: {', '.join(sorted(unknown))}"
    ours = {c for c in every if name_of(c) not in not_ours}
    # Exit status 0: they pass, and the program then ends as it should.
    out = run([program, "--gtest_filter=" + ":".join(sorted(ours))], 0)
    passed = set(re.findall(r"^\[ +OK \] (\S+)", out, re.M))
    assert passed == ours, f"not run: {' '.join(sorted(ours - passed))}"
