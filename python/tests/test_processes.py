# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Stores and caches in children, by fork and by spawn, and in processes with limits."""
import ctypes
import mmap
import os

import pytest

import pyebb
from support import MIB, child_of_fork, mixed, noise


def test_in_a_forked_child_a_store_of_the_parent_is_a_runtime_error(store):
    store["k"] = mixed(100_000)
    for call in (lambda: store["k"], lambda: store.update(k=b""), lambda: len(store),
                 lambda: list(store), store.trim):
        error = child_of_fork(call)
        assert isinstance(error, RuntimeError) and "before a fork" in str(error)
    assert "another process" in child_of_fork(lambda: repr(store))
    assert child_of_fork(store.close) is None
    assert store["k"] == mixed(100_000)


def fork_of_c():
    """One that the interpreter does not see."""
    return ctypes.PyDLL(None).fork()


def fork_of_nobody():
    """One that the C library does not see, either."""
    return ctypes.PyDLL(None).syscall(57)


@pytest.mark.parametrize("fork", [
    fork_of_c, pytest.param(fork_of_nobody, marks=pytest.mark.skipif(
        os.uname().machine != "x86_64", reason="the number of fork(2) is another"))])
def test_a_fork_that_the_interpreter_does_not_see_is_one(store, tmp_path, fork):
    store["a"] = b"x" * 100
    with pyebb.Cache("8 MiB") as cache:
        cache["a"] = b"z"
        calls = [lambda: len(store), lambda: store.nbytes, lambda: store["a"], lambda: "a" in store,
                 lambda: list(store), store.stats, lambda: len(cache), lambda: cache.get("a"),
                 lambda: "a" in cache, lambda: store.__setitem__("b", b"1"), cache.stats,
                 lambda: cache.put("b", b"1"), store.trim, store.check, store.flush, cache.flush,
                 cache.clear, cache.check, lambda: setattr(store, "capacity", "1 MiB"),
                 lambda: setattr(cache, "maxsize", "9 MiB"), lambda: store.read("a"),
                 lambda: store.read_packed("a"), lambda: store.pop("a"), lambda: cache.pop("a"),
                 lambda: store.packed_size_of("a"), lambda: store.size_of("a")]
        for i, call in enumerate(calls):
            error = child_of_fork(call, fork)
            assert isinstance(error, RuntimeError) and "before a fork" in str(error), (i, error)
    if fork is fork_of_c:
        # The child's end leaves the parent's file alone.
        with pyebb.Store(capacity="1 MiB", spill=tmp_path) as s:
            s["k"] = noise(MIB)
            child_of_fork(s.close, fork)
            assert s["k"] == noise(MIB)


@pytest.mark.long
def test_a_process_with_too_many_mappings_is_told_so():
    def child():
        kept = [pyebb.Store()]      # what a first one loads is loaded
        libc, page = ctypes.CDLL(None), mmap.PAGESIZE
        libc.mmap.restype = ctypes.c_void_p
        with open("/proc/sys/vm/max_map_count") as f:
            most = int(f.read())
        at = libc.mmap(None, ctypes.c_size_t(2 * most * page), 0, 0x4022, -1, 0)
        for i in range(0, most - 100):      # each splits one mapping into three
            if libc.mprotect(ctypes.c_void_p(at + 2 * i * page), page, 1):
                break
        try:
            for _ in range(1000):
                kept.append(pyebb.Store())
        except MemoryError as e:
            return str(e)

    assert "no memory for a Store: the process has " in child_of_fork(child)


def test_a_forked_child_opens_stores_of_its_own(store):
    store["k"] = b"parent"

    def child():
        with pyebb.Store() as mine:
            mine["k"] = mixed(100_000)
            mine.check()
            return mine["k"]

    assert child_of_fork(child) == mixed(100_000)
    assert store["k"] == b"parent"


def in_another_process(n):
    with pyebb.Store() as s:
        s[n] = mixed(1000 * n)
        return s[n]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing_have_stores_of_their_own(store, method):
    import multiprocessing
    store["k"] = b"parent"
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(in_another_process, range(5)) == [mixed(1000 * n) for n in range(5)]
        pool.close()
        pool.join()
    assert store["k"] == b"parent"
