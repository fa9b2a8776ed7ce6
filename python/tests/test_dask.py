# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""EbbBuffer by itself: the three places of a value, and what it says of them."""
import contextlib
import functools
import gc
import logging
import os
import pickle
import random
import resource
import subprocess
import sys
import textwrap
import threading

import pytest

pytest.importorskip("distributed", reason="distributed is not installed: pip install pyebb[dask]")
np = pytest.importorskip("numpy", reason="numpy is not installed: pip install pyebb[dask]")

import dask.config  # noqa: E402
from distributed.sizeof import sizeof  # noqa: E402
from distributed.spill import SpillBuffer  # noqa: E402
from distributed.utils import RateLimiterFilter  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import pyebb  # noqa: E402
from pyebb import _tiers  # noqa: E402
from pyebb.dask import EbbBuffer  # noqa: E402

MIB = 1 << 20


@pytest.fixture(autouse=True)
def each_test_logs_what_it_has_to_say():
    """Some messages come once in ten seconds."""
    RateLimiterFilter.reset_timer(_tiers.logger)


def field(seed, n=MIB // 4):
    """n measurements, 4 bytes each, as of a temperature."""
    return _field(seed, n).copy()


@functools.lru_cache(64)
def _field(seed, n):
    rng = np.random.default_rng(seed)
    return (280 + 20 * np.sin(np.linspace(0, 6, n)) + rng.normal(0, .1, n)).astype("f4")


def noise(seed, n=MIB):
    return np.random.default_rng(seed).bytes(n)


def make(path, **kwargs):
    kwargs.setdefault("target", 8 * MIB)
    return EbbBuffer(str(path), **kwargs)


def places(buf):
    below = buf._slow_uncached
    return set(buf.fast), set(below.entries), set(below.weight_by_key)


def drain(buf):
    """Evicts all there is; returns what it says to have given back."""
    lost = 0
    while buf.fast:
        weight = buf.evict()
        assert weight >= 0
        lost += weight
    return lost


def test_values_go_from_memory_to_ebb_to_disk_and_come_back(tmp_path):
    buf = make(tmp_path)
    for i in range(40):
        buf["x", i] = field(i)
    fast, ebb, disk = places(buf)
    assert fast and ebb and disk
    assert len(fast) + len(ebb) + len(disk) == len(buf) == 40
    assert ("x", 39) in fast and ("x", 0) in disk
    assert set(buf) == {("x", i) for i in range(40)}
    for i in random.sample(range(40), 40):
        value = buf["x", i]
        assert (value == field(i)).all() and value.flags.writeable
    for i in range(40):
        del buf["x", i]
    assert not buf and not buf.fast and places(buf) == (set(), set(), set())
    assert buf.spilled_total == (0, 0) and not os.listdir(tmp_path / "storage")


def test_what_values_really_take_stays_below_the_target(tmp_path):
    buf = make(tmp_path)
    for i in range(40):
        buf[str(i)] = field(i)
        used = buf._slow_uncached.used
        assert buf.fast.total_weight + used <= 8 * MIB
        assert used <= .6 * 8 * MIB
    # The scheduler takes spilled_total.memory from the sum of sizeof().
    whole = sum(sizeof(field(i)) for i in range(40))
    # Ebb may give more back between the two.
    assert abs(whole - buf.spilled_total.memory - buf.fast.total_weight - used) < 64 << 10
    assert buf.spilled_total.disk == sum(f.stat().st_size for f in (tmp_path / "storage").iterdir())


def test_fast_is_true_while_ebb_has_values(tmp_path):
    buf = make(tmp_path)
    assert not buf.fast
    for i in range(4):
        buf[str(i)] = field(i)
    while len(buf.fast):
        assert buf.evict() > 0
    assert places(buf) == (set(), set("0123"), set()) and buf.fast
    while buf.fast:
        assert buf.evict() > 0
    assert places(buf) == (set(), set(), set("0123"))
    assert buf.evict() == -1        # there is nothing


def test_evict_returns_what_memory_loses(tmp_path):
    # In a process of its own, with the allocator's setting that a nanny gives to its workers.
    code = textwrap.dedent("""
        import sys, psutil
        from test_dask import EbbBuffer, MIB, drain, field
        rss = psutil.Process().memory_info
        buf = EbbBuffer(sys.argv[1], target=100 * MIB)
        field(0)
        for i in range(96):
            buf[i] = field(i)
        for _ in range(2):
            before = rss().rss
            # First from memory to Ebb, then from Ebb to disk.
            lost = sum(buf.evict() for _ in range(48 if _ else 96))
            print(lost, before - rss().rss)
    """)
    env = dict(os.environ, MALLOC_TRIM_THRESHOLD_="65536",
               PYTHONPATH=os.pathsep.join([os.path.dirname(__file__), *sys.path]))
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=env, check=True,
                         capture_output=True, text=True).stdout
    for line in out.splitlines():
        said, seen = map(int, line.split())
        assert said > 10 * MIB and .75 * said < seen < 1.25 * said + 4 * MIB, out


