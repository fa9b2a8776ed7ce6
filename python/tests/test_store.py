# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Store, with a dict as its oracle."""
import array
import gc
import pickle
import random
import resource
import sys
import threading
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import pyebb
from support import MIB, mixed, noise, run_threads


# ---- what a mapping does ----

@pytest.mark.parametrize("n", [0, 1, 31, 32, 511, 2047, 2048, 4096, 65535, 65536, 65537, MIB,
                               5 * MIB + 1])
@pytest.mark.parametrize("make", [bytes, noise, mixed])
@pytest.mark.parametrize("codec", sorted(pyebb.codecs()))
def test_a_value_comes_back_as_it_was_put(codec, make, n):
    with pyebb.Store(codec=codec) as s:
        value = make(n)
        s["k"] = value
        assert s["k"] == value
        assert s.get("k") == value
        assert s.size_of("k") == n
        assert s.nbytes == n
        room = bytearray(n + 1)
        assert s.get_into("k", room) == n
        assert room == value + b"\0"


@pytest.mark.parametrize("key", ["", "a", "ä€😀", "\udc80", "a\0b", b"", b"\xff\0", 0, 1, 2**63,
                                 2**64 - 1, 2**64, -1, -128, -129, 2**500, True,
                                 "x" * pyebb.MAX_KEY])
def test_a_key_comes_back_as_it_was(store, key):
    store[key] = b"v"
    (back,) = store
    assert back == key
    assert isinstance(back, type(key) if key is not True else int)
    assert key in store
    del store[key]
    assert key not in store
    assert list(store) == []


def test_keys_of_different_types_are_different_keys(store):
    for key in ("1", b"1", 1, -1, "-1", 0xffff_ffff_ffff_ffff):
        store[key] = repr(key).encode()
    assert len(store) == 6
    for key in store:
        assert store[key] == repr(key).encode()


def test_it_is_a_mutable_mapping(store):
    store.update({"a": b"1", "b": b"2"}, c=b"3")
    assert store == {"a": b"1", "b": b"2", "c": b"3"}
    assert dict(store.items()) == store.copy()
    assert sorted(store.values()) == [b"1", b"2", b"3"]
    assert store.pop("a") == b"1"
    assert store.pop("a", None) is None
    assert store.setdefault("a", memoryview(b"9-")[::2]) == b"9"
    assert store.setdefault("a", b"8") == b"9"
    key, value = store.popitem()
    assert value in (b"9", b"2", b"3") and key not in store
    store.clear()
    assert not store and len(store) == 0
    with pytest.raises(KeyError):
        store.popitem()


def test_items_can_be_given_when_it_is_opened():
    with pyebb.Store({"a": b"1", 2: b"2"}) as s:
        assert s == {"a": b"1", 2: b"2"}


def test_an_iteration_meets_each_key_that_stays_once(store):
    for i in range(1000):
        store[i] = b"stays"
    seen = []
    for i in store:
        seen.append(i)
        if isinstance(i, int):
            store[f"new {i}"] = noise(100)
    assert sorted(i for i in seen if isinstance(i, int)) == list(range(1000))


@pytest.fixture(params=["Store", "spill", "ArrayStore"])
def any_store(request, tmp_path):
    arguments = {"capacity": "1 MiB", "spill": tmp_path} if request.param == "spill" else {}
    with (pyebb.ArrayStore if request.param == "ArrayStore" else pyebb.Store)(**arguments) as s:
        yield s


def test_items_and_values_leave_out_what_goes_meanwhile(any_store):
    s = any_store
    for view, value_of in ((s.items, lambda pair: pair[1]), (s.values, lambda value: value)):
        s.update({i: b"%d" % i for i in range(100)})
        seen = set()
        for one in view():
            seen.add(value_of(one))
            for i in range(50):
                s.pop(i, None)
        assert {b"%d" % i for i in range(50, 100)} <= seen
        assert len(s) == len(view()) == 50
        assert (60, b"60") in s.items() and (7, b"7") not in s.items()
        assert b"60" in s.values() and b"7" not in s.values()
    assert sorted(s.items() & {(60, b"60"), (7, b"7")}) == [(60, b"60")]


