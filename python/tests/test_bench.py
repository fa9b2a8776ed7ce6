# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What bench/dask_spill.py need not run again, and what it makes of its samples."""
import importlib.util
import pathlib

import pytest

PATH = pathlib.Path(__file__).resolve().parent.parent / "bench" / "dask_spill.py"
SPEC = importlib.util.spec_from_file_location("dask_spill", PATH)
KEY = {"variant": "ebb", "workload": "fields", "data_over_limit": 2.0, "limit": 1 << 30, "run": 0}


@pytest.fixture
def bench():
    module = importlib.util.module_from_spec(SPEC)
    SPEC.loader.exec_module(module)
    return module


@pytest.mark.parametrize("row, there", [
    ({"disk": "250 MB/s"}, {250_000_000}),
    ({"disk": "machine's"}, {0}),
    ({"disk": "250 MB/s", "disk_asked": 250_000_000}, {250_000_000}),
    ({"disk": "machine's", "disk_asked": 0}, {0}),
    # The machine refused the disk: it would do so again.
    ({"disk": "machine's", "disk_asked": 250_000_000}, {0, 250_000_000}),
    ({"disk": "250 MB/s", "codec": "zstd"}, set()),
    ({"disk": "250 MB/s", "run": 1}, set()),
])
def test_a_row_is_there_if_it_is_of_the_same_disk(bench, row, there):
    rows = [{**KEY, "codec": "lz4", **row}]
    assert {rate for rate in (0, 100_000_000, 250_000_000)
            if bench.is_there(rows, KEY, "lz4", rate)} == there


def sample(bench, run, seconds, **more):
    measures = dict.fromkeys(bench.MEASURES, 1) | {"seconds": seconds}
    return {**KEY, "run": run, "disk": "250 MB/s", "codec": "lz4", "restarts": 0,
            "checksum_ok": True, **measures, **more}


def test_a_row_is_the_median_of_what_came_to_its_end(bench, tmp_path):
    path = str(tmp_path / "dask.json")
    for run, seconds in enumerate((5, 9, 7)):
        bench.save(path, sample(bench, run, seconds))
    bench.save(path, sample(bench, 3, 900, error="killed", checksum_ok=False, restarts=2))
    row, = bench.rows_of(bench.load(path))
    assert (row["seconds"], row["seconds_range"]) == (7, [5, 9])
    assert (row["runs"], row["ended"], row["restarts"]) == (4, 3, 2)
    assert row["checksum_ok"] and "run" not in row


def test_a_wrong_sum_and_a_row_that_never_ended_are_told(bench):
    wrong = bench.rows_of([sample(bench, 0, 5), sample(bench, 1, 5, checksum_ok=False)])
    assert not wrong[0]["checksum_ok"]
    never = bench.rows_of([sample(bench, 0, 5, error="killed", checksum_ok=False)])
    assert (never[0]["ended"], never[0]["seconds"]) == (0, None)
