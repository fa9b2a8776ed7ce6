# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Cache and the decorator cache()."""
import os
import pickle
import random
import sys
import threading

import pytest

import pyebb
from support import MIB, child_of_fork, mixed, noise, run_threads

SIZE = 50_000
SLACK = 6 * 16 * MIB // 100       # what libebb allows itself


@pytest.fixture
def cache():
    with pyebb.Cache("16 MiB") as c:
        yield c
        if not c.closed:
            c.check()


@pytest.mark.parametrize("n", [0, 1, 2047, 2048, 2049, 70_000, 2 * MIB])
@pytest.mark.parametrize("key", ["a", "ä", b"a", b"", 0, 5, -5, 2**64, 2**70])
def test_a_value_comes_back_as_it_was_put(cache, key, n):
    cache[key] = mixed(n)
    assert cache[key] == cache.get(key) == mixed(n)
    assert key in cache
    cache[key] = b"new"
    assert cache.pop(key) == b"new"
    assert key not in cache
    assert cache.get(key) is None
    with pytest.raises(KeyError):
        cache[key]
    with pytest.raises(KeyError):
        cache.pop(key)
    with pytest.raises(KeyError):
        del cache[key]
    assert cache.pop(key, 5) == 5


def test_keys_of_different_types_are_different_keys(cache):
    keys = ["5", b"5", 5, -5, "-5", 2**64 + 5]
    for i, key in enumerate(keys):
        cache[key] = bytes([i])
    assert [cache[k] for k in keys] == [bytes([i]) for i in range(6)]
    assert len(cache) == 6


def test_it_takes_no_more_than_its_capacity_and_evicts(cache):
    for i in range(1000):
        cache[i] = noise(SIZE, i)
        assert cache.currsize <= cache.maxsize + SLACK and cache.maxsize == 16 * MIB
    assert 150 < len(cache) < 330
    s = cache.stats()
    assert s["evicted"] == 1000 - s["values"]
    there = [i for i in range(1000) if cache.get(i) is not None]
    assert len(there) == len(cache)
    assert all(cache[i] == noise(SIZE, i) for i in there)
    cache.maxsize = "8 MiB"
    assert cache.currsize <= 8 * MIB + SLACK and len(cache) < 165


def test_what_is_evicted_goes_to_the_spill_and_comes_back(tmp_path):
    with pyebb.Cache("8 MiB", spill=tmp_path / "spill", spill_capacity="64 MiB") as c:
        for i in range(200):
            c[i] = noise(SIZE, i)
            c.flush()           # too many at once are dropped
        found = 0
        for i in range(200):
            found += c.get(i) == noise(SIZE, i)
            c.flush()           # it came back, and another went
        s = c.stats()
        assert found > 150 and s["spill_hits"] > 100, s
        c.clear()
        assert all(c.get(i) is None for i in range(200))
        c[0] = b"new"
        assert c[0] == b"new"


@pytest.mark.parametrize("look", [iter, list, dict, set, reversed])
def test_it_cannot_be_iterated(cache, look):
    cache[0], cache[1], cache["k"] = b"zero", b"one", b"text"
    with pytest.raises(TypeError, match="not iterable|not reversible"):
        look(cache)


def test_in_counts_as_neither_a_hit_nor_a_miss(cache):
    cache["a"], cache["empty"] = b"x", b""
    assert "a" in cache and "empty" in cache and "b" not in cache
    s = cache.stats()
    assert (s["hits"], s["misses"]) == (0, 0)
    cache.get("a"), cache.get("empty"), cache.get("b")
    s = cache.stats()
    assert (s["hits"], s["misses"]) == (2, 1)


@pytest.mark.parametrize("sizes", [[100, 70_000, 100, 3000, 3001, 2 * MIB, 2999, 0, 70_000]])
def test_values_of_all_sizes_come_back_in_any_order(cache, sizes):
    for i, n in enumerate(sizes):
        cache[i] = mixed(n, i)
    for _ in range(2):
        for i, n in enumerate(sizes):
            assert cache[i] == cache._get_writable(i) == mixed(n, i)