def test_a_value_that_is_in_use_gives_nothing_back_and_is_not_read_twice(tmp_path):
    buf = make(tmp_path)
    value = buf["a"] = field(0)
    assert buf.evict() == 0
    assert buf["a"] is value
    del value
    assert buf.evict() > MIB // 4


def test_what_does_not_become_smaller_goes_straight_to_disk(tmp_path):
    buf = make(tmp_path)
    for i in range(40):
        buf[str(i)] = noise(i)
    fast, ebb, disk = places(buf)
    assert fast and disk and not ebb and buf._slow_uncached.used == 0
    assert all(buf[str(i)] == noise(i) for i in range(40))
    # As distributed would have written it.
    stock = SpillBuffer(str(tmp_path / "stock"), target=0)
    stock["0"] = noise(0)
    drain(buf)
    ours, theirs = (next(d.glob("0#*")).read_bytes()
                    for d in (tmp_path / "storage", tmp_path / "stock"))
    assert ours == theirs


def test_a_value_is_compressed_once(tmp_path):
    buf = make(tmp_path, target=64 * MIB)
    for i in range(8):
        buf[str(i)] = field(i)
    while len(buf.fast):
        buf.evict()
    before = dict(buf.cumulative_metrics)
    packed = sum(s.stats()["packed"]
                 for s in (buf._slow_uncached._plain, buf._slow_uncached._shuffled))
    drain(buf)
    assert buf.cumulative_metrics["ebb-write", "count"] == before["ebb-write", "count"] == 8
    assert packed < buf.spilled_total.disk < packed * 1.02 + 8 * 1000


def written(buf):
    return buf.cumulative_metrics["disk-write", "count"]


@pytest.mark.parametrize("value", [field, noise])
def test_what_was_read_from_a_file_goes_back_there_without_a_write(tmp_path, value):
    buf = make(tmp_path)
    for i in range(40):
        buf[str(i)] = value(i)
    drain(buf)
    assert written(buf) == 40
    compressed = buf.cumulative_metrics["ebb-write", "count"]
    for i in range(40):
        np.testing.assert_array_equal(buf[str(i)], value(i))
    lent = buf._slow_uncached.lent
    assert set(lent) == set(buf.fast) and len(lent) == 40 - len(places(buf)[2])
    assert buf.spilled_total.disk == sum(f.stat().st_size for f in (tmp_path / "storage").iterdir())
    drain(buf)
    assert not lent and written(buf) == 40
    assert buf.cumulative_metrics["ebb-write", "count"] == compressed
    # The second time it goes to Ebb, and from there back to its file.
    np.testing.assert_array_equal(buf["3"], value(3))
    assert buf.evict() >= 0
    assert set(places(buf)[1]) == set(lent) == ({"3"} if value is field else set())
    np.testing.assert_array_equal(buf["3"], value(3))
    drain(buf)
    assert written(buf) == 40 and len(places(buf)[2]) == 40
    np.testing.assert_array_equal(buf["3"], value(3))


