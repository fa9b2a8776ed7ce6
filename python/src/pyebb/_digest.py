# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A digest of an argument: equal ones have the same, as joblib's hashes have it."""
import hashlib
import pickle
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar


NUMBERS = {int, float, bool, type(None)}     # pickle itself has one form of a list of these


class _Digester(pickle._Pickler):
    """Writes a pickle into a digest, but what differs between equal objects.

    A text that comes twice is written twice, since two equal ones are often one object.  A dict is
    written in the order of its keys, and a set in that of its items' digests.  A plain array of
    numpy is its type, shape and bytes, whether it can be written or not.  Other objects that come
    twice are told from two equal ones: a pickle has to, where one has itself in it.
    """

    dispatch: ClassVar[dict[type, Callable[[Any, Any], None]]] = dict(pickle._Pickler.dispatch)
    write: Callable[[Any], object]

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=32)
        super().__init__(SimpleNamespace(write=self.digest.update), 5)
        self.numpy: Any = sys.modules.get("numpy")

    def memoize(self, obj: Any) -> None:
        if type(obj) is not str and type(obj) is not bytes and \
                not (self.numpy and isinstance(obj, self.numpy.generic)):
            super().memoize(obj)    # type: ignore[misc]

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        numpy = self.numpy
        if numpy and isinstance(obj, numpy.dtype):
            self._write(repr(obj).encode(), b"dtype")
        elif numpy and type(obj) is numpy.ndarray and not obj.dtype.hasobject:
            if not obj.flags.c_contiguous and not obj.flags.f_contiguous:
                obj = numpy.ascontiguousarray(obj)
            transposed = not obj.flags.c_contiguous
            self._write(repr((obj.dtype, obj.shape, transposed)).encode(), b"array")
            self._write((obj.T if transposed else obj).reshape(-1).view("u1"), b"items")
        elif type(obj) in (list, tuple) and len(obj) > 8 and set(map(type, obj)) <= NUMBERS:
            self._write(pickle.dumps(obj, 5), b"numbers")
        else:
            super().save(obj, save_persistent_id)   # type: ignore[misc]

    def _write(self, data: Any, kind: bytes) -> None:
        self.write(b"%s %d " % (kind, memoryview(data).nbytes))
        self.write(data)

    def _save_dict(self, obj: dict) -> None:
        self.memoize(obj)
        self.write(b"dict %d " % len(obj))
        texts = all(type(key) is str for key in obj)
        by: Callable[[Any], Any] = (lambda pair: pair[0]) if texts else (lambda p: digest(p[0]))
        for key, value in sorted(obj.items(), key=by):
            self.save(key)
            self.save(value)

    def _save_set(self, obj: Any) -> None:
        self._write(b"".join(sorted(map(digest, obj))), type(obj).__name__.encode())

    def _save_buffer(self, obj: pickle.PickleBuffer) -> None:
        with obj.raw() as data:
            self._write(data, b"buffer")

    dispatch[dict] = _save_dict
    dispatch[set] = dispatch[frozenset] = _save_set
    dispatch[pickle.PickleBuffer] = _save_buffer


def digest(obj: Any) -> bytes:
    """What equal objects have in common.  What cannot be pickled raises what pickle raises."""
    digester = _Digester()
    digester.save(obj)
    return digester.digest.digest()
