# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ArrayStore, pack() and unpack()."""
import array
import datetime
import random
import sys

import pytest

import pyebb
from support import MIB, child_of_fork, noise, run_threads

np = pytest.importorskip("numpy")

SMOOTH = np.sin(np.linspace(0, 20, 50_000)) + 15


def other_codecs():
    yield "blosc2"
    yield "numcodecs"


def make(codec):
    if codec == "blosc2":
        pytest.importorskip("blosc2")
    if codec == "numcodecs":
        numcodecs = pytest.importorskip("numcodecs")
        return numcodecs.Blosc(cname="zstd", shuffle=numcodecs.Blosc.SHUFFLE)
    return codec


@pytest.fixture(params=["lz4", "zstd", *other_codecs()])
def store(request):
    with pyebb.ArrayStore(codec=make(request.param)) as s:
        yield s
        if not s.store.closed:
            s.store.check()


ARRAYS = [
    np.arange(10), SMOOTH, SMOOTH.astype("f4").reshape(100, 500), np.zeros((0, 3)), np.array(5.0),
    np.asfortranarray(SMOOTH.reshape(250, 200)), SMOOTH[::3], SMOOTH.reshape(250, 200)[:, ::2],
    np.arange(10, dtype=">i4"), np.array(["a", "bcd"]), np.array([1 + 2j]), SMOOTH > 15,
    np.array([(1, 2.0)], dtype=[("a", "i2"), ("b", "f8")]), np.array([None, "x", 5], dtype=object),
    np.array(["2026-01-01", "2026-01-02"], dtype="M8[D]"),
    np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]), np.arange(5, dtype="f2"),
]


@pytest.mark.parametrize("a", ARRAYS, ids=lambda a: f"{a.dtype.str}-{a.shape}")
def test_an_array_comes_back_as_it_was(store, a):
    store["k"] = a
    b = store["k"]
    assert type(b) is type(a) and b.dtype == a.dtype and b.shape == a.shape
    assert b.flags.writeable
    if a.ndim > 1 and a.flags.f_contiguous:
        assert b.flags.f_contiguous
    assert np.array_equal(a, b)
    assert b is not store["k"]
    packed = pyebb.pack(a)
    assert np.array_equal(pyebb.unpack(packed), a)


@pytest.mark.parametrize("value", [
    None, 5, "text", b"bytes", {"a": [1, np.arange(3).tolist()]}, datetime.date(2026, 1, 1),
    array.array("d", [1, 2]), bytearray(b"x" * 100_000), noise(100_000)])
def test_any_object_that_pickle_takes_comes_back(store, value):
    store["k"] = value
    assert store["k"] == value
    assert pyebb.unpack(pyebb.pack(value, codec="zstd", level=1)) == value


def test_arrays_inside_of_objects_are_buffers(store):
    value = {"t": SMOOTH, "names": ["x"], "more": [SMOOTH[::2], SMOOTH.astype("i4")]}
    store["k"] = value
    back = store["k"]
    assert (back["t"] == SMOOTH).all() and (back["more"][0] == SMOOTH[::2]).all()
    assert len(store.store) == 3        # numpy copies what has gaps into the head
    del store["k"]
    assert len(store.store) == 0


def test_it_is_a_mutable_mapping(store):
    store.update({"a": SMOOTH, b"a": 1, 5: 2, -5: 3})
    assert set(store) == {"a", b"a", 5, -5} and len(store) == 4
    assert "a" in store and "b" not in store
    assert store.pop(5) == 2 and 5 not in store
    store["a"] = 1
    assert store == {"a": 1, b"a": 1, -5: 3}
    with pytest.raises(KeyError, match="none"):
        store["none"]
    with pytest.raises(KeyError):
        del store["none"]
    with pytest.raises(TypeError, match="a key is"):
        store[1.5] = 1
    with pytest.raises(KeyError):
        store[1.5]
    assert 1.5 not in store
    store.clear()
    assert len(store.store) == 0


@pytest.mark.parametrize("make, writable", [
    (lambda: SMOOTH.copy(), True), (lambda: np.frombuffer(noise(5000), "u1"), False),
    (lambda: np.frombuffer(noise(5000), "u1")[::2], True), (lambda: np.array([None, 1]), True)])
def test_an_array_that_was_read_only_is_so_again_unless_it_had_gaps(make, writable):
    was, kept = make(), pyebb.cache("8 MiB")(make)
    kept()
    with pyebb.ArrayStore() as s:
        s["k"] = was
        for back in (s["k"], pyebb.unpack(pyebb.pack(was)), kept()):
            assert back.flags.writeable == writable and np.array_equal(back, was)


@pytest.mark.parametrize("codec", ["lz4", "zstd", "blosc2"])
def test_a_shuffle_by_dtype_makes_more_of_floats(codec):
    with pyebb.Store(codec="lz4" if codec == "blosc2" else codec) as plain, \
            pyebb.ArrayStore(codec=make(codec)) as shuffled:
        plain["t"] = shuffled["t"] = SMOOTH
        assert shuffled.stats()["packed"] < 0.8 * plain.stats()["packed"]


