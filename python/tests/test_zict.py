# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Store as a mapping of zict: zict's own tests of mappings, and a Buffer with Store behind it."""
import pickle

import pytest

import pyebb

zict = pytest.importorskip("zict")
checks = pytest.importorskip("zict.tests.utils_test")


@pytest.fixture(params=["memory", "spill"])
def store(request, tmp_path):
    spill = {"capacity": "1 MiB", "spill": tmp_path} if request.param == "spill" else {}
    with pyebb.Store(**spill) as s:
        yield s


@pytest.mark.parametrize("check", [
    checks.check_mapping, checks.check_different_keys_threadsafe, checks.check_same_key_threadsafe,
    checks.check_bad_key_types, checks.check_bad_value_types, checks.check_closing],
    ids=lambda c: c.__name__)
def test_zicts_own_checks_pass(store, check):
    check(store)


def test_it_is_the_slow_half_of_a_buffer(store):
    fast = {}
    buffer = zict.Buffer(fast, zict.Func(pickle.dumps, pickle.loads, store), n=3)
    for i in range(20):
        buffer[f"k{i}"] = {"value": [i] * 1000}
    assert len(fast) == 3 and len(store) == 17
    assert all(buffer[f"k{i}"] == {"value": [i] * 1000} for i in range(20))
    del buffer["k0"]
    assert len(buffer) == 19
