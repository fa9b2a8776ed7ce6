# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Which rows bench/dask_spill.py need not run again."""
import importlib.util
import pathlib

import pytest

PATH = pathlib.Path(__file__).resolve().parent.parent / "bench" / "dask_spill.py"
SPEC = importlib.util.spec_from_file_location("dask_spill", PATH)
KEY = {"variant": "ebb", "workload": "fields", "data_over_limit": 2.0, "limit": 1 << 30, "run": 0}


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
def test_a_row_is_there_if_it_is_of_the_same_disk(row, there):
    bench = importlib.util.module_from_spec(SPEC)
    SPEC.loader.exec_module(bench)
    rows = [{**KEY, "codec": "lz4", **row}]
    assert {rate for rate in (0, 100_000_000, 250_000_000)
            if bench.is_there(rows, KEY, "lz4", rate)} == there