def test_clear_leaves_a_cache_that_works(cache):
    for _ in range(3):
        for i in range(10):
            cache[i] = b"x" * 1000
        assert len(cache) == 10
        cache.clear()
        assert len(cache) == 0 and cache.maxsize == 16 * MIB and 0 not in cache


def test_puts_beside_clears_find_room_and_the_capacity_stays(cache):
    was = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    large = noise(500_000)

    def put(seed):
        for i in range(300):
            cache[f"{seed} {i}"] = large
            assert cache.maxsize == 16 * MIB

    def clear():
        for _ in range(150):
            cache.clear()

    try:
        run_threads(lambda: put(1), lambda: put(2), clear, clear)
    finally:
        sys.setswitchinterval(was)
    evicted = cache.stats()["evicted"]
    cache["k"] = large
    found = cache.get("k")
    # The cache may still be making room in the background.
    assert found == large or found is None and cache.stats()["evicted"] > evicted
    assert cache.maxsize == 16 * MIB


def test_second_miss_notes_a_key_first():
    with pyebb.Cache("8 MiB", second_miss=True) as c:
        c["a"] = b"1"
        assert c.get("a") is None
        c["a"] = b"2"
        assert c["a"] == b"2"
        assert c.put("b", b"3") and c["b"] == b"3"


def test_a_value_that_does_not_fit_is_a_value_error(cache):
    with pytest.raises(ValueError, match="value too large: 20000000 bytes in a cache of 16777216"):
        cache["k"] = noise(20_000_000)
    assert cache.put("k", noise(20_000_000)) is False
    assert "k" not in cache
    with pytest.raises(ValueError, match="of at most 67108864 bytes, and of 4194304 compressed"):
        cache["k"] = bytes(64 * MIB + 1)
    cache["k"] = bytes(64 * MIB)
    assert cache.pop("k") == bytes(64 * MIB)


@pytest.mark.parametrize("large", [noise(5 * MIB), bytes(64 * MIB + 1)], ids=["noise", "zeros"])
def test_after_a_put_that_failed_the_key_has_no_value(cache, large):
    """Nobody gets what was to be replaced."""
    cache["k"] = b"old"
    with pytest.raises(ValueError, match="value too large"):
        cache["k"] = large
    assert cache.get("k") is None
    cache["k"] = b"old"
    assert cache.put("k", large) is False
    assert cache.get("k") is None


def test_whatever_is_bytes_like_is_a_value_and_integers_of_numpy_are_keys(cache):
    np = pytest.importorskip("numpy")
    dates = np.arange(2000).view("M8[s]")
    for some in (dates, dates[::3]):
        cache[np.int64(3)] = some
        assert cache[3] == cache.setdefault("new", some) == some.tobytes()
        del cache["new"]
    with pytest.raises(ValueError, match="value too large: 24000000 bytes"):
        cache[0] = np.frombuffer(noise(24_000_000), "M8[s]")
    assert np.int8(3) in cache and np.float64(3) not in cache