def test_a_comparison_may_be_made_while_the_store_changes(any_store):
    any_store.update({i: b"x" for i in range(100)})
    assert any_store == dict.fromkeys(range(100), b"x")
    stop = []

    def change():
        while not stop:
            for i in range(100):
                any_store.pop(i, None)
                any_store[i] = b"x"

    def compare():
        try:
            for _ in range(100):
                assert any_store != {}
        finally:
            stop.append(1)

    was = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        run_threads(change, compare)
    finally:
        sys.setswitchinterval(was)


def test_an_array_of_one_integer_is_no_key(any_store):
    key = pytest.importorskip("numpy").array(7)
    for call in (lambda: any_store.__setitem__(key, b"x"), lambda: any_store[key],
                 lambda: any_store.get(key), lambda: key in any_store):
        with pytest.raises(TypeError, match="unhashable"):
            call()


def test_popitem_does_not_look_at_all_keys_each_time(any_store, monkeypatch):
    looks = []
    real = type(any_store)._some_keys
    monkeypatch.setattr(type(any_store), "_some_keys", lambda s: looks.append(1) or real(s))
    any_store.update({i: b"x" for i in range(5000)})
    assert dict(any_store.popitem() for _ in range(5000)) == {i: b"x" for i in range(5000)}
    assert len(looks) == 5


# ---- buffers ----

@pytest.mark.parametrize("value", [b"abc", bytearray(b"abc"), memoryview(b"abc"),
                                   array.array("d", [1.0, 2.0]), memoryview(b"abcdef")[::2],
                                   memoryview(bytearray(6)).cast("B", (2, 3))])
def test_whatever_is_bytes_like_is_a_value(store, value):
    store["k"] = value
    assert store["k"] == memoryview(value).tobytes()


def test_numpy_arrays_go_in_and_out_by_their_buffers(store):
    np = pytest.importorskip("numpy")
    a = np.arange(100_000, dtype="f8").reshape(100, 1000)
    store["c"] = a
    store["f"] = np.asfortranarray(a)
    store["stripes"] = a[:, ::3]
    out = np.empty_like(a)
    for key in "cf":
        out[:] = 0
        assert store.get_into(key, out) == a.nbytes
        assert (out == a).all()
    assert store["stripes"] == a[:, ::3].tobytes()


def test_an_array_of_dates_is_its_bytes_with_gaps_and_without(store):
    np = pytest.importorskip("numpy")
    a = np.arange("2026-01-01", "2026-04-11", dtype="M8[D]").reshape(10, 10)
    for some in (a, a[:, ::3], a.T, a.view("m8[D]")[::2]):
        store["k"] = some
        assert store["k"] == store.setdefault("new", some) == some.tobytes()
        del store["new"]


@pytest.mark.parametrize("spill", [False, True])
def test_integers_of_numpy_are_keys_and_sizes(tmp_path, spill):
    np = pytest.importorskip("numpy")
    with pyebb.Store(capacity=np.int64(MIB), **({"spill": tmp_path} if spill else {})) as s:
        assert s.capacity == MIB
        s[np.int64(3)] = b"three"
        s[4] = b"four"
        assert np.int64(3) in s and s[3] == s[np.uint8(3)] == b"three"
        assert s.pop(np.int16(4)) == b"four" and 4 not in s
        assert [type(key) for key in s] == [int] and list(s) == [3]
        for wrong in (np.float64(3), np.datetime64(3, "D")):
            assert wrong not in s and s.get(wrong) is None
            with pytest.raises(TypeError, match="a key is"):
                s[wrong] = b""


def test_a_range_of_a_value_can_be_read(store):
    value = mixed(200_000)
    store["k"] = value
    store["small"] = b"abc"
    for offset, size in [(0, 10), (65530, 20), (199_999, 10), (200_000, 1), (10**30, 5), (5, 0)]:
        assert store.read("k", offset, size) == value[offset:offset + size]
    assert store.read("k", 100) == value[100:]
    assert store.read("small", 1) == b"bc"
    with pytest.raises(KeyError):
        store.read("none")
    with pytest.raises(ValueError, match="-1"):
        store.read("k", -1)


