# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The slow side of a Dask worker's buffer: values in Ebb, and below them values on disk.

    a value --serialize--> frames --+-- become smaller --> Ebb --the oldest, as they are--> a file
                                    +-- do not ------------------------------------------> a file

Each key is in one place: in `entries` (Ebb) or in `weight_by_key` (a file).  On its way from Ebb to
a file it is in both for a moment, and never in none.  A file has either the packed forms that Ebb
had, below a header with a sum, or what distributed itself would write: that is for values that do
not become smaller.

A value that is read from a file, and is in memory from then on, leaves the file behind: it is in
`lent`.  When the value comes back, it is in that file again, and nothing is compressed or written.
One that was read a second time goes to Ebb, since it seems to be wanted; the file stays, and is
what Ebb gives the value up for.  Dask's values do not change, and a key that is set or deleted
loses its file.  A frame may be shuffled by Blosc before it goes to Ebb:
it then has the first bytes of all its numbers together, and so on, which the sign and the exponent
of floating-point numbers need to become smaller.

One lock covers all of it, and nothing that holds it calls the buffer above.
"""
import hashlib
import os
import pickle
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import msgpack
from distributed.metrics import context_meter
from distributed.protocol.serialize import merge_and_deserialize, serialize_and_split
from distributed.protocol.utils import host_array
from distributed.sizeof import safe_sizeof
from distributed.spill import (AnyKeyFile, MaxSpillExceeded, PickleError, Slow, SpilledSize,
                               logger)
from distributed.utils import nbytes

from . import CorruptError, Store

try:
    from numcodecs import blosc
except ImportError:
    blosc = None

MAGIC = b"pyebb\x00\x01\xff"
HEAD = struct.Struct("<8sIII")      # the magic; frames; bytes of the header; sum of what follows
FRAME = struct.Struct("<QQB")       # bytes of the packed form, and of the frame; is it shuffled?

NAMED = 230                         # bytes of a file's name, which has at most 255 with its number
SAMPLED = 16 << 10                  # a smaller frame goes as it is
SAMPLES, SAMPLE = 4, 8 << 10        # of a larger one so many pieces are tried first
UNSEEN = 64 << 10                   # bytes of values that may come and go before it looks
BLOSC = {"lz4": (b"lz4", 5), "lz4hc": (b"lz4hc", 9), "zstd": (b"zstd", 1)}


class Part(NamedTuple):
    """A frame in Ebb."""
    id: int
    size: int           # bytes of the frame
    shuffled: bool


class Entry(NamedTuple):
    """A value in Ebb."""
    header: bytes
    parts: tuple[Part, ...]
    memory: int         # what sizeof() said of the value


class Lent(NamedTuple):
    """The file of a value that is in memory or in Ebb."""
    size: SpilledSize
    wanted: bool        # was the value read from it before?


class _File(AnyKeyFile):
    """Files of one key each.  A write that fails leaves nothing behind that would take room."""

    @staticmethod
    def _short(key: Any) -> str:
        """What a key's file is named after: the key, or its digest if that cannot be a name."""
        text = str(key)
        try:
            if len(quote(text, safe="")) <= NAMED:
                return text
        except UnicodeEncodeError:      # it has half a character
            pass
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _safe_key(self, key: Any) -> str:
        return super()._safe_key(self._short(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        nth = self._inc
        try:
            super().__setitem__(key, value)
        except OSError:
            name = quote(self._short(key), safe="")
            for n in range(nth, self._inc):
                try:
                    os.remove(os.path.join(self.directory, f"{name}#{n}"))
                except OSError:
                    pass
            raise


class Tiers(Slow):
    """A mapping from a key to a value that is in Ebb or on disk.

    directory: of the files.  max_weight: bytes that they may have; False: any number.  codec: of
    Ebb.  shuffle: whether frames may be shuffled.  limit: bytes of memory that Ebb may take; 0: all
    goes to disk.  max_ratio: a value goes to Ebb if it is expected to need at most this part of its
    size there.  changed: called with the bytes of memory that Ebb uses when it has looked.
    """

    def __init__(self, directory: str, max_weight: Any, *, codec: str, shuffle: bool, limit: int,
                 max_ratio: float, changed: Callable[[int], None]) -> None:
        self._lock = threading.RLock()
        # What Blosc made does not become smaller again: its store finds that out in no time.
        self._plain = Store(codec=codec)
        self._shuffled = Store(codec="lz4", level=65537)
        super().__init__(directory, max_weight)
        self.d = _File(directory)
        self._packed: set[Any] = set()          # the keys whose files have packed forms
        self.lent: dict[Any, Lent] = {}         # the oldest first
        self.lent_disk = 0                      # bytes of their files
        self._reading: set[tuple[Any, int]] = set()     # keys on their way to memory, and threads
        self._returned: set[Any] = set()        # of the files' keys, those that were lent before
        self.entries: dict[Any, Entry] = {}     # the oldest first
        self.entry_memory = 0                   # the sum of their `memory`
        self.limit = limit
        self.max_ratio = max_ratio
        self.codec = codec
        self.shuffle = shuffle and blosc is not None
        if shuffle and not blosc:
            logger.warning("numcodecs is not installed, so pyebb shuffles no numbers and they "
                           "become less small; pyebb.shuffle: false says that this is meant")
        self._id = 0
        self._changed = changed
        # Working memory, which a store has from its first value on, is not a value's.
        self._empty = self._unseen = self.known = 0
        for store in (self._plain, self._shuffled):
            store[0] = bytes(256 << 10)
            del store[0]
        self._empty = self.used
        self._look()

    # What a mapping has.

    def __setitem__(self, key: Any, value: Any) -> None:
        with self._lock:
            if key in self:         # two threads set it at once
                self._remove(key)
            lent = self.lent.get(key)
            if lent and not lent.wanted:
                self._return(key)
            elif self.limit and self._to_ebb(key, value):
                pass
            elif lent:
                self._return(key)
            else:
                self._write(lambda: super(Tiers, self).__setitem__(key, value))
                self._bound_lent(0)

    def __getitem__(self, key: Any) -> Any:
        with self._lock:
            entry = self.entries.get(key)
            if entry is None:
                return self._from_file(key)
            with context_meter.meter("ebb-read", "seconds"):
                frames = [self._frame(part) for part in entry.parts]
            context_meter.digest_metric("ebb-read", 1, "count")
            context_meter.digest_metric("ebb-read", sum(map(nbytes, frames)), "bytes")
        return _value(entry.header, frames)

    def __delitem__(self, key: Any) -> None:
        with self._lock:
            reader = key, threading.get_ident()
            if reader in self._reading and key in self:
                self._reading.remove(reader)
                self._lend(key)
            else:
                self.drop_lent(key)
                self._remove(key)

    def _remove(self, key: Any) -> None:
        if key in self.entries:
            self._account(self._forget(key))
        elif key in self.weight_by_key:
            super().__delitem__(key)
            self._packed.discard(key)
            self._returned.discard(key)
        else:
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return key in self.entries or key in self.weight_by_key

    def __iter__(self) -> Iterator[Any]:
        with self._lock:
            keys = [*self.entries, *self.weight_by_key]
        return iter(keys)

    def __len__(self) -> int:
        return len(self.entries) + len(self.weight_by_key)

    def close(self) -> None:
        with self._lock:
            self.entries.clear()
            self.entry_memory = 0
            self.lent.clear()
            self.lent_disk = 0
            self._plain.close()
            self._shuffled.close()
            super().close()

    # Figures.

    @property
    def used(self) -> int:
        """Bytes of memory that Ebb takes for values."""
        with self._lock:
            self._look()
            return self.known

    def _look(self) -> None:
        self._unseen = 0
        stores = [s for s in (self._plain, self._shuffled) if not s.closed] if self.limit else []
        total = 0
        for store in stores:
            store.flush()
            s = store.stats()
            total += s["pool"] + s["meta"]
        self.known = max(total - self._empty, 0)
        self._changed(self.known)

    def _account(self, size: int) -> None:
        """After values of so many bytes have come or gone: `known` is not further behind than
        UNSEEN.  To look takes as long as to keep a small value."""
        self._unseen += size
        if self._unseen >= UNSEEN:
            self._look()

    def stats(self) -> dict[str, int]:
        """Of the stores together: see Store.stats()."""
        both = [store.stats() for store in (self._plain, self._shuffled) if not store.closed]
        return {name: sum(s[name] for s in both) for name in both[0]} if both else {}

    # Ebb.

    def _to_ebb(self, key: Any, value: Any) -> bool:
        """Whether the value is in Ebb now, or was and went on to disk from there."""
        try:
            header, frames = serialize_and_split(value, on_error="raise")
            # Whatever a frame's shape (one with a zero, too) and order of axes: a run of bytes.
            frames = [pickle.PickleBuffer(frame).raw() for frame in frames]
            head = msgpack.dumps(header, use_bin_type=True)
        except Exception as e:
            raise PickleError(key) from e
        with context_meter.meter("ebb-write", "seconds"):
            total = sum(map(nbytes, frames))
            parts: list[Part] = []
            try:
                sizes = [self._choose(frame) for frame in frames]
                if sum(expected for _, expected in sizes) > self.max_ratio * total:
                    return False
                for frame, (typesize, _) in zip(frames, sizes):
                    parts.append(self._put(frame, typesize))
            except Exception as e:
                if not isinstance(e, MemoryError):
                    logger.error("Ebb does not take a value, so it goes to disk", exc_info=True)
                self._drop(parts)
                return False
        context_meter.digest_metric("ebb-write", 1, "count")
        context_meter.digest_metric("ebb-write", total, "bytes")
        self.entries[key] = Entry(head, tuple(parts), safe_sizeof(value))
        self.entry_memory += self.entries[key].memory
        self._account(total)
        while self.known > self.limit and self.spill():
            pass
        return True

    def _choose(self, view: memoryview) -> tuple[int, int]:
        """The size of the numbers that a frame is best shuffled for (1: not at all), and the bytes
        that it is expected to need then."""
        n = view.nbytes
        if n < SAMPLED:
            return 1, n // 2
        step = (n - SAMPLE) // (SAMPLES - 1) // 64 * 64
        sample = b"".join(view[i * step:i * step + SAMPLE] for i in range(SAMPLES))
        self._plain[0] = sample
        tried = {1: self._plain.packed_size_of(0)}
        del self._plain[0]
        if self.shuffle:
            cname, level = BLOSC[self.codec]
            for typesize in (2, 4, 8):
                tried[typesize] = len(blosc.compress(sample, cname, level, blosc.SHUFFLE,
                                                     typesize=typesize))
        best = min(tried, key=lambda typesize: tried[typesize])
        if tried[best] > 0.95 * tried[1]:
            best = 1        # it is not worth a pass over the frame
        return best, tried[best] * n // len(sample)

    def _put(self, view: memoryview, typesize: int) -> Part:
        self._id += 1
        if typesize > 1:
            cname, level = BLOSC[self.codec]
            self._shuffled[self._id] = blosc.compress(view, cname, level, blosc.SHUFFLE,
                                                      typesize=typesize)
        else:
            self._plain[self._id] = view
        return Part(self._id, view.nbytes, typesize > 1)

    def _frame(self, part: Part) -> memoryview:
        buf = host_array(part.size)
        if part.shuffled:
            blosc.decompress(self._shuffled[part.id], buf)
        else:
            self._plain.get_into(part.id, buf)
        return buf

    def _drop(self, parts: Any) -> None:
        for part in parts:
            del (self._shuffled if part.shuffled else self._plain)[part.id]

    def _forget(self, key: Any) -> int:
        """Takes a value out of Ebb; returns its bytes."""
        entry = self.entries.pop(key)
        self.entry_memory -= entry.memory
        self._drop(entry.parts)
        return sum(part.size for part in entry.parts)

    def trim(self) -> None:
        """Gives back now what Ebb would give back in a moment."""
        for store in (self._plain, self._shuffled):
            store.trim()

    # Files that are lent.

    @contextmanager
    def reading(self, key: Any) -> Iterator[None]:
        """Meanwhile, this thread's first deletion of the key takes its value to memory, and its
        file is lent.  Any other deletes it."""
        if not self.limit:          # as distributed's own buffer does it
            yield
            return
        reader = key, threading.get_ident()
        with self._lock:
            self._reading.add(reader)
        try:
            yield
        finally:
            with self._lock:
                self._reading.discard(reader)

    def _lend(self, key: Any) -> None:
        if key in self.entries:
            self._account(self._forget(key))    # a file that is lent stays so
            return
        size = self.weight_by_key.pop(key)
        self.total_weight -= size
        self.lent[key] = Lent(size, key in self._returned)
        self.lent_disk += size.disk
        self._returned.discard(key)

    def _return(self, key: Any) -> None:
        """The value is in its file again."""
        size = self.lent.pop(key).size
        self.lent_disk -= size.disk
        self.weight_by_key[key] = size
        self.total_weight += size
        self._returned.add(key)

    def drop_lent(self, key: Any) -> None:
        """Removes the file of a key that is lent, if there is one."""
        with self._lock:
            lent = self.lent.pop(key, None)
            if lent:
                self.lent_disk -= lent.size.disk
                self._packed.discard(key)
                del self.d[key]

    def _bound_lent(self, size: int) -> None:
        """Drops what is lent until so many bytes more have room on the disk."""
        while self.lent and self.max_weight is not False \
                and self.total_weight.disk + self.lent_disk + size > self.max_weight:
            self.drop_lent(next(iter(self.lent)))

    def _write(self, write: Callable[[], None]) -> None:
        """Calls write(); if the disk is full, again without the files that are lent."""
        try:
            write()
        except OSError:
            if not self.lent:
                raise
            for key in list(self.lent):
                self.drop_lent(key)
            write()

    # From Ebb to the disk.

    def spill(self) -> bool:
        """Moves the oldest value of Ebb into a file.  False: there is none, or the file could not
        be written; then the value is where it was, and the log says why."""
        with self._lock:
            key = next(iter(self.entries), None)
            if key is None:
                return False
            entry = self.entries[key]
            if key in self.lent:
                self._return(key)
                self._account(self._forget(key))
                return True
            try:
                form = self._form(entry)
                size = sum(map(len, form))
                self._bound_lent(size)
                if self.max_weight is not False and self.total_weight.disk + size > self.max_weight:
                    raise MaxSpillExceeded(key)
                with context_meter.meter("disk-write", "seconds"):
                    self._write(lambda: self.d.__setitem__(key, form))
            except MaxSpillExceeded:
                logger.warning("Spill file on disk reached capacity; keeping data in memory, "
                               "compressed")
                return False
            except Exception:
                logger.error("Spill to disk failed; keeping data in memory, compressed",
                             exc_info=True)
                return False
            context_meter.digest_metric("disk-write", 1, "count")
            context_meter.digest_metric("disk-write", size, "bytes")
            # The file is the key's before Ebb has it no longer: who looks for it takes no lock.
            self._packed.add(key)
            self.weight_by_key[key] = weight = SpilledSize(entry.memory, size)
            self.total_weight += weight
            self._account(self._forget(key))
            return True

    def _form(self, entry: Entry) -> list[bytes]:
        """What a file of the value has."""
        packed = [(self._shuffled if p.shuffled else self._plain).read_packed(p.id)
                  for p in entry.parts]
        table = b"".join(FRAME.pack(len(data), part.size, part.shuffled)
                         for data, part in zip(packed, entry.parts)) + entry.header
        head = HEAD.pack(MAGIC, len(packed), len(entry.header), zlib.crc32(table))
        return [head, table, *packed]

    def _from_file(self, key: Any) -> Any:
        if key not in self.weight_by_key:
            raise KeyError(key)
        if key not in self._packed:
            return super().__getitem__(key)
        with context_meter.meter("disk-read", "seconds"):
            data = self.d[key]
        context_meter.digest_metric("disk-read", 1, "count")
        context_meter.digest_metric("disk-read", len(data), "bytes")
        return self._read_forms(data)

    def _read_forms(self, data: bytes | bytearray) -> Any:
        """The value that a file has.  CorruptError: it is not as it was written."""
        view = memoryview(data)
        try:
            magic, n, header_bytes, crc = HEAD.unpack_from(view)
            if magic != MAGIC:
                raise CorruptError("it does not begin as one of pyebb")
            at = HEAD.size + n * FRAME.size + header_bytes
            if zlib.crc32(view[HEAD.size:at]) != crc:
                raise CorruptError("the sum of its head is wrong")
            frames = []
            for i in range(n):
                length, size, shuffled = FRAME.unpack_from(view, HEAD.size + i * FRAME.size)
                frames.append(self._read_form(view[at:at + length], size, shuffled))
                at += length
            if at != view.nbytes:
                raise CorruptError(f"{view.nbytes} bytes, expected {at}")
        except (CorruptError, struct.error) as e:
            raise CorruptError(f"a damaged spill file: {e}") from e
        start = HEAD.size + n * FRAME.size
        return _value(view[start:start + header_bytes], frames)

    def _read_form(self, form: memoryview, size: int, shuffled: int) -> memoryview:
        buf = host_array(size)
        if shuffled:
            blosc.decompress(self._shuffled.unpack(form), buf)
        else:
            self._plain.unpack_into(form, buf)
        return buf


def _value(header: Any, frames: list[memoryview]) -> Any:
    return merge_and_deserialize(msgpack.loads(header, raw=False, use_list=False,
                                               strict_map_key=False), frames)