@pytest.mark.parametrize("kind", ["u2", "f4", "f8", "c16", ">i4", "M8[s]", "S10"])
@pytest.mark.parametrize("n", [0, 511, 512, 513, 5000, 3 * MIB])
def test_arrays_that_are_shuffled_come_back(kind, n):
    a = (np.sin(np.linspace(0, 20, n)) * 1e4 + 2e4).astype("i8").astype(kind)
    with pyebb.ArrayStore() as s:
        s["t"] = {"a": a, "noise": np.frombuffer(noise(n), "u1")}
        assert np.array_equal(s["t"]["a"], a) and s["t"]["a"].flags.writeable
        assert s["t"]["noise"].tobytes() == noise(n)


class Seen:
    """A codec that changes nothing, and notes what it is asked for."""

    def __init__(self):
        self.encoded, self.decoded = [], 0

    def encode(self, buf):
        self.encoded.append(memoryview(buf).itemsize)
        return bytes(buf)

    def decode(self, buf, out=None):
        self.decoded += 1
        out[:] = np.frombuffer(buf, "u1")


def test_an_array_within_an_object_is_compressed_by_its_own_items():
    seen = Seen()
    with pyebb.ArrayStore(codec=seen) as s:
        s["k"] = {"a": np.arange(50), "b": [np.ones(50, "f4"), bytearray(50)]}
        s["l"] = np.ones(50, "i2")
        assert seen.encoded[:2] == [8, 4] and seen.encoded[-1] == 2
        assert (s["k"]["a"] == np.arange(50)).all()