def fill_spill(c, size):
    for i in range(200 * SIZE // size):
        c[i] = noise(size, i)
        if not i % (SIZE // size):
            c.flush()       # too many at once are dropped
    c.flush()
    assert c.stats()["spill_values"] > 50


def bytes_read():
    with open("/proc/self/io", encoding="ascii") as f:
        return int(f.readline().split()[1])


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="there is no /proc/self/io")
def test_a_value_in_the_spill_is_read_once(tmp_path):
    with pyebb.Cache("8 MiB", spill=tmp_path / "spill", spill_capacity="64 MiB") as c:
        fill_spill(c, SIZE)
        read = bytes_read()
        for i in range(200):
            c.get(i)
            c.flush()       # it came back, and another went
        hits = c.stats()["spill_hits"]
        assert hits > 20
        assert bytes_read() - read < 1.5 * hits * SIZE


@pytest.mark.parametrize("spill", [False, True])
def test_pop_evicts_no_other(tmp_path, spill):
    with pyebb.Cache("8 MiB", spill=tmp_path / "spill" if spill else None) as c:
        for i in range(50):
            c[i] = noise(SIZE, i)
        c["zeros"] = bytes(60 * MIB)
        assert len(c) == 51
        assert c.pop("zeros") == bytes(60 * MIB)
        assert len(c) == 50 and c.stats()["evicted"] == 0
        assert c.get("zeros") is None and c.pop("zeros", 5) == 5
        assert c.pop(3) == noise(SIZE, 3) and 3 not in c
        for i in range(50, 300):
            c[i] = noise(SIZE, i)
            c.flush()
        assert [c.pop(i, None) for i in range(4, 300)].count(None) in range(5 if spill else 297)
        assert len(c) == 0


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no lock")
@pytest.mark.parametrize("look", ["get", "__contains__"])
def test_the_interpreters_lock_is_free_while_the_spill_is_read(tmp_path, look):
    was = sys.getswitchinterval()
    with pyebb.Cache("8 MiB", spill=tmp_path / "spill", spill_capacity="64 MiB") as c:
        fill_spill(c, 1000)
        start, ran = threading.Event(), []
        other = threading.Thread(target=lambda: (start.wait(), ran.append(True)))
        other.start()
        sys.setswitchinterval(1000)     # nobody takes it away
        try:
            start.set()
            for i in range(10_000):
                getattr(c, look)(i)
                if ran:
                    break
            there = bool(ran)
        finally:
            sys.setswitchinterval(was)
            other.join()
        assert there


@pytest.mark.parametrize("arguments, words", [
    ({"capacity": "much"}, "capacity 'much'"), ({"capacity": "7 MiB"}, "at least 8.0 MiB"),
    ({"capacity": "8MiB", "codec": "x"}, "codec 'x'"),
    ({"capacity": "8MiB", "spill": "f", "spill_capacity": 5}, "spill_capacity 5"),
    ({"capacity": 1 << 64}, f"capacity {1 << 64}"),
    ({"capacity": "8MiB", "spill_capacity": 1 << 64}, f"spill_capacity {1 << 64}"),
])
def test_an_argument_out_of_its_range_is_a_value_error_that_names_it(arguments, words):
    with pytest.raises(ValueError, match=words):
        pyebb.Cache(**arguments)


def test_other_errors_are_those_of_a_store(cache, tmp_path):
    with pytest.raises(TypeError, match="bytes-like, not int"):
        cache["k"] = 5
    for wrong in (1.0, None, (1,)):
        with pytest.raises(TypeError, match="a key is"):
            cache[wrong] = b""
        with pytest.raises(KeyError):
            cache[wrong]
        with pytest.raises(KeyError):
            del cache[wrong]
        assert wrong not in cache and cache.get(wrong) is None
    with pytest.raises(TypeError):
        cache[[]]
    with pytest.raises(ValueError, match="at most"):
        cache["k" * 1020]
    with pytest.raises(FileNotFoundError):
        pyebb.Cache("8 MiB", spill="/nowhere/file")
    with pytest.raises(ValueError, match="spill '.*x.x00y': expected a path without a NUL"):
        pyebb.Cache("8 MiB", spill=f"{tmp_path}/x\0y")
    assert not (tmp_path / "x").exists()
    (tmp_path / "mine").write_text("somebody's own")
    with pytest.raises(FileExistsError, match="no spill.*mine"):
        pyebb.Cache("8 MiB", spill=tmp_path / "mine")
    (tmp_path / "link").symlink_to(tmp_path / "new")
    with pytest.raises(OSError, match="symbolic link.*link"):
        pyebb.Cache("8 MiB", spill=tmp_path / "link")
    assert not (tmp_path / "new").exists()
    with pytest.raises(TypeError, match="one process's"):
        pickle.dumps(cache)
    error = child_of_fork(lambda: cache.get("k"))
    assert isinstance(error, RuntimeError) and "before a fork" in str(error)
    said = child_of_fork(lambda: repr(cache) + cache._repr_html_())
    assert said == "<Cache, of another process><div>Cache, of another process</div>"
    cache.close()
    for call in (lambda: cache["k"], lambda: len(cache), cache.clear, cache.flush):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert "closed" in repr(cache) + cache._repr_html_()


def test_threads_get_what_was_put(cache):
    def work(seed):
        r = random.Random(seed)
        for _ in range(300):
            key = r.randrange(400)
            value = cache.get(key)
            if value is None:
                cache[key] = bytes([key % 256]) * 5 + noise(20_000, key % 7)
            else:
                assert value == bytes([key % 256]) * 5 + noise(20_000, key % 7)
            if r.random() < 0.1:
                cache.pop(key, None)

    run_threads(*(lambda s=s: work(s) for s in range(3)))


def test_cachetools_own_decorator_takes_it(cache):
    cachetools = pytest.importorskip("cachetools")
    calls = []

    @cachetools.cached(cache, key=lambda n: n)
    def f(n):
        calls.append(n)
        return b"x" * n

    assert [f(5), f(5), f(6)] == [b"xxxxx", b"xxxxx", b"xxxxxx"]
    assert calls == [5, 6]


# ---- the decorator ----

def test_a_functions_results_are_kept():
    calls = []

    @pyebb.cache(capacity="8 MiB", codec="zstd")
    def f(a, b=1, *, c=2):
        """Adds."""
        calls.append((a, b, c))
        return {"sum": a + b + c}

    assert f(1) == f(1) == {"sum": 4}
    assert f(1, c=3) == f(1, c=3) == {"sum": 5}
    assert f("x", "y", c="z") == {"sum": "xyz"}
    assert calls == [(1, 1, 2), (1, 1, 3), ("x", "y", "z")]
    info = f.cache_info()
    assert (info.hits, info.misses, info.maxsize) == (2, 3, 8 * MIB) and info.currsize < 8 * MIB
    assert f.__name__ == "f" and f.__doc__ == "Adds." and f.__wrapped__(0) == {"sum": 3}
    f.cache_clear()
    assert f.cache_info()[:2] == (0, 0)
    f(1), f(1)
    assert len(calls) == 5 and f.cache_info()[:2] == (1, 1)
    assert f.cache.maxsize == 8 * MIB


def test_arrays_are_arguments_and_results():
    np = pytest.importorskip("numpy")
    calls = []

    @pyebb.cache(capacity="16 MiB")
    def f(a):
        calls.append(1)
        return a * 2, a[::2]

    a = np.arange(100_000.0)
    for _ in range(3):
        twice, half = f(a.copy())
        assert (twice == a * 2).all() and (half == a[::2]).all()
        twice += 1              # its own
    assert len(calls) == 1
    a[5] = 0
    f(a)
    assert len(calls) == 2


def test_what_cannot_be_kept_is_returned():
    @pyebb.cache(capacity="8 MiB", key=lambda n: n)
    def f(n):
        return (i for i in range(n)) if n < 10 else noise(n)

    for _ in range(2):
        assert list(f(3)) == [0, 1, 2]
        assert f(9 * MIB) == noise(9 * MIB)
    assert f.cache_info().hits == 0
    with pytest.raises(TypeError, match="parentheses"):
        pyebb.cache(lambda: 5)


class Two(Exception):
    """Pickle takes it and does not give it back: it is made anew with the base's one argument."""

    def __init__(self, a, b):
        super().__init__(a)
        self.b = b


def test_what_pickle_takes_and_does_not_give_back_is_computed_again():
    @pyebb.cache(capacity="8 MiB")
    def f(a):
        return Two(a, 2)

    assert [f(1).b for _ in range(3)] == [2, 2, 2]


def test_a_pair_is_no_named_argument():
    @pyebb.cache(capacity="8 MiB")
    def f(*args, **kwargs):
        return args, kwargs

    for _ in range(2):
        assert f(x=1) == ((), {"x": 1})
        assert f(("x", 1)) == ((("x", 1),), {})


def texts():
    """Two that are equal, and not one object."""
    return ["".join(["ab", "cd"]), "".join(["ab", "cd"])]


def test_equal_arguments_are_the_same():
    np = pytest.importorskip("numpy")
    a, b = np.arange(6.0), np.arange(6.0).reshape(2, 3)
    pairs = [
        (["abcd", "abcd"], texts()), ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1: {"a": 1, "b": 2}, (2,): 0}, {(2,): 0, 1: {"b": 2, "a": 1}}),
        ({0, 8, 16}, {16, 8, 0}), ([a, a], [a.copy(), a.copy()]),
        (a, np.frombuffer(a.tobytes())), (a + 1, np.arange(1., 13.)[:6]), (np.arange(12)[::2],) * 2,
        ([np.float64(0), a], pickle.loads(pickle.dumps([np.float64(0), a]))),
        ([np.float64(1)] * 2, [np.float64(1), np.float64(1)]), (np.dtype("f8"), np.dtype("<f8")),
        (np.asfortranarray(b), np.asfortranarray(b)), (list(range(100)), list(range(100)))]
    calls = []

    @pyebb.cache("8 MiB")
    def f(x, y=2):
        calls.append(x)

    for n, (one, other) in enumerate(pairs, 1):
        f(one), f(other), f(x=other), f(other, 2), f(y=2, x=one)
        assert len(calls) == n, other
    others = [1, 1.0, True, None, "1", b"1", [1], (1,), {1}, frozenset([1]), {1: 1}, a.astype("f4"),
              a.reshape(2, 3), np.asfortranarray(b), np.array([None]), np.array(["x"]),
              np.arange(3).view("M8[s]"), np.arange(3).view("m8[s]"), np.float32(1),
              bytearray(b"1")]
    calls.clear()
    f.cache_clear()
    for n, other in enumerate(others, 1):
        f(other), f(other)
        assert len(calls) == n, other


