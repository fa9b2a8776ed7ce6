# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""zarr's own tests of stores on EbbStore, and arrays in it and behind a cache.

They want pytest-asyncio: pytest -o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function
"""
import asyncio
import gc
import pickle
import time
import tracemalloc

import pytest

import pyebb
from support import child_of_fork, run_threads

pytest.importorskip("pytest_asyncio")
zarr = pytest.importorskip("zarr", minversion="3.1")
np = pytest.importorskip("numpy")

from zarr.abc.store import (  # noqa: E402
    OffsetByteRequest,
    RangeByteRequest,
    SuffixByteRequest,
)
from zarr.core.buffer import cpu, default_buffer_prototype  # noqa: E402
from zarr.storage import MemoryStore  # noqa: E402
from zarr.testing.stateful import ZarrStoreStateMachine  # noqa: E402
from zarr.testing.store import StoreTests  # noqa: E402

import pyebb.zarr  # noqa: E402

pytestmark = pytest.mark.long


class OneProcess:
    """What the stores here have in common beside zarr's tests: it comes before those."""

    @pytest.fixture
    async def store(self, open_kwargs):
        return await self.store_cls.open(**open_kwargs)

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing

    async def test_a_pickle_is_for_the_same_process(self, store):
        await store.set("a", cpu.Buffer.from_bytes(b"1"))
        data, token = pickle.dumps(store), store.__dask_tokenize__()
        error = child_of_fork(lambda: pickle.loads(data))
        assert isinstance(error, RuntimeError) and "process that sent it" in str(error)
        again = pickle.loads(data)
        assert again == store and again.__dask_tokenize__() == token
        assert (await again.get("a")).to_bytes() == b"1"

    def test_a_pickle_ends_with_the_store(self):
        data = pickle.dumps(pyebb.zarr.EbbStore())
        pyebb.zarr.EbbStore(), gc.collect()
        with pytest.raises(RuntimeError, match="as long as it has the store"):
            pickle.loads(data)


class TestEbbStore(OneProcess, StoreTests[pyebb.zarr.EbbStore, cpu.Buffer]):
    store_cls = pyebb.zarr.EbbStore
    buffer_cls = cpu.Buffer

    async def set(self, store, key, value):
        store.store[key] = value.to_bytes()

    async def get(self, store, key):
        return self.buffer_cls.from_bytes(store.store[key])

    @pytest.fixture
    def store_kwargs(self):
        return {"store": pyebb.Store()}

    def test_store_repr(self, store):
        assert repr(store) == f"EbbStore('ebb://{id(store.store)}')"


class StoreMachine(ZarrStoreStateMachine):
    def __init__(self):
        super().__init__(pyebb.zarr.EbbStore())


TestStoreMachine = StoreMachine.TestCase


def kept_of(capacity="16 MiB", max_age=float("inf"), **arguments):
    return pyebb.zarr._Kept(pyebb.Cache(capacity, **arguments), max_age)


class Cached(pyebb.zarr.CachedStore):
    """One that is read-only, or not, as zarr's tests want it: that is the store's behind it."""

    def __init__(self, store, kept, cache_set_data=True, read_only=None):
        super().__init__(store if read_only is None else store.with_read_only(read_only), kept,
                         cache_set_data)


class TestCachedStore(OneProcess, StoreTests[Cached, cpu.Buffer]):
    store_cls = Cached
    buffer_cls = cpu.Buffer

    async def set(self, store, key, value):
        """As another program does it, before the store looks."""
        store.store._store_dict[key] = value
        store.cache.clear()

    async def get(self, store, key):
        return store.store._store_dict[key]

    @pytest.fixture
    def store_kwargs(self):
        return {"store": MemoryStore(), "kept": kept_of()}

    @pytest.fixture
    def open_kwargs(self, store_kwargs):
        return store_kwargs

    @pytest.fixture
    async def store_not_open(self, store_kwargs):
        return self.store_cls(**store_kwargs)

    def test_store_repr(self, store):
        assert repr(store).startswith("CachedStore(MemoryStore('memory://")