@pytest.mark.parametrize("codec", ["seen", *other_codecs()])
def test_another_codec_gets_a_large_buffer_in_pieces(monkeypatch, codec):
    """Blosc takes less than 2 GiB."""
    monkeypatch.setattr("pyebb._arrays.PIECE", 4096)
    with pyebb.ArrayStore(codec=Seen() if codec == "seen" else make(codec)) as s:
        for n in (0, 4096, 4097, SMOOTH.nbytes):
            a = s["k"] = np.frombuffer(SMOOTH.tobytes()[:n], "u1")
            assert np.array_equal(s["k"], a) and len(s.store) == 1 + max(-(-n // 4096), 1)
        assert (s.pop("k") == a).all() and len(s.store) == 0


def test_clear_decompresses_nothing():
    seen = Seen()
    with pyebb.ArrayStore(codec=seen) as s:
        s.update({key: np.arange(50) for key in ("a", b"b", 3)})
        s.clear()
        assert not seen.decoded and len(s) == len(s.store) == 0


def test_integers_of_numpy_are_keys():
    with pyebb.ArrayStore() as s:
        s[np.int64(3)] = 5
        assert s[3] == s[np.uint8(3)] == 5 and np.int8(3) in s and np.float64(3) not in s
        assert [type(key) for key in s] == [int]


def test_a_put_that_fails_leaves_all_as_it_was():
    with pyebb.ArrayStore(capacity=2 * MIB) as s:
        s["k"] = SMOOTH
        before = len(s.store)
        for wrong, error in [(lambda: 5, Exception), ({"a": SMOOTH, "f": lambda: 5}, Exception),
                             (np.frombuffer(noise(4 * MIB), "u1"), MemoryError)]:
            with pytest.raises(error):
                s["k"] = wrong
            assert (s["k"] == SMOOTH).all() and len(s.store) == before


@pytest.mark.parametrize("arguments, words", [
    ({"codec": "x"}, "codec 'x'"), ({"codec": 5}, "codec 5: expected a name, or an object with"),
    ({"codec": "zstd", "level": 100}, "level 100"), ({"capacity": "x"}, "capacity 'x'")])
def test_an_argument_out_of_its_range_is_a_value_error(arguments, words):
    with pytest.raises(ValueError, match=words):
        pyebb.ArrayStore(**arguments)


def test_arrays_go_to_the_spill(tmp_path):
    arrays = [np.frombuffer(noise(100_000, i), "u1") for i in range(50)]
    with pyebb.ArrayStore(capacity=2 * MIB, spill=tmp_path) as s:
        for i, a in enumerate(arrays):
            s[i] = a
        assert s.stats()["spilled"] > 20
        assert all((s[i] == a).all() for i, a in enumerate(arrays))


def test_threads_get_whole_arrays(store):
    def work(seed):
        r = random.Random(seed)
        for i in range(60):
            key = r.randrange(3)
            if i % 2:
                store[key] = (np.full(20_000, i), np.full(100, i))
            elif i % 10 == 0:
                store.pop(key, None)
            else:
                got = store.get(key)
                if got is not None:
                    assert (got[0] == got[1][0]).all() and got[0][0] == got[1][0]

    run_threads(*(lambda s=s: work(s) for s in range(4)))
    store.clear()
    assert len(store.store) == 0        # nothing is left of what was replaced


def test_a_forked_child_can_pack(store):
    packed = pyebb.pack(SMOOTH)
    assert child_of_fork(lambda: (pyebb.unpack(packed) == SMOOTH).all()
                         and pyebb.pack(SMOOTH) == packed)
    assert isinstance(child_of_fork(lambda: store.__setitem__("k", 1)), RuntimeError)
    assert isinstance(child_of_fork(lambda: store.__delitem__("k")), RuntimeError)


def test_damage_to_packed_bytes_is_found():
    packed = pyebb.pack({"a": SMOOTH})
    r = random.Random(3)
    for n in [0, 3, 6, 7, 9, 10, 14, 30, len(packed) - 1]:
        with pytest.raises(pyebb.CorruptError):
            pyebb.unpack(packed[:n])
    ends = [6 + 1 + 3 + 8]          # of the first bytes, and of each part
    while ends[-1] < len(packed):
        ends.append(ends[-1] + 8 + int.from_bytes(packed[ends[-1]:ends[-1] + 8], "little"))
    assert len(ends) == 3 and ends[-1] == len(packed)
    for end in ends[:-1]:
        with pytest.raises(pyebb.CorruptError):
            pyebb.unpack(packed[:end])
    with pytest.raises(pyebb.CorruptError):
        pyebb.unpack(packed + packed[ends[0]:ends[1]])
    for _ in range(200):
        wrong = bytearray(packed)
        wrong[r.randrange(len(wrong))] ^= 1 << r.randrange(8)
        with pytest.raises(pyebb.CorruptError):
            pyebb.unpack(wrong)
    for at in range(ends[0], ends[0] + 60):     # a part's length and head
        for bit in range(8):
            wrong = bytearray(packed)
            wrong[at] ^= 1 << bit
            with pytest.raises(pyebb.CorruptError):
                pyebb.unpack(wrong)
    with pytest.raises(TypeError):
        pyebb.unpack("text")
    with pytest.raises(pyebb.CorruptError):
        pyebb.unpack(np.empty((0, 3)))


def test_packed_bytes_may_be_of_any_shape_and_have_gaps():
    packed = np.frombuffer(pyebb.pack([1, SMOOTH]), "u1")
    twice = np.repeat(packed, 2)
    for form in packed[:, None], packed[None], twice[::2]:
        assert (pyebb.unpack(form)[1] == SMOOTH).all()


class Refuses:
    """Pickle takes it and does not give it back."""

    def __reduce__(self):
        return int, ("no number",)


def test_what_pop_cannot_read_stays():
    with pyebb.ArrayStore() as store:
        store["a"] = Refuses()
        for _ in range(2):
            with pytest.raises(ValueError, match="no number"):
                store.pop("a")
        assert "a" in store and len(store) == 1
        del store["a"]
        assert store.pop("a", 5) == 5


class Lost:
    """Whose pickle is a KeyError to load."""

    def __reduce__(self):
        return {}.__getitem__, ("inner",)


def test_a_key_error_of_what_is_unpickled_is_not_that_of_a_missing_key():
    with pyebb.ArrayStore() as store:
        store["k"] = Lost()
        for call in (store.__getitem__, store.get, store.pop, store.setdefault,
                     lambda key: store.get(key, 5), lambda key: store.setdefault(key, 5),
                     lambda key: store.pop(key, 5), lambda key: store.popitem()):
            with pytest.raises(OSError, match="under 'k' cannot be unpickled: KeyError: 'inner'"):
                call("k")
        assert "k" in store and len(store) == 1


def test_a_key_error_of_a_codec_is_told_as_such():
    class Broken:
        def encode(self, buf):
            return bytes(buf)

        def decode(self, buf, out=None):
            raise KeyError("table")

    with pyebb.ArrayStore(codec=Broken()) as store:
        store["k"] = np.arange(5)
        with pytest.raises(OSError, match="KeyError of the codec: 'table'"):
            store.get("k")
        assert "k" in store


def test_setdefault_is_one_step():
    was = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with pyebb.ArrayStore() as store:
            for i in range(100):
                got = []
                run_threads(*(lambda j=j: got.append(store.setdefault(i, [j] * 500))
                              for j in range(4)))
                assert len({one[0] for one in got}) == 1 and store[i] == got[0]
            assert len(store.store) == 100
    finally:
        sys.setswitchinterval(was)


def read_only(a):
    a = a.copy(order="K")
    a.flags.writeable = False
    return a


@pytest.mark.parametrize("make, again", [
    (lambda: np.asfortranarray(SMOOTH.reshape(250, 200)), True), (lambda: np.array(5.0), True),
    (lambda: np.zeros(3, "i4,f8"), True), (lambda: np.array(["a", "bcd"]), True),
    (lambda: SMOOTH.astype(">f8"), True), (lambda: SMOOTH.astype("M8[s]"), False),
    (lambda: SMOOTH.astype("m8[s]"), False), (lambda: np.rec.array(np.zeros(3, "i4,f8")), False),
    (lambda: np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]), False),
    (lambda: SMOOTH.reshape(250, 200).view(np.matrix), False),
    (lambda: SMOOTH.reshape(10, 50, 100).transpose(1, 0, 2), False)])
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")    # of numpy.matrix
def test_which_arrays_are_read_only_again(make, again):
    with pyebb.ArrayStore() as s:
        s["k"] = read_only(make())
        assert s["k"].flags.writeable is not again
