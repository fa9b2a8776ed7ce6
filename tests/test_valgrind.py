#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_valgrind.py [--full] BUILD - test programs under valgrind's memcheck; prints TAP.

What AddressSanitizer does not see: a decision, or bytes that go to the system, that nobody wrote.
The library is as it is shipped, and tests take a hundredth of their steps. Cases that compare what
the process has in memory are left out: it is valgrind's memory, too.
"""
import argparse
import functools
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import tap

LIMIT_S = 600
# Programs, and which of their cases: seconds each.
SMALL = [("test_units", "*"), ("test_values", "*"), ("test_cache_index", "*"),
         ("test_cache", "a_*"), ("test_cache", "an_*"), ("test_cache", "two_*"), ("test_spill", "what_is_*")]
FULL = SMALL + [("test_cache", "sizes_*"), ("test_cache", "threads_*"),
                ("test_cache", "memory_that_*"), ("test_cache", "the_first_*"), ("test_spill", "a_d*"), ("test_spill", "a_l*"),
                ("test_spill", "a_se*"), ("test_spill", "an_or*"), ("test_spill", "threads_*")]


@functools.cache
def cannot_run():
    """Why valgrind does not run any program here, or None."""
    if not shutil.which("valgrind"):
        return "no valgrind here"
    p = subprocess.run(["valgrind", "-q", "true"], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                       errors="replace", timeout=LIMIT_S, check=False)
    if "Fatal error at startup" in p.stdout:
        return "valgrind lacks symbols of the C library, which Debian has in libc6-dbg"
    return None


def holds(build, program, cases):
    """No error, nothing lost, and the cases pass."""
    why = cannot_run()
    if why:
        raise tap.Skip(why + "; `make deps` as root installs what it needs")
    exe = os.path.join(build, program)
    if not os.path.exists(exe):
        raise tap.Skip(f"no {exe}; `scripts/check gcc` builds it")
    env = dict(os.environ, EBB_TEST_SCALE="1", EBB_TEST_CASE=cases, CMOCKA_MESSAGE_OUTPUT="TAP")
    p = subprocess.run(["valgrind", "-q", "--error-exitcode=9", "--leak-check=full",
                        "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite", exe],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, errors="replace", timeout=LIMIT_S, check=False, env=env)
    n = len(re.findall(r"^ok \d+", p.stdout, re.M))
    assert p.returncode == 0, f"exit {p.returncode}: {p.stdout[-3000:]}"
    assert n and "==" not in p.stdout, f"{n} cases: {p.stdout[-3000:]}"


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--full", action="store_true")
    ap.add_argument("build")
    args = ap.parse_args()
    return tap.run([(f"valgrind finds nothing in {program}, {cases}",
                     lambda program=program, cases=cases: holds(args.build, program, cases))
                    for program, cases in (FULL if args.full else SMALL)])


if __name__ == "__main__":
    sys.exit(main())