def test_a_key_that_is_set_or_deleted_loses_its_file(tmp_path):
    buf = make(tmp_path)
    buf["a"], buf["b"], buf["c"] = field(0), field(1), field(2)
    drain(buf)
    assert (buf["a"] == field(0)).all() and (buf["b"] == field(1)).all()
    assert set(buf._slow_uncached.lent) == {"a", "b"}
    buf["a"] = field(3)
    del buf["b"]
    assert not buf._slow_uncached.lent and len(os.listdir(tmp_path / "storage")) == 1
    drain(buf)
    assert (buf["a"] == field(3)).all() and set(buf) == {"a", "c"}
    buf["c"], buf["a"]
    buf.evict(), buf.evict()
    buf["c"] = noise(4)         # the value is in its file again
    drain(buf)
    assert buf["c"] == noise(4)


@pytest.mark.parametrize("key", ["x" * 300, ("\u00e4" * 50, 5), "x" * 229 + "\u00e4", "\udc80"],
                         ids=["long", "tuple", "quoted", "half a character"])
def test_a_key_that_is_too_long_for_a_file_s_name_blocks_nothing(tmp_path, key):
    with contextlib.closing(make(tmp_path)) as buf:
        buf[key] = value = noise(1)
        buf[key, "field"] = field(1)
        drain(buf)
        assert buf._slow_uncached.weight_by_key.keys() == {key, (key, "field")}
        assert buf[key] == value and (buf[key, "field"] == field(1)).all()
        del buf[key], buf[key, "field"]
        assert os.listdir(buf._slow_uncached.d.directory) == []


def test_files_that_are_lent_give_way_on_a_full_disk(tmp_path):
    buf = make(tmp_path / "bounded", max_spill=3 * MIB)
    files = tmp_path / "bounded" / "storage"
    for i in range(4):
        buf[str(i)] = field(i)
    drain(buf)
    for i in range(4):
        buf[str(i)]
    assert len(buf._slow_uncached.lent) == 4
    for i in range(4, 40):
        buf[str(i)] = field(i)
        assert sum(f.stat().st_size for f in files.iterdir()) <= 3 * MIB
    assert all((buf[str(i)] == field(i)).all() for i in range(40))

    buf = make(tmp_path / "full")
    for i in range(6):
        buf[str(i)] = field(i)
    drain(buf)
    for i in range(6):
        buf[str(i)]
    below = buf._slow_uncached
    real = below.d

    class Full:
        """A disk with no room beside what is lent."""
        def __setitem__(self, key, value):
            if below.lent:
                raise OSError("no space left")
            real[key] = value

        def __getattr__(self, name):
            return getattr(real, name)

        def __contains__(self, key):
            return key in real

        def __getitem__(self, key):
            return real[key]

        def __delitem__(self, key):
            del real[key]
    below.d = Full()
    buf["noise"] = noise(1, 9 * MIB)
    assert "noise" in places(buf)[2] and not below.lent
    assert buf["noise"] == noise(1, 9 * MIB)
    assert all((buf[str(i)] == field(i)).all() for i in range(6))


