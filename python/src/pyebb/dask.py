# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Dask workers that keep what does not fit into their memory compressed, before it goes to disk.

    with dask.config.set({"distributed.worker.preload": ["pyebb.dask"]}):
        cluster = LocalCluster(n_workers=2, memory_limit="4 GiB")

or `dask worker --preload pyebb.dask ...`, or `Worker(data=(EbbBuffer, {"memory_limit": "4 GiB"}))`.
Keys of dask.config, with their defaults:

    pyebb.codec: lz4        lz4, lz4hc or zstd
    pyebb.shuffle: true     shuffle numbers where a sample becomes smaller; needs numcodecs, and
                            the log says when that is missing
    pyebb.share: 0.6        the part of the worker's target that Ebb may have; 0: all goes to disk
    pyebb.max-ratio: 0.8    a value goes to Ebb if it needs at most this part of its size there

The worker's own keys, distributed.worker.memory.*, mean what they mean without Ebb.  A scheduler
with the same preload has a page of all workers, /ebb, in its dashboard.
"""
import logging
import os
import sys
import weakref
from typing import Any

import dask.config
import zict
from dask.utils import parse_bytes
from distributed.scheduler import Scheduler
from distributed.spill import HandledError, SpillBuffer, SpilledSize
from distributed.worker_memory import parse_memory_limit

from ._panel import add_page
from ._store import check_codec
from ._tiers import Tiers

__all__ = ["EbbBuffer", "dask_setup"]

logger = logging.getLogger("distributed.worker.memory")

dask.config.update_defaults(
    {"pyebb": {"codec": "lz4", "shuffle": True, "share": 0.6, "max-ratio": 0.8}})


# What EbbBuffer.figures() has, and Prometheus as dask_worker_ebb_NAME.
FIGURES = {
    "keys": "values that are in Ebb",
    "bytes": "what these would take in memory, by sizeof()",
    "resident": "bytes of memory that they take in Ebb",
    "limit": "bytes of memory that Ebb may take",
    "ratio": "bytes / resident",
    "memory_keys": "values that are in memory, uncompressed",
    "memory_bytes": "what these take, by sizeof()",
    "disk_keys": "values that are in files",
    "disk_memory": "what these would take in memory, by sizeof()",
    "disk_bytes": "bytes of all files, those of values that were read again, too",
}


def _fraction(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError(f"{name} {value!r}: expected a number of 0 to 1")
    return float(value)


def _bytes(value: Any, name: str) -> int:
    """What distributed takes for a memory limit of one worker, in bytes."""
    try:
        limit = None if value == "auto" else parse_memory_limit(value, 1, 1, logger=logger)
    except (TypeError, ValueError):
        limit = None
    if not limit or limit < 0:
        raise ValueError(f"{name} {value!r}: expected bytes, a text such as '4 GiB', or a part of "
                         "the system's memory")
    return limit


class _Fast(zict.LRU):
    """The uncompressed values.  The worker's monitor evicts only while this is true, so it has to
    be true while there is anything in memory that may go to disk."""

    below: dict

    def __bool__(self) -> bool:
        return bool(len(self) or self.below)


class EbbBuffer(SpillBuffer):
    """The values of a Dask worker: in memory, below that compressed in Ebb, below that on disk.

    It is what distributed's SpillBuffer is, with Ebb before the disk.  A value leaves memory when
    what values take, those in memory by sizeof() and those in Ebb by the memory that they really
    take, exceeds the target; the least recently used goes first.  From Ebb the oldest go to disk
    when Ebb has more than its share, and when evict() finds no other.  They are written in the
    form that they have there, so a value is compressed once.  A value that does not become smaller
    goes straight to disk.  One that is read from disk keeps its file as long as there is room, and
    goes back there without a write; so a value must not be changed in place.

    worker_local_directory: the worker's own, which distributed gives.  spill_directory: of the
    spill files; by default the folder "storage" in worker_local_directory.  memory_limit: the
    worker's, in bytes or as a text.  target: bytes of values in memory; by default the part of
    memory_limit that distributed.worker.memory.target says (or spill, if there is no target).
    max_spill: bytes on disk; by default distributed.worker.memory.max-spill.  codec, shuffle,
    share, max_ratio: by default the keys pyebb.* of dask.config, which the module's text explains.

    ValueError: one of them is out of its range.  A method raises what SpillBuffer's does, and a
    read pyebb.CorruptError if a spill file was damaged.
    """

    fast: Any = None        # for zict's __del__, if an argument is refused
    slow: Any = None

    def __init__(self, worker_local_directory: str | None = None, *, memory_limit: Any = None,
                 target: int | None = None, max_spill: Any = None,
                 spill_directory: str | None = None, codec: str | None = None,
                 shuffle: bool | None = None, share: float | None = None,
                 max_ratio: float | None = None) -> None:
        config = dask.config.get
        if target is None:
            if memory_limit is None:
                raise ValueError("memory_limit is missing: expected that of the worker, such as "
                                 "'4 GiB'.  The preload pyebb.dask knows it by itself")
            part = config("distributed.worker.memory.target") \
                or config("distributed.worker.memory.spill")
            target = int(_bytes(memory_limit, "memory_limit") * part) if part else sys.maxsize
        if max_spill is None:
            max_spill = config("distributed.worker.memory.max-spill")
        if max_spill is not False:
            max_spill = parse_bytes(max_spill)
        codec = config("pyebb.codec") if codec is None else codec
        check_codec(codec, None)
        share = _fraction(config("pyebb.share") if share is None else share, "share")
        max_ratio = _fraction(config("pyebb.max-ratio") if max_ratio is None else max_ratio,
                              "max_ratio")
        shuffle = bool(config("pyebb.shuffle") if shuffle is None else shuffle)
        if spill_directory is None:
            if worker_local_directory is None:
                raise ValueError("spill_directory is missing: expected a folder for spill files")
            spill_directory = os.path.join(worker_local_directory, "storage")
        directory = str(spill_directory)

        super().__init__(directory, target, max_spill)
        below = Tiers(directory, max_spill, codec=codec, shuffle=shuffle,
                      limit=int(target * share), max_ratio=max_ratio, changed=self._ebb_uses)
        # If a value is still in use somewhere, it is not read twice.
        self.slow = zict.Cache(below, zict.WeakValueMapping())
        self.fast = _Fast(target, {}, weight=self.weight, on_evict=self.fast.on_evict,
                          on_cancel_evict=self.fast.on_cancel_evict)
        self.fast.below = below.entries

    @property
    def _slow_uncached(self) -> Tiers:
        return self.slow.data

    def _ebb_uses(self, used: int) -> None:
        self.fast.offset = used

    def slow_to_fast(self, key: Any) -> Any:
        with self._slow_uncached.reading(key):
            return super().slow_to_fast(key)

    def __delitem__(self, key: Any) -> None:
        with self.lock:
            super().__delitem__(key)
            self._slow_uncached.drop_lent(key)

    def evict(self) -> int:
        """Moves the least recently used value out of memory, or if there is none, the oldest of
        Ebb to disk.

        Returns the bytes of memory that this gave back: 0 if someone still uses the value.  -1:
        nothing could be moved; the log says why.  It does not raise.
        """
        below = self._slow_uncached
        before = below.known
        lost = 0
        moved = False
        if len(self.fast):
            try:
                with self._capture_metrics(), self._handle_errors(None):
                    lost = self._evict_fast()
                    moved = True
            except HandledError:
                pass
            except Exception:       # who evicts, the worker's monitor, would never run again
                logger.error("A value does not leave memory; keeping it there", exc_info=True)
        if not moved:
            with self._capture_metrics():
                if not below.spill():
                    return -1
        if below.known < before:
            below.trim()
        return max(lost + before - below.known, 0)

    def _evict_fast(self) -> int:
        try:
            _, value, weight = self.fast.evict()
        except KeyError:            # another thread took the last one
            return 0
        try:
            ref = weakref.ref(value)
        except TypeError:           # of a str or a list nobody can know
            return int(weight)
        del value
        return int(weight) if ref() is None else 0

    @property
    def spilled_total(self) -> SpilledSize:
        """The bytes of memory that values would take and do not, and those that they take on disk.

        The scheduler takes the first from the sum of sizeof(): the rest is what values really take.
        """
        below = self._slow_uncached
        saved = max(below.entry_memory - below.used, 0)
        return below.total_weight + SpilledSize(saved, below.lent_disk)

    def figures(self) -> dict[str, float]:
        """What the worker's metrics have under "ebb": see FIGURES."""
        below = self._slow_uncached
        used = below.used
        return {"keys": len(below.entries), "bytes": below.entry_memory, "resident": used,
                "limit": below.limit, "ratio": below.entry_memory / used if used else 0.0,
                "memory_keys": len(self.fast), "memory_bytes": self.fast.total_weight,
                "disk_keys": len(below.weight_by_key), "disk_memory": below.total_weight.memory,
                "disk_bytes": below.total_weight.disk + below.lent_disk}