def test_a_buffer_that_is_too_small_is_not_touched(store):
    store["k"] = b"abcdef"
    room = bytearray(b"12345")
    with pytest.raises(ValueError, match="5 bytes for a value of 6"):
        store.get_into("k", room)
    assert room == b"12345"
    room.append(0)          # its export has ended
    assert store.get_into("k", room) == 6


def test_a_buffer_to_read_into_is_writable_and_in_one_piece(store):
    store["k"] = b"abc"
    for wrong, error in [(b"123", BufferError), (memoryview(bytearray(6))[::2], BufferError),
                         ("abc", TypeError), (None, TypeError)]:
        with pytest.raises(error):
            store.get_into("k", wrong)


# ---- packed ----

@pytest.mark.parametrize("codec", sorted(pyebb.codecs()))
@pytest.mark.parametrize("make", [bytes, noise, mixed])
@pytest.mark.parametrize("n", [0, 1, 40, 5000, 65536, 300_001])
def test_a_packed_value_goes_to_another_store_as_it_is(codec, make, n):
    value = make(n)
    with pyebb.Store(codec=codec) as a, pyebb.Store(codec=codec) as b:
        a["k"] = value
        packed = a.read_packed("k")
        assert len(packed) == a.packed_size_of("k")
        assert pyebb.unpacked_size(packed) == n
        b[5] = b"old"
        b.put_packed(5, memoryview(packed))
        assert b[5] == b.unpack(packed) == value
        assert b.read_packed(5) == packed
        room = bytearray(n + 1)
        assert b.unpack_into(packed, room) == n and room[:n] == value
        if n:
            with pytest.raises(ValueError, match=f"{n - 1} bytes for a value of {n}"):
                b.unpack_into(packed, bytearray(n - 1))


def test_a_damaged_form_is_a_corrupt_error_and_changes_nothing(store):
    store["k"] = mixed(100_000)
    packed = store.read_packed("k")
    r = random.Random(1)
    for _ in range(200):
        wrong = bytearray(packed)
        wrong[r.randrange(len(wrong))] ^= 1 << r.randrange(8)
        if r.random() < 0.3:
            wrong = wrong[:r.randrange(len(wrong))]
        for call in (store.unpack, lambda w: store.put_packed("k", w)):
            with pytest.raises(pyebb.CorruptError):
                call(wrong)
    assert store["k"] == mixed(100_000)
    with pytest.raises(pyebb.CorruptError):
        pyebb.unpacked_size(b"short")


def test_a_form_of_another_codec_is_a_value_error(store):
    with pyebb.Store({"k": mixed(5000)}, codec="zstd") as other:
        packed = other.read_packed("k")
        for call in (store.unpack, lambda p: store.put_packed("k", p)):
            with pytest.raises(ValueError, match="another codec"):
                call(packed)
        with pytest.raises(KeyError):
            other.read_packed("none")
        with pytest.raises(KeyError):
            other.packed_size_of("none")
        with pytest.raises(TypeError):
            other.put_packed("k", "text")


@pytest.mark.parametrize("unit", [16384, 32768, 65536])
def test_a_unit_is_what_is_compressed_together(unit):
    value = b"".join(noise(100, i % 150) for i in range(3000))
    with pyebb.Store(unit=unit) as s, pyebb.Store() as other:
        s["k"] = other["k"] = value
        assert s["k"] == value and s.read("k", 50_000, 40_000) == value[50_000:90_000]
        assert other.unpack(s.read_packed("k")) == value
        if unit != 65536:
            assert s.stats()["packed"] > other.stats()["packed"]
            with pytest.raises(ValueError, match="codec or unit"):
                other.put_packed("k", s.read_packed("k"))


# ---- errors ----

@pytest.mark.parametrize("key", [None, 1.0, (1,), bytearray(b"a"), []])
def test_a_key_of_another_type_cannot_be_put_and_is_never_there(store, key):
    for call in (lambda: store.update({key: b""}) if key else store.__setitem__(key, b""),
                 lambda: store.setdefault(key, b""), lambda: store.put_packed(key, b"")):
        with pytest.raises(TypeError):
            call()
    error = TypeError if isinstance(key, (bytearray, list)) else KeyError
    for call in (store.__getitem__, store.__delitem__, store.size_of, store.read,
                 store.read_packed, store.packed_size_of,
                 lambda k: store.get_into(k, bytearray(5))):
        with pytest.raises(error):
            call(key)
    if error is KeyError:
        assert key not in store and store.get(key, 5) == 5 and store.pop(key, 5) == 5