def test_an_argument_may_have_itself_in_it():
    @pyebb.cache("8 MiB")
    def f(x):
        return len(x)

    own, table = [1], {"a": 1}
    own.append(own)
    table["self"] = table
    assert (f(own), f(own), f(table), f(table)) == (2, 2, 2, 2) and f.cache_info().hits == 2


def test_what_cannot_be_kept_is_refused_where_it_is_decorated():
    async def co(x):
        return x

    def gen(x):
        yield x

    async def agen(x):
        yield x

    for wrong, what in ((co, "a coroutine"), (gen, "a generator"), (agen, "an asynchronous"),
                        (5, "for functions, not int"), (classmethod(gen), "not classmethod")):
        with pytest.raises(TypeError, match=what):
            pyebb.cache("8 MiB")(wrong)
    with pytest.raises(TypeError, match="Thing.get is a method.*ignore=.'self'."):
        class Thing:
            @pyebb.cache("8 MiB")
            def get(self, n):
                return n
    with pytest.raises(TypeError, match="key and ignore"):
        pyebb.cache("8 MiB", key=lambda n: n, ignore=["n"])
    with pytest.raises(ValueError, match="ignore 'm': .*<lambda> has the parameters n, k"):
        pyebb.cache("8 MiB", ignore=["m"])(lambda n, k: n)


