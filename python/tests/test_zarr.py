# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""zarr's own tests of stores on EbbStore, and arrays in it and behind a cache.

They want pytest-asyncio: pytest -o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function
"""
import pickle

import pytest

import pyebb
from support import run_threads

pytest.importorskip("pytest_asyncio")
zarr = pytest.importorskip("zarr", minversion="3.1")
np = pytest.importorskip("numpy")

from zarr.abc.store import SuffixByteRequest  # noqa: E402
from zarr.core.buffer import cpu, default_buffer_prototype  # noqa: E402
from zarr.storage import MemoryStore  # noqa: E402
from zarr.testing.stateful import ZarrStoreStateMachine  # noqa: E402
from zarr.testing.store import StoreTests  # noqa: E402

import pyebb.zarr  # noqa: E402

pytestmark = pytest.mark.long


class TestEbbStore(StoreTests[pyebb.zarr.EbbStore, cpu.Buffer]):
    store_cls = pyebb.zarr.EbbStore
    buffer_cls = cpu.Buffer

    async def set(self, store, key, value):
        store.store[key] = value.to_bytes()

    async def get(self, store, key):
        return self.buffer_cls.from_bytes(store.store[key])

    @pytest.fixture
    def store_kwargs(self):
        return {"store": pyebb.Store()}

    @pytest.fixture
    async def store(self, open_kwargs):
        return await self.store_cls.open(**open_kwargs)

    def test_store_repr(self, store):
        assert repr(store) == f"EbbStore('ebb://{id(store.store)}')"

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing

    async def test_serializable_store(self, store):
        """Its memory is one process's."""
        with pytest.raises(TypeError, match="one process's"):
            pickle.dumps(store)


class StoreMachine(ZarrStoreStateMachine):
    def __init__(self):
        super().__init__(pyebb.zarr.EbbStore())


TestStoreMachine = StoreMachine.TestCase

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
    """A store that counts what is read of it."""
    gets = 0

    async def get(self, key, *args, **kwargs):
        type(self).gets += 1
        return await super().get(key, *args, **kwargs)


@pytest.mark.parametrize("capacity", ["64 MiB", "8 MiB"])
def test_a_cache_in_front_of_a_store(capacity):
    source = Counting()
    field = np.random.default_rng(1).random((4000, 1000), "f4")     # 15 MiB that stay as large
    a = zarr.create_array(source, shape=field.shape, chunks=(500, 250), dtype="f4",
                          compressors=None)
    a[:] = field
    Counting.gets = 0
    front = pyebb.zarr.cached(source, capacity)
    a = zarr.open_array(front, mode="r")
    for _ in range(3):
        assert (a[:] == field).all()
    chunks = 8 * 4
    if capacity == "64 MiB":
        assert Counting.gets <= chunks + 6
    else:
        assert Counting.gets > chunks


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
    Counting.gets = 0
    for _ in range(2):
        assert (await front.get(key, default_buffer_prototype())).to_bytes() == b"bytes"
    assert (Counting.gets == 2) == (n > 1019)
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
    with pytest.raises(TypeError, match="one process's"):
        pickle.dumps(pyebb.zarr.EbbCacheStore("8 MiB"))