class CachedStoreMachine(ZarrStoreStateMachine):
    """What the cache has is what the store has, whoever writes through it."""

    def __init__(self):
        super().__init__(pyebb.zarr.cached(MemoryStore(), "8 MiB"))


TestCachedStoreMachine = CachedStoreMachine.TestCase

FIELD = np.sin(np.linspace(0, 60, 400_000)).reshape(400, 1000).astype("f4")


def test_an_array_lives_in_it():
    store = pyebb.zarr.EbbStore(codec="zstd")
    a = zarr.create_array(store, shape=FIELD.shape, chunks=(100, 250), dtype="f4",
                          compressors=None)
    a[:] = FIELD
    assert (a[:] == FIELD).all()
    assert (a[5:7, 300:] == FIELD[5:7, 300:]).all()
    assert store.store.nbytes >= FIELD.nbytes and store.store.stats()["packed"] < FIELD.nbytes
    assert (zarr.open_array(store.with_read_only(True), mode="r")[0] == FIELD[0]).all()


def test_values_large_enough_for_a_thread():
    store = pyebb.zarr.EbbStore()
    big = np.arange(1_000_000.0)
    a = zarr.create_array(store, shape=big.shape, chunks=big.shape, dtype="f8", compressors=None)
    a[:] = big
    assert (a[:] == big).all()


def test_a_range_is_of_one_value_while_others_replace_it():
    store = pyebb.zarr.EbbStore()
    values = [cpu.Buffer.from_bytes(bytes(1000 << i) + b"END") for i in range(7)]
    store.set_sync("k", values[0])

    def put():
        for i in range(1500):
            store.set_sync("k", values[i % 7])

    def get():
        for _ in range(1500):
            assert store.get_sync("k", byte_range=SuffixByteRequest(3)).to_bytes() == b"END"

    run_threads(put, get, get)


def test_a_full_store_is_a_memory_error():
    store = pyebb.zarr.EbbStore(capacity="1 MiB")
    a = zarr.create_array(store, shape=4 << 20, chunks=4 << 20, dtype="u1", compressors=None)
    with pytest.raises(MemoryError):
        a[:] = np.frombuffer(np.random.default_rng(1).bytes(4 << 20), "u1")


class Counting(MemoryStore):
    """A store that counts what is read of it, and has no calls that are not async."""
    get_sync = get_ranges_sync = None
    asked: list = []        # of all of them: a read-only one is another

    async def get(self, key, prototype=None, byte_range=None):
        self.asked.append((key, byte_range))
        return await super().get(key, prototype, byte_range)


@pytest.mark.parametrize("capacity", ["64 MiB", "8 MiB"])
def test_a_cache_in_front_of_a_store(capacity):
    source = Counting()
    field = np.random.default_rng(1).random((4000, 1000), "f4")     # 15 MiB that stay as large
    a = zarr.create_array(source, shape=field.shape, chunks=(500, 250), dtype="f4",
                          compressors=None)
    a[:] = field
    Counting.asked.clear()
    front = pyebb.zarr.cached(source, capacity)
    a = zarr.open_array(front, mode="r")
    for _ in range(3):
        assert (a[:] == field).all()
    chunks = 8 * 4
    if capacity == "64 MiB":
        assert len(Counting.asked) <= chunks + 6
    else:
        assert len(Counting.asked) > chunks
    assert front.stats()["hits"] + front.stats()["misses"] >= 3 * chunks


def sharded(source, field):
    a = zarr.create_array(source, shape=field.shape, shards=(256, 256), chunks=(32, 32),
                          dtype=field.dtype, compressors=None)
    a[:] = field


def test_chunks_of_shards_are_kept():
    field = np.random.default_rng(1).random((512, 512), "f4")
    source = Counting()
    sharded(source, field)
    front = pyebb.zarr.cached(source, "32 MiB")
    a = zarr.open_array(front, mode="r")
    for turn in range(2):
        Counting.asked.clear()
        for i in range(0, 512, 32):
            for j in range(0, 512, 32):
                assert (a[i:i + 32, j:j + 32] == field[i:i + 32, j:j + 32]).all()
        assert len(Counting.asked) >= 256 if not turn else not Counting.asked
    # A whole shard serves its chunks, too.
    front = pyebb.zarr.cached(source, "32 MiB")
    a = zarr.open_array(front, mode="r")
    assert (a[:] == field).all()
    Counting.asked.clear()
    assert (a[:32, 64:96] == field[:32, 64:96]).all() and (a[:] == field).all()
    assert not Counting.asked