def test_methods_say_what_their_object_is_to_the_result():
    class Thing:
        def __init__(self):
            self.lock, self.calls = threading.Lock(), 0

        @pyebb.cache("8 MiB", ignore=["self"])
        def get(self, n):
            self.calls += 1
            return n

        @pyebb.cache("8 MiB", key=lambda self, n: n)
        def other(self, n):
            self.calls += 1
            return n

        @staticmethod
        @pyebb.cache("8 MiB")
        def static(n):
            return n

    thing = Thing()
    assert [thing.get(1), thing.get(1), thing.get(n=1), thing.other(1), thing.other(1)] == [1] * 5
    assert thing.calls == 2 and thing.static(3) == Thing.static(3) == 3


def test_ignored_arguments_make_no_difference():
    @pyebb.cache("8 MiB", ignore=["verbose", "kw"])
    def f(n, verbose=False, **kw):
        return n, verbose

    assert f(1) == f(1, True) == f(1, verbose=lambda: 5) == f(1, extra=3) == (1, False)
    assert f(2, 5) == (2, 5)


def test_an_argument_that_makes_no_key_is_named():
    @pyebb.cache("8 MiB")
    def f(n, lock):
        return n

    with pytest.raises(TypeError, match="f.*: argument lock makes no key.*cannot pickle"):
        f(1, threading.Lock())
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'lock'"):
        f(1)
    assert f.cache_info().currsize


