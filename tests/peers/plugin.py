# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A plugin of pytest that puts Ebb in the place of what the tests of a peer try: $EBB_PEER's."""
import collections.abc
import os
import sys
import tempfile
import types

import pyebb
import pyebb._digest

PEER = os.environ["EBB_PEER"]
uses = [0]


def digest(obj, hash_name="md5", coerce_mmap=False):
    """As joblib's hash()."""
    uses[0] += 1
    return pyebb._digest.digest(obj).hex()


class Index(pyebb.ArrayStore):
    """As diskcache's Index, a mapping in a folder."""

    directory = "/nonexistent"

    def __init__(self):
        super().__init__()
        uses[0] += 1


if PEER == "joblib":
    import joblib.hashing
    joblib.hashing.hash = digest
elif PEER == "diskcache":
    sys.modules["diskcache"] = types.SimpleNamespace(Index=Index)
elif PEER in ("zarr", "xarray"):
    import pyebb.zarr
    import zarr.storage
    from zarr.core.buffer import Buffer, default_buffer_prototype

    class MemoryStore(pyebb.zarr.EbbStore):
        """As zarr's, which may be given a dict, and whose dict its tests look at."""

        def __init__(self, store_dict=None, *, read_only=False):
            own = isinstance(store_dict, pyebb.Store)
            super().__init__(store_dict if own else None, read_only=read_only)
            for key, value in {} if own or store_dict is None else store_dict.items():
                self.store[key] = value.as_numpy_array() if isinstance(value, Buffer) else value
            uses[0] += 1

        async def set(self, key, value, byte_range=None):
            assert byte_range is None
            await super().set(key, value)

        @property
        def _store_dict(self):
            """What is stored now, as a dict would have it.  A change of it changes no store."""
            new = default_buffer_prototype().buffer.from_bytes
            return {key: new(value) for key, value in self.store.items()}

    zarr.storage.MemoryStore = zarr.storage._common.MemoryStore = MemoryStore
elif PEER == "dask":
    # A mapping for the values of tasks is an argument of dask's schedulers of one process.
    import pyebb.dask
    import dask.local
    import dask.threaded
    from dask.base import named_schedulers

    FOLDER = tempfile.TemporaryDirectory(prefix="ebb-dask-")
    BUFFER = pyebb.dask.EbbBuffer(spill_directory=FOLDER.name, target=1 << 30)
    BUFFER.fast.n = -1                  # no value stays uncompressed
    BUFFER._slow_uncached.limit, BUFFER._slow_uncached.max_ratio = 64 << 10, 1.0

    class Values(collections.abc.MutableMapping):
        """Those of one call of a scheduler, in what all calls share."""

        def __init__(self):
            uses[0] += 1
            self.number, self.there = uses[0], set()

        def __getitem__(self, key):
            if key not in self.there:
                raise KeyError(key)
            return BUFFER[self.number, key]

        def __setitem__(self, key, value):
            BUFFER[self.number, key] = value
            self.there.add(key)

        def __delitem__(self, key):
            self.there.remove(key)
            del BUFFER[self.number, key]

        def __iter__(self):
            return iter(set(self.there))

        def __len__(self):
            return len(self.there)

    def with_ebb(get):
        def scheduler(dsk, keys, **more):
            values = Values()
            try:
                return get(dsk, keys, **{"cache": values, **more})
            finally:
                values.clear()
        return scheduler

    try:
        from dask.dataframe.shuffle import maybe_buffered_partd
        # As it is after a pickle of it.  One with a buffer has values that no pickle has.
        maybe_buffered_partd.__init__.__defaults__ = (None, False, None)
    except ImportError:
        pass
    for name in ("sync", "synchronous", "single-threaded"):
        named_schedulers[name] = with_ebb(dask.local.get_sync)
    for name in ("threads", "threading"):
        named_schedulers[name] = with_ebb(dask.threaded.get)
else:
    sys.exit(f"peers: there is no peer {PEER}")


def pytest_sessionfinish(session):
    print(f"\npeers: {uses[0]} uses of Ebb")
    if PEER == "dask":
        # As array_plugin.py says it of a cluster.
        figures = BUFFER.cumulative_metrics
        moved = [figures[kind, "count"] for kind in ("ebb-write", "disk-write")]
        print(f"peers: {moved[0]} values went to Ebb, {moved[1]} from there to files")
        if not all(moved):
            session.exitstatus = 1
    if session.testscollected and not uses[0]:
        session.exitstatus = 1