@pytest.mark.parametrize("codec", ["lz4", "lz4hc", "zstd"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_codec_with_and_without_shuffle(tmp_path, codec, shuffle):
    buf = make(tmp_path, codec=codec, shuffle=shuffle)
    values = {"f4": field(1), "f8": field(2).astype("f8"), "i8": np.arange(MIB // 8),
              "text": "a word and another " * 50000, "odd": field(3)[1:70001].tobytes()[:-1],
              "f": np.asfortranarray(np.arange(1 << 16, dtype="i4").reshape(256, 256)),
              "small": [1, "two", None], "empty": np.empty((0, 3)), "none": None, "zero": b""}
    for key, value in values.items():
        buf[key] = value
    while len(buf.fast):
        assert buf.evict() >= 0
    for _ in range(2):
        for key, value in values.items():
            np.testing.assert_array_equal(buf[key], value)
            assert type(buf[key]) is type(value)
        drain(buf)


def test_without_numcodecs_it_compresses_without_shuffle(tmp_path, monkeypatch):
    monkeypatch.setattr(_tiers, "blosc", None)
    buf = make(tmp_path, shuffle=True)
    for i in range(40):
        buf[str(i)] = np.repeat(field(i, MIB // 32), 8)
    assert all(places(buf))
    assert (buf["0"] == np.repeat(field(0, MIB // 32), 8)).all()


def test_a_share_of_zero_is_a_spillbuffer(tmp_path):
    buf = make(tmp_path, share=0)
    for i in range(40):
        buf[str(i)] = field(i)
    fast, ebb, disk = places(buf)
    assert not ebb and len(fast) == 8 and len(disk) == 32
    assert (buf["0"] == field(0)).all()


def test_a_value_larger_than_the_target_does_not_stay_in_memory(tmp_path):
    buf = make(tmp_path)
    buf["small"] = 1
    buf["large"] = np.zeros(4 * MIB)            # 32 MiB that need little
    buf["noise"] = noise(1, 32 * MIB)
    assert places(buf) == ({"small"}, {"large"}, {"noise"})
    assert not buf["large"].any() and buf["noise"] == noise(1, 32 * MIB)
    assert places(buf) == ({"small"}, {"large"}, {"noise"})
    buf["field"] = field(1, 8 * MIB)            # more than Ebb's share even there
    assert "field" in places(buf)[2]
    assert (buf["field"] == field(1, 8 * MIB)).all()


class Bad:
    def __init__(self, size):
        self.size = size

    def __sizeof__(self):
        return self.size

    def __reduce__(self):
        raise RuntimeError("not to be pickled")


def test_a_value_that_cannot_be_pickled_stays_in_memory(tmp_path, caplog):
    buf = make(tmp_path)
    with pytest.raises(TypeError, match="Failed to pickle 'large'"):
        buf["large"] = Bad(9 * MIB)
    assert "large" not in buf
    bad = buf["bad"] = Bad(MIB)
    for i in range(3):
        buf[str(i)] = field(i)
    with caplog.at_level(logging.ERROR):
        assert buf.evict() == -1
    assert "Failed to pickle 'bad'" in caplog.text
    buf["bad"] is bad           # now it is the last
    for _ in range(3):
        assert buf.evict() > 0
    # Only the bad one is left in memory; what Ebb has goes on to disk all the same.
    for _ in range(3):
        assert buf.evict() > 0
    assert buf.evict() == -1
    assert places(buf) == ({"bad"}, set(), {"0", "1", "2"}) and buf["bad"] is bad


def test_a_full_disk_loses_nothing(tmp_path, caplog):
    buf = make(tmp_path)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, old[1]))
    try:
        for i in range(40):
            buf[str(i)] = field(i)
        for i in range(40, 50):
            buf[str(i)] = noise(i)
        while len(buf.fast) and buf.evict() >= 0:
            pass
        assert buf.evict() == -1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert "Spill to disk failed" in caplog.text
    assert not places(buf)[2] and not os.listdir(tmp_path / "storage")
    assert buf.spilled_total.disk == 0
    for i in range(40):
        assert (buf[str(i)] == field(i)).all()
    for i in range(40, 50):
        assert buf[str(i)] == noise(i)
    drain(buf)                  # there is room again
    assert len(places(buf)[2]) == 50


def test_a_key_is_somewhere_at_each_step_of_its_way_to_a_file(tmp_path, monkeypatch):
    buf = make(tmp_path)
    below = buf._slow_uncached
    forget, there = below._forget, []

    def look(key):
        size = forget(key)
        there.append(key in below)      # as another thread asks, without the lock
        return size

    monkeypatch.setattr(below, "_forget", look)
    buf["a"] = field(0)
    drain(buf)                  # from memory to Ebb, to a file
    assert places(buf)[2] == {"a"}
    assert there == [True]
    for _ in range(2):          # it was read twice: its file is lent while it is in Ebb
        assert (buf["a"] == field(0)).all()
        drain(buf)
    assert places(buf)[2] == {"a"}
    assert there == [True, True]


def test_evict_does_not_raise_when_there_is_no_memory(tmp_path, monkeypatch, caplog):
    def no_memory(*_):
        raise MemoryError

    buf = make(tmp_path)
    below = buf._slow_uncached
    buf["a"], buf["b"] = field(0), field(1)
    with monkeypatch.context() as m:
        m.setattr(below, "_choose", no_memory)
        assert buf.evict() > 0
    assert places(buf) == ({"b"}, set(), {"a"})     # without a sample, straight to disk
    assert buf.evict() > 0
    with monkeypatch.context() as m:
        m.setattr(below, "_form", no_memory)
        assert buf.evict() == -1
    assert "keeping data in memory, compressed" in caplog.text
    assert places(buf) == (set(), {"b"}, {"a"})
    assert (buf["b"] == field(1)).all() and (buf["a"] == field(0)).all()


class Shaped:
    """An array that pickle hands out as it is: a frame of its shape, which may have gaps."""
    def __init__(self, array):
        self.array = array

    def __reduce_ex__(self, protocol):
        return Shaped, (pickle.PickleBuffer(self.array),)


SHAPES = {"no rows": np.empty((0, 4)), "no columns": np.empty((3, 0)), "no axes": np.array(7.0),
          "Fortran's order": np.arange(6000.0).reshape(2, 3000).T,
          "read-only": np.frombuffer(bytes(range(100)) * 300, "f4").reshape(75, 100)}


@pytest.mark.parametrize("array", SHAPES.values(), ids=SHAPES)
def test_a_frame_may_have_any_shape(tmp_path, array):
    stock = SpillBuffer(str(tmp_path / "stock"), 8 * MIB)
    buf = make(tmp_path / "ebb", max_ratio=1)
    for b in buf, stock:
        b["frame"], b["array"] = Shaped(array), array
        while b.fast:
            assert b.evict() >= 0
    assert places(buf) == (set(), set(), {"frame", "array"})
    mine, theirs = (memoryview(b["frame"].array) for b in (buf, stock))
    assert mine.tobytes() == theirs.tobytes() and mine.nbytes == array.nbytes
    assert (buf["array"] == array).all() and buf["array"].shape == array.shape


def test_a_frame_with_gaps_is_as_stock(tmp_path, caplog):
    for b in make(tmp_path / "ebb"), SpillBuffer(str(tmp_path / "stock"), 8 * MIB):
        value = b["frame"] = Shaped(np.arange(9000)[::3])
        assert b.evict() == -1 and b["frame"] is value
    assert caplog.text.count("Failed to pickle 'frame'") >= 2


def test_a_frame_without_rows_leaves_memory(tmp_path):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    full = pd.DataFrame({"day": np.arange(1000), "x": 1.0, "name": "a"})
    buf = make(tmp_path)
    for i, frame in enumerate((full[:0], full[[]], full, pd.DataFrame())):
        buf[i] = frame
        assert buf.evict() >= 0
        pd.testing.assert_frame_equal(buf[i], frame)


def test_evict_does_not_raise_whatever_goes_wrong(tmp_path, monkeypatch, caplog):
    def fails(*_):
        raise TypeError("a fault of ours")

    buf = make(tmp_path)
    below = buf._slow_uncached
    buf["a"], buf["b"] = field(0), field(1)
    with monkeypatch.context() as m:
        m.setattr(below, "_choose", fails)
        assert buf.evict() >= 0         # what was logged may still have the value
    assert places(buf) == ({"b"}, set(), {"a"}) and "so it goes to disk" in caplog.text
    with monkeypatch.context() as m:
        m.setattr(type(below), "__setitem__", fails)
        assert buf.evict() == -1
    assert places(buf) == ({"b"}, set(), {"a"}) and "keeping it there" in caplog.text
    assert buf.evict() >= 0
    with monkeypatch.context() as m:
        m.setattr(below, "_form", fails)
        assert buf.evict() == -1
    assert places(buf) == (set(), {"b"}, {"a"}) and "a fault of ours" in caplog.text
    assert (buf["b"] == field(1)).all() and (buf["a"] == field(0)).all()


def test_a_shuffle_without_numcodecs_is_told(tmp_path, monkeypatch, caplog):
    make(tmp_path / "with")
    assert "numcodecs" not in caplog.text
    monkeypatch.setattr(_tiers, "blosc", None)
    make(tmp_path / "off", shuffle=False)
    assert "numcodecs" not in caplog.text
    make(tmp_path / "without")
    assert "numcodecs is not installed" in caplog.text


def test_max_spill_bounds_the_disk(tmp_path, caplog):
    buf = make(tmp_path, max_spill=3 * MIB)
    for i in range(40):
        buf[str(i)] = field(i)
    assert 2 * MIB < buf.spilled_total.disk <= 3 * MIB
    assert "reached capacity" in caplog.text
    while buf.evict() >= 0:
        pass
    assert all((buf[str(i)] == field(i)).all() for i in range(40))


@given(st.data())
def test_a_damaged_file_is_an_error_and_never_another_value(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("spill")
    buf = make(path)
    value = buf["a"] = field(0, 1 << 14)
    drain(buf)
    buf.slow.cache.clear()
    file, = (path / "storage").iterdir()
    whole = file.read_bytes()
    if data.draw(st.booleans()):
        file.write_bytes(whole[:data.draw(st.integers(0, len(whole) - 1))])
    else:
        at = data.draw(st.integers(0, 200) | st.integers(0, len(whole) - 1))
        flip = data.draw(st.integers(1, 255))
        file.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1:])
    with pytest.raises(pyebb.CorruptError):
        buf["a"]
    assert "a" in buf
    file.write_bytes(whole)
    assert (buf["a"] == value).all()


def test_a_file_that_is_gone_is_an_error(tmp_path):
    buf = make(tmp_path)
    buf["a"] = field(0)
    drain(buf)
    next((tmp_path / "storage").iterdir()).unlink()
    with pytest.raises(OSError):
        buf["a"]


VALUES = st.one_of(
    st.integers(), st.text(max_size=50),
    st.builds(field, st.integers(0, 9), st.sampled_from([10, 5000, 20000])).map(lambda a: a),
    st.builds(noise, st.integers(0, 9), st.sampled_from([10, 20000, 90000])))
STEPS = st.lists(st.one_of(
    st.tuples(st.just("set"), st.integers(0, 9), VALUES),
    st.tuples(st.sampled_from(["get", "del"]), st.integers(0, 9)),
    st.tuples(st.just("evict"))), max_size=60)


@given(STEPS)
def test_it_is_a_dict(tmp_path_factory, steps):
    buf = make(tmp_path_factory.mktemp("spill"), target=200_000)
    oracle = {}
    for step in steps:
        if step[0] == "set":
            buf[step[1]] = oracle[step[1]] = step[2]
        elif step[0] == "evict":
            assert buf.evict() >= (0 if oracle.keys() & buf.fast.keys() else -1)
        elif step[1] not in oracle:
            with pytest.raises(KeyError):
                buf[step[1]] if step[0] == "get" else buf.__delitem__(step[1])
        elif step[0] == "get":
            np.testing.assert_array_equal(buf[step[1]], oracle[step[1]])
        else:
            del buf[step[1]], oracle[step[1]]
        assert len(buf) == len(oracle) and set(buf) == set(oracle)
        assert bool(buf.fast) == bool(len(buf.fast) or buf._slow_uncached.entries)
        assert buf.spilled_total.memory >= 0
    for key, value in oracle.items():
        np.testing.assert_array_equal(buf[key], value)


def test_threads(tmp_path):
    buf = make(tmp_path, target=MIB)
    errors = []

    def work(nth):
        rng = random.Random(nth)
        try:
            for n in range(60):
                key = (nth, rng.randrange(8))
                buf[key] = value = field(n, 20000)
                other = (nth, rng.randrange(8))
                if other in buf and rng.random() < .3:
                    del buf[other]
                elif rng.random() < .5:
                    buf.evict()
                if key in buf:
                    assert (buf[key] == value).all()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    below = buf._slow_uncached
    assert not below._reading and below.lent.keys() <= buf.fast.keys() | below.entries.keys()
    for key in list(buf):
        del buf[key]
    assert places(buf) == (set(), set(), set()) and below.entry_memory == 0
    assert not below.lent and not below.lent_disk and not os.listdir(tmp_path / "storage")


def test_threads_of_one_key(tmp_path):
    """Its value is never an older one."""
    buf = make(tmp_path, target=100_000)
    newest = [0]
    errors = []
    ended = threading.Event()

    def reads():
        try:
            while not ended.is_set():
                least = newest[0]
                try:
                    value = buf["a"]
                except KeyError:    # zict's word for a key that is set meanwhile
                    continue
                assert value[0] >= least
        except BaseException as e:
            errors.append(e)

    def evicts():
        while not ended.is_set():
            buf.evict()

    buf["a"] = np.full(20000, 0)
    threads = [threading.Thread(target=t) for t in (reads, reads, evicts)]
    for t in threads:
        t.start()
    try:
        for i in range(1, 150):
            buf["a"] = np.full(20000, i)
            newest[0] = i
    finally:
        ended.set()
    for t in threads:
        t.join()
    assert not errors, errors
    assert buf["a"][0] == 149


def test_memory_comes_back_when_the_buffer_goes(tmp_path):
    buf = make(tmp_path)
    for i in range(20):
        buf[str(i)] = field(i)
    stores = buf._slow_uncached._plain, buf._slow_uncached._shuffled
    buf.close()
    assert all(store.closed for store in stores)
    del buf
    gc.collect()


def test_targets_come_from_the_worker_s_limit(tmp_path):
    with dask.config.set({"distributed.worker.memory.target": .5}):
        assert make(tmp_path, target=None, memory_limit="64 MiB").fast.n == 32 * MIB
    with dask.config.set({"distributed.worker.memory.target": False,
                          "distributed.worker.memory.spill": .25}):
        assert make(tmp_path, target=None, memory_limit=64 * MIB).fast.n == 16 * MIB
    with dask.config.set({"pyebb.share": .5, "pyebb.codec": "zstd",
                          "distributed.worker.memory.max-spill": "1 MiB"}):
        below = make(tmp_path)._slow_uncached
        assert (below.limit, below.codec, below.max_weight) == (4 * MIB, "zstd", MIB)


@pytest.mark.parametrize("kwargs, message", [
    ({"target": None}, "memory_limit is missing"),
    ({"target": None, "memory_limit": "much"}, "memory_limit 'much': expected bytes"),
    ({"target": None, "memory_limit": "auto"}, "memory_limit 'auto': expected bytes"),
    ({"target": None, "memory_limit": 0}, "memory_limit 0: expected bytes"),
    ({"codec": "brotli"}, "codec 'brotli': there are"),
    ({"share": 1.5}, "share 1.5: expected a number of 0 to 1"),
    ({"max_ratio": "small"}, "max_ratio 'small': expected a number of 0 to 1"),
])
def test_what_is_out_of_range_is_named(tmp_path, kwargs, message):
    with pytest.raises(ValueError, match=message):
        make(tmp_path, **kwargs)