def resident():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("RssAnon"))


class Made(MemoryStore):
    size = 64

    async def get(self, key, prototype=None, byte_range=None):
        return cpu.Buffer.from_bytes(np.random.default_rng(len(key)).bytes(self.size))


async def test_all_that_is_kept_is_within_the_capacity():
    """Byte ranges and keys, too."""
    source = Made()
    source.size = 32 << 10
    front = pyebb.zarr.cached(source, "8 MiB")
    prototype = default_buffer_prototype()
    for i in range(300):
        await front.get("k", prototype, RangeByteRequest(i << 15, (i + 1) << 15))
    before = resident()
    for i in range(300, 2000):          # 53 MiB
        await front.get("k", prototype, RangeByteRequest(i << 15, (i + 1) << 15))
    assert front.cache.currsize <= 8 << 20 and resident() - before < 16 << 20
    source.size = 64
    tracemalloc.start()
    try:
        for i in range(3000):
            await front.get(f"group/array/c/{i}", prototype)
        before = tracemalloc.get_traced_memory()[0]
        for i in range(3000, 9000):
            await front.get(f"group/array/c/{i}", prototype)
        assert (tracemalloc.get_traced_memory()[0] - before) / 6000 < 10
    finally:
        tracemalloc.stop()
    assert front.cache.currsize <= 8 << 20


class Held(MemoryStore):
    """A store whose reads and writes wait, if they are told to."""

    def __init__(self):
        super().__init__()
        self.hold = {}

    async def wait(self, what):
        if what in self.hold:
            arrived, go = self.hold.pop(what)
            arrived.set()
            await go.wait()

    def held(self, what):
        self.hold[what] = asyncio.Event(), asyncio.Event()
        return self.hold[what]

    async def get(self, key, prototype=None, byte_range=None):
        value = await super().get(key, prototype or default_buffer_prototype(), byte_range)
        await self.wait("got")
        return value

    async def set(self, key, value):
        await self.wait("set")
        await super().set(key, value)
        await self.wait("was set")


OLD, NEW, NEWER = (cpu.Buffer.from_bytes(b) for b in (b"old", b"new!", b"newer"))


async def read(store, byte_range=None):
    value = await store.get("k", default_buffer_prototype(), byte_range)
    return None if value is None else value.to_bytes()


@pytest.mark.parametrize("part", [None, RangeByteRequest(0, 2), OffsetByteRequest(1),
                                  SuffixByteRequest(2)])
@pytest.mark.parametrize("what", ["set", "set_if_not_exists", "delete", "clear", "delete_dir"])
async def test_who_read_before_a_write_leaves_nothing_behind(what, part):
    source = Held()
    front = pyebb.zarr.cached(source, "8 MiB")
    if what != "set_if_not_exists":
        await source.set("k", OLD)
    arrived, go = source.held("got")
    late = asyncio.create_task(read(front, part))
    await arrived.wait()
    await {"set": lambda: front.set("k", NEW), "delete": lambda: front.delete("k"),
           "set_if_not_exists": lambda: front.set_if_not_exists("k", NEW),
           "clear": front.clear, "delete_dir": lambda: front.delete_dir("")}[what]()
    go.set()
    await late
    for _ in range(2):
        assert await read(front, part) == await read(source, part)


async def test_who_reads_during_a_write_leaves_nothing_behind():
    for when in "set", "was set":
        source = Held()
        front = pyebb.zarr.cached(source, "8 MiB")
        await front.set("k", OLD)
        assert await read(front) == b"old"
        arrived, go = source.held(when)
        write = asyncio.create_task(front.set("k", NEW))
        await arrived.wait()
        assert await read(front) == (b"old" if when == "set" else b"new!")
        assert await read(front, SuffixByteRequest(2)) in (b"ld", b"w!")
        go.set()
        await write
        for _ in range(2):
            assert await read(front) == b"new!"
            assert await read(front, SuffixByteRequest(2)) == b"w!"


