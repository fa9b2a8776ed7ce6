#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_dask.py [PART...] - pyebb's Dask workers: its tests on clusters, distributed's own of
spilling, and dask's own of arrays; prints TAP.

PART: buffer, cluster, hosts, distributed, arrays or bench; without one, all of them.
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


def dask_s_own_array_tests():
    """Of rechunking and overlaps, computed by workers that keep each value in Ebb or in a file."""
    out = run([PYTHON, "python/tests/upstream/run", "--arrays"], timeout=3600)
    assert "values went to Ebb" in out, out[-4000:]


def the_bench_makes_rows():
    json = os.path.join(ROOT, "build", "python", "dask-smoke.json")
    out = run([PYTHON, "python/bench/dask_spill.py", "--smoke", "--json", json], timeout=1800)
    assert "WRONG" not in out and " ended, " not in out, out
    run([PYTHON, "python/bench/dask_spill.py", "--json", json, "--plot",
         os.path.join(ROOT, "build", "python", "plots")])


PYTESTS = {"buffer": "test_dask.py", "cluster": "test_dask_cluster.py",
           "hosts": "test_dask_hosts.py"}
OTHERS = {"distributed": distributed_s_own_tests, "arrays": dask_s_own_array_tests,
          "bench": the_bench_makes_rows}


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
    parts = sys.argv[1:] or [*PYTESTS, *OTHERS]
    unknown = [part for part in parts if part not in PYTESTS and part not in OTHERS]
    if unknown:
        sys.exit(f"test_dask.py: {unknown[0]}: expected one of {', '.join([*PYTESTS, *OTHERS])}")
    files = ["python/tests/" + PYTESTS[part] for part in parts if part in PYTESTS]
    cases = pytest_cases("", PYTHON, ["-p", "no:asyncio", *files], 3600) if files else []
    return tap.run([*cases, *[OTHERS[part] for part in parts if part in OTHERS]])


if __name__ == "__main__":
    sys.exit(main())