# The preload.

def dask_setup(server: Any) -> None:
    """Gives a worker an EbbBuffer if it would have a SpillBuffer, its metrics and the page /ebb of
    its dashboard; and a scheduler that page of all workers.

    TypeError: it is neither.
    """
    if isinstance(server, Scheduler):
        add_page(server, lambda: {address: state.metrics["ebb"]
                                  for address, state in server.workers.items()
                                  if "ebb" in state.metrics})
        return
    worker = server
    manager: Any = getattr(worker, "memory_manager", None)
    if not hasattr(manager, "data"):
        raise TypeError("the preload pyebb.dask is for workers and schedulers, not for "
                        f"{worker!r}")
    if type(manager.data) is SpillBuffer:
        if manager.data:
            raise RuntimeError("the preload pyebb.dask comes too late: the worker has values")
        data = EbbBuffer(worker.local_directory, target=manager.data.n,
                         max_spill=manager.max_spill)
        manager.data = worker.state.data = data
    elif not isinstance(manager.data, EbbBuffer):
        logger.warning("pyebb.dask leaves the worker's %s alone: only what would spill to disk is "
                       "compressed, which takes a memory limit, and target or spill in "
                       "distributed.worker.memory", type(manager.data).__name__)
        return
    worker.metrics["ebb"] = lambda worker: worker.data.figures()
    add_page(worker, lambda: {worker.address: worker.data.figures()})
    _export(worker)


class _Collector:
    """The figures, for Prometheus."""

    def __init__(self) -> None:
        self.workers: weakref.WeakSet = weakref.WeakSet()

    def collect(self) -> Any:
        from prometheus_client.core import GaugeMetricFamily
        for worker in self.workers:
            for name, value in worker.data.figures().items():
                yield GaugeMetricFamily(f"dask_worker_ebb_{name}", FIGURES[name], value=value)
            return      # one worker a process, as distributed's own collector has it


_collector: _Collector | None = None


def _export(worker: Any) -> None:
    global _collector
    try:
        import prometheus_client
    except ImportError:
        return
    if _collector is None:
        _collector = _Collector()
        prometheus_client.REGISTRY.register(_collector)
    _collector.workers = weakref.WeakSet([worker])