@pytest.mark.parametrize("key", ["ä" * pyebb.MAX_KEY, b"x" * (pyebb.MAX_KEY + 1), 1 << 9000])
def test_a_key_that_is_too_long_is_a_value_error(store, key):
    with pytest.raises(ValueError, match="at most 1023"):
        store[key] = b""


@pytest.mark.parametrize("value", ["text", 5, None, [1]])
def test_what_is_not_bytes_like_is_a_type_error_and_changes_nothing(store, value):
    store["k"] = b"old"
    with pytest.raises(TypeError, match=f"bytes-like, not {type(value).__name__}"):
        store["k"] = value
    assert store["k"] == b"old"


def test_a_key_that_is_not_there_is_a_key_error_with_the_key(store):
    for call in (store.__getitem__, store.__delitem__, store.size_of, store.pop):
        with pytest.raises(KeyError) as e:
            call("none")
        assert e.value.args == ("none",)
    assert store.get("none") is None
    assert store.get("none", 5) == 5


@pytest.mark.parametrize("arguments, words", [
    ({"codec": "lz5"}, "'lz5': there are lz4, .*zstd"),
    ({"codec": "zstd", "level": 23}, "level 23 of codec zstd: expected an int of -5 to 22"),
    ({"level": "fast"}, "level 'fast'"),
    ({"unit": 100}, "unit 100: expected one of"), ({"unit": "64K"}, "unit '64K'"),
    ({"capacity": 0}, "capacity 0"),
    ({"capacity": -1}, "capacity -1"),
    ({"capacity": "1 GiBi"}, "capacity '1 GiBi'"),
    ({"capacity": True}, "capacity True"),
    ({"capacity": 1 << 64}, f"capacity {1 << 64}: .*less than 2\\*\\*64"),
    ({"capacity": "1" + "0" * 400 + ".5 GiB"}, "capacity '1000"),
])
def test_an_argument_out_of_its_range_is_a_value_error_that_names_it(arguments, words):
    with pytest.raises(ValueError, match=words):
        pyebb.Store(**arguments)


@pytest.mark.parametrize("text, n", [("1 GiB", 1 << 30), ("1.5GB", 1_500_000_000), ("64mib", 64 * MIB),
                                     ("4G", 4 << 30), ("8m", 8 * MIB),
                                     ("4096", 4096), ("10 b", 10), (5 * MIB, 5 * MIB)])
def test_a_capacity_may_be_a_text(text, n):
    with pyebb.Store(capacity=text) as s:
        assert s.capacity == n
        s.capacity = None
        assert s.capacity is None


def test_a_capacity_that_is_set_is_checked_as_one_that_is_given(store):
    for wrong in (1 << 64, -1, 0, "much", True):
        with pytest.raises(ValueError, match=f"capacity {wrong!r}|capacity 0"):
            store.capacity = wrong
    assert store.capacity is None


def test_past_the_capacity_is_a_memory_error_and_nothing_is_lost():
    with pyebb.Store(capacity=4 * MIB) as s:
        with pytest.raises(MemoryError, match="capacity is 4194304 bytes"):
            for i in range(1000):
                s[i] = noise(100_000, i)
        n = len(s)
        assert 20 < n < 50
        with pytest.raises(MemoryError):
            s[0] = noise(MIB, 1)
        for i in range(n):
            assert s[i] == noise(100_000, i)
        del s[0], s[1]
        s.flush()
        s[0] = noise(100_000, 5)
        assert s[0] == noise(100_000, 5)
        s.check()


def test_a_closed_store_says_so(store):
    store["a"] = b"1"
    it = iter(store)
    store.close()
    store.close()
    assert store.closed
    for call in (lambda: store["a"], lambda: store.update(a=b"1"), lambda: len(store),
                 lambda: list(store), lambda: next(it), store.stats, store.trim, store.check,
                 lambda: "a" in store):
        with pytest.raises(ValueError, match="Store is closed"):
            call()
    assert "closed" in repr(store)
    assert "closed" in store._repr_html_()


