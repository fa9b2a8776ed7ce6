#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_dask.py - pyebb's Dask workers: its tests on clusters, and distributed's own; prints TAP.

The virtual environment is build/python/dask, with the versions of python/lock/.  --environment:
makes it, with the wheel, and tests nothing.
"""
import os
import sys

sys.dont_write_bytecode = True
import tap
import test_python
from test_python import ROOT, VENV, pytest_cases, run, tool  # noqa: F401

test_python.VENV = VENV = os.path.join(ROOT, "build", "python", "dask")
PYTHON = os.path.join(VENV, "bin", "python")
LOCKS = ["check.txt", "full.txt", "dask.txt"]


def distributed_s_own_tests():
    """Of spilling and of the worker's memory, with Ebb's buffer; see python/tests/upstream."""
    out = run([PYTHON, "python/tests/upstream/run"], rc=None, timeout=1800)
    if "upstream: skipped" in out:
        raise tap.Skip(out.strip().splitlines()[-1])
    assert out.count(" passed") == 2 and " failed" not in out, out[-4000:]


def the_bench_makes_rows():
    json = os.path.join(ROOT, "build", "python", "dask-smoke.json")
    out = run([PYTHON, "python/bench/dask_spill.py", "--smoke", "--json", json], timeout=1800)
    assert "FAILED" not in out and "WRONG" not in out, out
    run([PYTHON, "python/bench/dask_spill.py", "--json", json, "--plot",
         os.path.join(ROOT, "build", "python", "plots")])


def main():
    try:
        if sys.version_info < test_python.OLDEST:
            raise tap.Skip(f"Python {sys.version_info[0]}.{sys.version_info[1]} is older than 3.11")
        test_python.environment(VENV, LOCKS)
        test_python.the_wheel_is_one_for_all_interpreters_and_has_no_lzo()
    except tap.Skip as why:
        print(why)
        return 77
    if sys.argv[1:] == ["--environment"]:
        return 0
    cases = pytest_cases("", PYTHON, ["-p", "no:asyncio", "python/tests/test_dask.py",
                                      "python/tests/test_dask_cluster.py"], 3600)
    return tap.run([*cases, distributed_s_own_tests, the_bench_makes_rows])


if __name__ == "__main__":
    sys.exit(main())
