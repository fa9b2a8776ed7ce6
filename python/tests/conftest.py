# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Doses of the randomised tests: EBB_TEST_SCALE percent of their steps, as everywhere in Ebb; and a
store for each test that names one.
"""
import importlib.util
import os

import pytest
from hypothesis import HealthCheck, settings

import pyebb

SCALE = int(os.environ.get("EBB_TEST_SCALE", "25"))

settings.register_profile("ebb", max_examples=max(5, SCALE), deadline=None, derandomize=False,
                          print_blob=True, database=None,
                          stateful_step_count=30,
                          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.load_profile("ebb")

# Their own environment, and their own stage (tests/test_dask.py), says when they are skipped.
collect_ignore = [] if importlib.util.find_spec("distributed") else [
    "test_dask.py", "test_dask_cluster.py", "test_dask_hosts.py"]


@pytest.fixture
def store():
    with pyebb.Store() as s:
        yield s
        if not s.closed:
            s.check()