def test_one_that_was_never_opened_says_so():
    with pytest.raises(ValueError, match="never opened"):
        pyebb.Store.__new__(pyebb.Store)["a"]


def test_it_is_opened_once(store):
    with pytest.raises(RuntimeError, match="before"):
        store.__init__()


def test_it_cannot_be_pickled(store):
    with pytest.raises(TypeError, match="one process's"):
        pickle.dumps(store)


# ---- figures ----

def test_the_figures_agree(store):
    for i in range(100):
        store[i] = mixed(100_000, i)
    s = store.stats()
    assert s["values"] == len(store) == 100
    assert s["nbytes"] == store.nbytes == 10_000_000
    assert s["packed"] < s["nbytes"] / 10
    assert s["packed"] <= s["pool"] <= s["resident"] == store.resident
    assert store.ratio == pytest.approx(s["nbytes"] / s["resident"], rel=0.1)
    assert "100 values" in repr(store)
    html = store._repr_html_()
    assert "9.5 MiB" in html and html.count("<div") == html.count("</div>")


def rss():
    """Bytes that the process has in memory."""
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def test_memory_of_deleted_values_goes_back_by_itself(store):
    """Four of five, here and there, so that few pages are empty at first."""
    for i in range(500):
        store[i] = noise(100_000, i)
    full, process = store.resident, rss()
    for i in random.Random(1).sample(range(500), 400):
        del store[i]
    until = time.monotonic() + 60
    while store.resident > 0.3 * full or rss() > process - 0.6 * full:
        assert time.monotonic() < until, (full, store.resident, process, rss())
        time.sleep(0.05)


def test_memory_of_deleted_values_is_given_back(store):
    for i in range(300):
        store[i] = noise(100_000, i)
    full = store.resident
    for i in range(0, 300):
        if i % 5:
            del store[i]
    store.flush()
    store.trim()
    assert store.resident < 0.35 * full
    assert all(store[i] == noise(100_000, i) for i in range(0, 300, 5))


def test_many_values_are_put_by_threads_with_a_bar(store):
    calls = []

    def bar(items, total, desc):
        calls.append((total, desc))
        return items

    items = {i: mixed(10_000, i) for i in range(200)}
    assert store.fill(items, threads=2, progress=bar) == 200
    assert store == items
    assert store.fill(((i, b"") for i in range(10)), progress=bar) == 10
    assert calls == [(200, "compressing"), (None, "compressing")]
    with pytest.raises(TypeError):
        store.fill([(1, b""), (2, "text"), (3, b"")], threads=2)
    with pytest.raises(ValueError, match="threads 0"):
        store.fill({}, threads=0)


def test_the_bar_is_tqdms(store, capsys):
    pytest.importorskip("tqdm")
    store.fill({i: b"x" for i in range(5)}, progress=True)
    assert "5/5" in capsys.readouterr().err


# ---- randomly, as a dict does ----

KEYS = st.one_of(st.text(max_size=3), st.binary(max_size=3), st.integers(-3, 3),
                 st.integers())
VALUES = st.one_of(
    st.binary(max_size=50),
    st.tuples(st.integers(0, 300_000), st.integers(0, 5)).map(lambda t: mixed(*t)),
    st.tuples(st.integers(0, 70_000), st.integers(0, 5)).map(lambda t: noise(*t)))