def test_an_error_of_the_function_is_not_kept():
    calls = []

    @pyebb.cache("8 MiB")
    def f():
        calls.append(1)
        raise OSError("no")

    for _ in range(2):
        with pytest.raises(OSError, match="no"):
            f()
    assert len(calls) == 2


def test_a_forked_child_begins_with_an_empty_one():
    @pyebb.cache("8 MiB")
    def f(n):
        return n * 2

    f(1)

    def child():
        f(1), f(1)
        return f.cache_info()[:2]

    assert child_of_fork(child) == (1, 1)
    assert f(1) == 2 and f.cache_info().hits == 1


def test_a_child_with_the_pid_of_an_ancestor_has_a_cache_of_its_own(monkeypatch):
    """Numbers of processes that ended are used again."""
    pid = os.getpid()

    @pyebb.cache("8 MiB")
    def f(n):
        return n * 2

    f(1)
    f.cache_clear()
    pyebb.pack(b"x")

    def child():
        monkeypatch.setattr(os, "getpid", lambda: pid)
        stores = len(pyebb._store._stores)
        return f(1), f(1), f.cache_info()[:2], stores, pyebb.unpack(pyebb.pack(b"x"))

    assert child_of_fork(child) == (2, 2, (1, 1), 0, b"x")
    assert child_of_fork(lambda: child_of_fork(child)) == (2, 2, (1, 1), 0, b"x")


def test_a_child_in_another_directory_has_its_spill_where_the_parent_has_it(tmp_path, monkeypatch):
    (tmp_path / "a" / "spills").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a")

    @pyebb.cache("8 MiB", spill="spills/file")
    def f(n):
        return n * 2

    monkeypatch.chdir(tmp_path)
    assert f(1) == 2 and child_of_fork(lambda: f(1)) == 2
    assert os.listdir(tmp_path / "a" / "spills") == ["file"]


def test_a_forked_child_has_a_spill_of_its_own(tmp_path):
    calls = []

    @pyebb.cache("8 MiB", key=lambda n: n, spill=tmp_path / "spill")
    def f(n):
        calls.append(n)
        return noise(SIZE, n)

    f(1)

    def child():
        for _ in range(2):
            for n in range(300):
                assert f(n) == noise(SIZE, n)
        return len(calls), sorted(os.listdir(tmp_path))

    n, files = child_of_fork(child)
    assert n < 601 and files == ["spill"]
    assert f(1) == noise(SIZE, 1) and calls == [1]


@pytest.mark.parametrize("more", range(8))
def test_arrays_of_a_hit_are_aligned(more):
    np = pytest.importorskip("numpy")

    @pyebb.cache("8 MiB")
    def f():
        return "x" * more, np.arange(100.0), np.arange(3, dtype="u1"), np.ones(5000)

    f()
    text, *arrays = f()
    assert f.cache_info().hits == 1 and text == "x" * more
    assert all(a.flags.aligned and a.flags.writeable for a in arrays)