@pytest.mark.parametrize("when", ["set", "was set"])
async def test_of_two_writes_at_once_the_stores_is_read(when):
    source = Held()
    front = pyebb.zarr.cached(source, "8 MiB")
    arrived, go = source.held(when)
    first = asyncio.create_task(front.set("k", NEW))
    await arrived.wait()
    await front.set("k", NEWER)
    go.set()
    await first
    for _ in range(2):
        assert await read(front) == await read(source)


async def test_a_write_that_fails_leaves_nothing_behind():
    class Fails(MemoryStore):
        async def set(self, key, value):
            await super().set(key, value)
            raise OSError("it failed, or did it?")

    source = Fails()
    await MemoryStore.set(source, "k", OLD)
    front = pyebb.zarr.cached(source, "8 MiB")
    assert await read(front) == b"old"
    with pytest.raises(OSError, match="or did it"):
        await front.set("k", NEW)
    assert await read(front) == b"new!"


async def test_what_is_written_is_kept_if_it_is_asked_for():
    for keeps in True, False:
        front = pyebb.zarr.cached(Counting(), "8 MiB", cache_set_data=keeps)
        Counting.asked.clear()
        await front.set("k", NEW)
        assert [await read(front, SuffixByteRequest(1)), await read(front)] == [b"!", b"new!"]
        assert bool(Counting.asked) != keeps


async def test_what_is_old_is_read_anew():
    source = MemoryStore()
    await source.set("k", OLD)
    front = pyebb.zarr.cached(source, "8 MiB", max_age_seconds=0.5)
    begin = time.monotonic()
    assert await read(front) == b"old"
    await source.set("k", NEW)
    assert await read(front) == b"old" or time.monotonic() - begin >= 0.5
    await asyncio.sleep(0.5)
    assert await read(front) == b"new!"


BYTES = cpu.Buffer.from_bytes(b"bytes")


async def test_a_key_that_is_too_long_is_an_error_that_names_the_limit():
    store = pyebb.zarr.EbbStore()
    longest = "k" * pyebb.MAX_KEY
    await store.set(longest, BYTES)
    assert (await store.get(longest)).to_bytes() == b"bytes"
    for call in (lambda: store.set(longest + "k", BYTES), lambda: store.get(longest + "k"),
                 lambda: store.exists(longest + "k"), lambda: store.delete(longest + "k")):
        with pytest.raises(ValueError, match="a key of 1024 bytes; at most 1023 are allowed"):
            await call()


@pytest.mark.parametrize("n", [1019, 1020, 5000])
async def test_a_key_that_is_too_long_for_a_cache_is_one_of_the_store_behind_it(n):
    source = Counting()
    key = "k" * n
    front = pyebb.zarr.cached(source, "8 MiB")
    await front.set(key, BYTES)
    Counting.asked.clear()
    for _ in range(2):
        assert (await front.get(key, default_buffer_prototype())).to_bytes() == b"bytes"
    assert len(Counting.asked) == (2 if n > 1019 else 0)
    assert await front.exists(key)
    await front.delete(key)
    assert await front.get(key, default_buffer_prototype()) is None


def test_wrong_arguments_are_told():
    with pytest.raises(TypeError, match="codec: these are for a store of its own"):
        pyebb.zarr.EbbStore(pyebb.Store(), codec="zstd")
    with pytest.raises(ValueError, match="codec 'x'"):
        pyebb.zarr.EbbStore(codec="x")
    with pytest.raises(ValueError, match="capacity 'x'"):
        pyebb.zarr.cached(MemoryStore(), "x")
    for wrong in (0, -1, "never", None):
        with pytest.raises(ValueError, match=f"max_age_seconds {wrong!r}: expected seconds"):
            pyebb.zarr.cached(MemoryStore(), "8 MiB", max_age_seconds=wrong)