class AsADict(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.store = pyebb.Store(codec="zstd")
        self.dict = {}

    @rule(key=KEYS, value=VALUES)
    def put(self, key, value):
        self.store[key] = value
        self.dict[key] = value

    @rule(key=KEYS)
    def look(self, key):
        assert self.store.get(key) == self.dict.get(key)
        assert (key in self.store) == (key in self.dict)

    @rule(key=KEYS, value=VALUES)
    def setdefault(self, key, value):
        assert self.store.setdefault(key, value) == self.dict.setdefault(key, value)

    @rule(key=KEYS)
    def pop(self, key):
        assert self.store.pop(key, None) == self.dict.pop(key, None)

    @precondition(lambda self: self.dict)
    @rule(data=st.data())
    def delete_one(self, data):
        key = data.draw(st.sampled_from(list(self.dict)))
        del self.store[key]
        del self.dict[key]

    @precondition(lambda self: self.dict)
    @rule(data=st.data(), offset=st.integers(0, 400_000), size=st.integers(0, 200_000))
    def read(self, data, offset, size):
        key = data.draw(st.sampled_from(list(self.dict)))
        assert self.store.read(key, offset, size) == self.dict[key][offset:offset + size]

    @rule()
    def clear(self):
        self.store.clear()
        self.dict.clear()

    @rule()
    def trim(self):
        self.store.trim()

    @invariant()
    def same(self):
        assert len(self.store) == len(self.dict)
        assert self.store.nbytes == sum(map(len, self.dict.values()))

    def teardown(self):
        assert self.store == self.dict
        self.store.check()
        self.store.close()


TestAsADict = AsADict.TestCase


@given(st.dictionaries(KEYS, VALUES, max_size=20))
def test_a_dict_comes_back(items):
    with pyebb.Store(items) as s:
        assert s == items
        assert set(s) == set(items)


# ---- threads ----

@pytest.fixture
def quick_switch():
    """Threads are changed often, so that what is not one step shows."""
    was = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(was)


def test_threads_see_whole_values(store, quick_switch):
    """Each value is one letter throughout: a mixture of two would show."""
    stop = threading.Event()
    size = 100_000

    def put(seed):
        r = random.Random(seed)
        try:
            for _ in range(200):
                store[r.randrange(4)] = bytes([r.randrange(256)]) * size
                if r.random() < 0.1:
                    store.pop(r.randrange(4), None)
        finally:
            stop.set()

    def get():
        room = bytearray(size)
        while not stop.is_set():
            for key in range(4):
                try:
                    store.get_into(key, room)
                except KeyError:
                    continue
                assert room == room[:1] * size
                value = store.get(key)
                assert value is None or (len(value) == size and len(set(value)) == 1)
            assert set(store) <= set(range(4))

    run_threads(lambda: put(1), lambda: put(2), get, get)


class Threads(RuleBasedStateMachine):
    """Steps of several threads at once, each on keys of its own, in one store."""

    def __init__(self):
        super().__init__()
        self.store = pyebb.Store()
        self.dicts = [{}, {}, {}]

    @rule(seeds=st.lists(st.integers(0, 1 << 32), min_size=3, max_size=3))
    def step(self, seeds):
        def work(me, seed):
            r = random.Random(seed)
            mine = self.dicts[me]
            for _ in range(20):
                key = f"{me} {r.randrange(10)}"
                if r.random() < 0.6:
                    value = mixed(r.randrange(r.choice([100, 5000, 150_000])), seed)
                    self.store[key] = value
                    mine[key] = value
                else:
                    assert self.store.pop(key, None) == mine.pop(key, None)
                for k in random.sample(list(mine), min(2, len(mine))):
                    assert self.store[k] == mine[k]

        run_threads(*(lambda me=i, seed=s: work(me, seed) for i, s in enumerate(seeds)))

    @invariant()
    def same(self):
        assert self.store == self.dicts[0] | self.dicts[1] | self.dicts[2]
        self.store.check()

    def teardown(self):
        self.store.close()


TestThreads = Threads.TestCase
TestThreads.settings = settings(max_examples=5, stateful_step_count=10)


def test_setdefault_is_one_step(quick_switch):
    for _ in range(30):
        with pyebb.Store() as s:
            got = []
            run_threads(*(lambda i=i: got.append(s.setdefault("k", bytes([i]) * 5000))
                          for i in range(4)))
            assert len(set(got)) == 1 and s["k"] == got[0]


def test_setdefault_of_a_key_that_is_there_does_nothing_with_the_default(tmp_path):
    for more in {}, {"spill": tmp_path}:
        with pyebb.Store({"k": b"x"}, capacity="1 MiB", **more) as s:
            assert s.setdefault("k", noise(5 << 20)) == s.setdefault("k", None) == b"x"


def test_setdefault_returns_what_it_put_although_another_thread_deletes_it():
    class Deleted(pyebb.Store):
        def _put(self, key, data, flags):
            done = super()._put(key, data, flags)
            self._delete(key)
            return done

    with Deleted() as s:
        assert s.setdefault("k", b"new") == b"new" and len(s) == 0


@pytest.mark.parametrize("spill", [False, True])
def test_a_part_that_is_read_is_of_one_value(quick_switch, tmp_path, spill):
    with pyebb.Store(capacity=64 * MIB, **({"spill": tmp_path} if spill else {})) as s:
        values = [bytes([i]) * (1000 << i) for i in range(7)]
        s["k"] = values[0]

        def put():
            for i in range(1500):
                s["k"] = values[i % 7]

        def read():
            for _ in range(1500):
                got = s.read("k")
                assert got == values[got[0]]

        run_threads(put, read, read)
        whole = s["k"]

        def part(total):
            s["k"] = b"shorter"
            return total - 5, 5
        assert s._read_part("k", part) == whole[-5:]


def test_a_store_may_be_closed_while_threads_use_it(quick_switch):
    for round_ in range(20):
        s = pyebb.Store()
        value = mixed(300_000)
        started = threading.Barrier(4)

        def use():
            started.wait()
            with pytest.raises(ValueError, match="closed"):
                while True:
                    s["k"] = value
                    assert s["k"] == value
                    assert len(list(s)) <= 1

        def end():
            started.wait()
            s.close()

        run_threads(use, use, use, end)
        assert s.closed


def test_an_exception_in_a_thread_leaves_the_store_usable(store):
    def wrong():
        with pytest.raises(TypeError):
            for i in range(100):
                store[i] = b"x" * 10_000 if i < 50 else "text"

    run_threads(wrong, wrong)
    assert len(store) == 50


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled"), reason="needs Python 3.13 or later")
def test_a_free_threaded_interpreter_keeps_its_lock_off():
    import sysconfig
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert not sys._is_gil_enabled()


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no lock")
@pytest.mark.parametrize("end", [lambda s: s.__delitem__("k"), lambda s: s.__setitem__("k", b""),
                                 lambda s: s.pop("k")], ids=["delete", "replace", "pop"])
def test_the_interpreters_lock_is_free_while_a_large_value_ends(store, end):
    large = noise(MIB) * 128        # which takes longer than another thread to wake
    was = sys.getswitchinterval()
    for i in range(20):
        store["k"] = large
        start, ran = threading.Event(), []
        other = threading.Thread(target=lambda: (start.wait(), ran.append(True)))
        other.start()
        sys.setswitchinterval(1000)     # nobody takes it away
        try:
            start.set()
            end(store)
            there = bool(ran)
        finally:
            sys.setswitchinterval(was)
            other.join()
        if there:
            return
    assert False, "no other thread ran"


def test_a_read_of_a_part_takes_no_new_memory(store):
    store["k"] = mixed(MIB)
    store.read("k", 300, 100)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for i in range(1000):
        assert len(store.read("k", 1000 * i, 100)) == 100
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 1000


# ---- leaks ----

def test_no_memory_is_lost(store):
    """Under PYTHONMALLOC=debug it shows, too, what writes past its block."""
    def work():
        for i in range(50):
            store[i] = mixed(5000, i)
            store.get(i)
            store.get_into(i, bytearray(5000))
            store.read(i, 5, 10)
            for wrong in (lambda: store["none"], lambda: store.__setitem__(1, "x"),
                          lambda: store.__setitem__(1.0, b""),
                          lambda: store.get_into(i, bytearray(1)),
                          lambda: store.__setitem__("k" * 2000, b"")):
                with pytest.raises((KeyError, TypeError, ValueError)):
                    wrong()
        list(store)
        store.stats()
        store.clear()
        pyebb.Store({1: b"1"}).close()
        gc.collect()

    work()
    tracemalloc.start()
    try:
        work()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(5):
            work()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()


def test_an_array_of_objects_is_no_value():
    np = pytest.importorskip("numpy")
    with pyebb.Store() as store:
        store[1] = b"12345678"
        for array in (np.array([None, "a"], dtype=object),
                      np.zeros(2, dtype=[("a", "i8"), ("b", "O")])):
            for data in (array, memoryview(array)):
                with pytest.raises(TypeError, match="not Python objects"):
                    store[0] = data
                with pytest.raises(TypeError, match="not Python objects"):
                    store.get_into(1, data)
        assert list(store) == [1]
