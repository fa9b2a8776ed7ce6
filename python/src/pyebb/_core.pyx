# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# cython: language_level=3, freethreading_compatible=True, binding=True, embedsignature=False
"""The part of pyebb that calls libebb.

A call of libebb that may take long runs without the interpreter's lock.  Objects here have no lock
of their own: libebb's calls may run beside each other, and a gate (gate.h) keeps a close apart from
them.  So they are safe in a free-threaded interpreter, too.
"""
import errno
import operator
import os
import threading

cimport cython
from libc.errno cimport EAGAIN, EEXIST, EFBIG, EINTR, EINVAL, EIO, ENOENT, ENOMEM, ENOSPC
from libc.errno cimport errno as c_errno
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy

from .libebb cimport *


cdef extern from "errno.h" nogil:
    enum:
        ENOTSUP
        EUCLEAN


cdef extern from "gate.h" nogil:
    ctypedef uint64_t gate_t
    bint gate_enter(gate_t *gate, int *close)
    bint gate_leave(gate_t *gate)
    bint gate_shut(gate_t *gate)
    bint gate_is_shut(const gate_t *gate)


cdef extern from "pthread.h" nogil:
    int pthread_atfork(void (*prepare)() noexcept nogil, void (*parent)() noexcept nogil,
                       void (*child)() noexcept nogil)


cdef extern from "table.h":
    void table_lock(object table)
    void table_unlock(object table)
    void table_locks_renew() noexcept nogil


cdef extern from "Python.h":
    ctypedef struct Py_buffer:
        void *buf
        Py_ssize_t len
    int PyBUF_SIMPLE
    int PyBUF_WRITABLE
    int PyBUF_INDIRECT
    int PyObject_CheckBuffer(object obj)
    int PyObject_GetBuffer(object obj, Py_buffer *view, int flags) except -1
    int PyBuffer_ToContiguous(void *buf, const Py_buffer *view, Py_ssize_t n, char order) except -1
    void PyBuffer_Release(Py_buffer *view)
    bytes PyBytes_FromStringAndSize(const char *at, Py_ssize_t n)
    object PyByteArray_FromStringAndSize(const char *at, Py_ssize_t n)
    char *PyBytes_AsString(object o) except NULL
    Py_ssize_t PyBytes_Size(object o) except -1
    const char *PyUnicode_AsUTF8AndSize(object o, Py_ssize_t *n) except NULL
    ctypedef struct PyObject
    PyObject *PyDict_GetItemWithError(object d, object key) except? NULL
    int PyDict_SetItem(object d, object key, object value) except -1
    int PyDict_DelItem(object d, object key) except -1
    list PyDict_Items(object d)
    int PyDict_Next(object d, Py_ssize_t *at, PyObject **key, PyObject **value)


# A value of fewer bytes is done before another thread could have got the interpreter's lock.
cdef enum:
    LONG = 2048
    LARGE = 1 << 20     # and the end of a value is, of fewer than that

# Of the kinds of keys that are bytes to libebb; other integers are its ids.
cdef enum:
    KEY_STR = 115       # "s": UTF-8
    KEY_BYTES = 98      # "b"
    KEY_INT = 105       # "i": below 0, or over 64 bits
    KEY_ID = 35         # "#": other integers, to a cache, which has no ids

MAX_KEY = EBB_VALUES_KEY_MAX - 1
DEFAULT_LEVEL = EBB_LEVEL_DEFAULT

# How often this process is a child of a fork: what was opened before is the parent's.
cdef int generation = 0


cdef void after_fork() noexcept nogil:
    global generation
    generation += 1
    table_locks_renew()


# The C library's forks, of which the interpreter does not see each.
if pthread_atfork(NULL, NULL, after_fork):
    raise MemoryError("no memory to be told of forks")


def forks():
    """How many forks are between the first process and this one: no ancestor has as many."""
    return generation


class CorruptError(ValueError):
    """The packed form of a value is damaged, or is none."""


def version():
    """The version of the libebb that runs, as "MAJOR.MINOR.PATCH"."""
    return ebb_version().decode()


def codecs():
    """The codecs, as a dict of name -> (least level, most level, default level)."""
    cdef unsigned int i = 0
    cdef const char *name = ebb_codec_name(0)
    cdef int32_t least, most, default_
    found = {}
    while name != NULL:
        ebb_codec_levels(name, &least, &most, &default_)
        found[name.decode()] = (least, most, default_)
        i += 1
        name = ebb_codec_name(i)
    return found


# ---- names ----

cdef struct name_t:
    bint is_id
    uint64_t id
    size_t n
    unsigned char key[EBB_VALUES_KEY_MAX]


cdef int set_key(name_t *name, unsigned char kind, const char *at, Py_ssize_t n) except -1:
    if n > EBB_VALUES_KEY_MAX - 1:
        raise ValueError(f"a key of {n} bytes; at most {EBB_VALUES_KEY_MAX - 1} are allowed")
    name.is_id = False
    name.key[0] = kind
    memcpy(name.key + 1, at, <size_t>n)
    name.n = <size_t>n + 1
    return 0


cdef object plain_key(object key):
    """The key as str, bytes or int and of no class below them, whose == may be another.

    numpy's integers are int.  None: it cannot be a key.
    """
    if type(key) is str or type(key) is bytes:
        return key
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, bytes):
        return bytes.__bytes__(key)
    try:
        number = operator.index(key)
    except TypeError:
        return None
    hash(key)           # an array of one integer has none: a TypeError, as in a dict
    return number


cdef int make_name(object key, name_t *name) except -1:
    cdef Py_ssize_t n
    cdef const char *at
    cdef bytes encoded
    cdef object number
    if isinstance(key, str):
        try:
            at = PyUnicode_AsUTF8AndSize(key, &n)
        except UnicodeEncodeError:
            encoded = key.encode("utf-8", "surrogatepass")
            return set_key(name, KEY_STR, PyBytes_AsString(encoded), PyBytes_Size(encoded))
        return set_key(name, KEY_STR, at, n)
    if isinstance(key, bytes):
        return set_key(name, KEY_BYTES, PyBytes_AsString(key), PyBytes_Size(key))
    number = plain_key(key)
    if number is None:
        raise TypeError(f"a key is str, bytes or int, not {type(key).__name__}")
    try:
        name.id = <uint64_t>number
    except OverflowError:
        encoded = int(number).to_bytes(int(number).bit_length() // 8 + 1, "little", signed=True)
        return set_key(name, KEY_INT, PyBytes_AsString(encoded), PyBytes_Size(encoded))
    name.is_id = True
    return 0


cdef bint can_be_key(object key) except -1:
    """For who looks: what cannot be a key is not there, as in a dict."""
    if isinstance(key, (str, bytes, int)):
        return True
    hash(key)           # a TypeError, as there
    return plain_key(key) is not None


cdef int find_name(object key, name_t *name) except -1:
    if not can_be_key(key):
        raise KeyError(key)
    return make_name(key, name)


def put_key(key):
    """A put's key as plain str, bytes or int, so that a dict and libebb mean the same by it.

    TypeError: it cannot be a key; ValueError: it has more than MAX_KEY bytes.
    """
    cdef name_t name
    cdef object plain = plain_key(key)
    make_name(key if plain is None else plain, &name)
    return plain


def find_key(key):
    """The same of who looks.  KeyError: it cannot be a key, so nothing is under it."""
    cdef name_t name
    find_name(key, &name)
    return plain_key(key)


ANY = object()


def exchange(dict table not None, key, new, only=ANY):
    """table[key] = new, or del table[key] if new is None; returns what was there before, or None.

    only: what has to be there (None: nothing), or else nothing is done.  The key is plain.  It is
    one step of whatever interpreter (table.h): no other exchange() of the table is in between, and
    no Python code runs there, since nothing is made that could have garbage collected and what was
    there before ends later.
    """
    cdef PyObject *at
    cdef object old = None
    table_lock(table)
    try:
        at = PyDict_GetItemWithError(table, key)
        if at != NULL:
            old = <object>at
        if only is ANY or old is only:
            if new is not None:
                PyDict_SetItem(table, key, new)
            elif at != NULL:
                PyDict_DelItem(table, key)
    finally:
        table_unlock(table)
    return old


def items_of(dict table not None):
    """All items of one moment: a finalizer that changes the table meanwhile does no harm."""
    return PyDict_Items(table)


def some_keys(dict table not None, Py_ssize_t most):
    """So many keys of a table that changes by exchange() alone; [] if it is empty."""
    cdef list keys = []
    cdef Py_ssize_t at = 0
    cdef PyObject *key
    table_lock(table)
    try:
        while len(keys) < most and PyDict_Next(table, &at, &key, NULL):
            keys.append(<object>key)
    finally:
        table_unlock(table)
    return keys


cdef object key_of(const ebb_values_entry *entry, const unsigned char *key):
    cdef bytes rest
    if not entry.key_bytes:
        return entry.id
    rest = PyBytes_FromStringAndSize(<const char *>key + 1, <Py_ssize_t>entry.key_bytes - 1)
    if key[0] == KEY_STR:
        return rest.decode("utf-8", "surrogatepass")
    if key[0] == KEY_BYTES:
        return rest
    return int.from_bytes(rest, "little", signed=True)


# ---- libebb's functions, by either kind of name ----

cdef int c_put(ebb_values *v, name_t *name, const void *data, size_t n,
               unsigned int flags) noexcept nogil:
    if name.is_id:
        return ebb_values_put(v, name.id, data, n, flags)
    return ebb_values_put_key(v, name.key, name.n, data, n, flags)


cdef int c_get(ebb_values *v, name_t *name, void *buf, size_t cap, size_t *n) noexcept nogil:
    if name.is_id:
        return ebb_values_get(v, name.id, buf, cap, n)
    return ebb_values_get_key(v, name.key, name.n, buf, cap, n)


cdef int c_size(ebb_values *v, const name_t *name, uint64_t *n) noexcept nogil:
    if name.is_id:
        return ebb_values_size(v, name.id, n)
    return ebb_values_size_key(v, name.key, name.n, n)


cdef int c_delete(ebb_values *v, name_t *name) noexcept nogil:
    if name.is_id:
        return ebb_values_delete(v, name.id)
    return ebb_values_delete_key(v, name.key, name.n)


cdef int c_read_open(ebb_values *v, name_t *name, ebb_value_reader **reader) noexcept nogil:
    if name.is_id:
        return ebb_values_read_open(v, name.id, reader)
    return ebb_values_read_open_key(v, name.key, name.n, reader)


cdef int c_put_packed(ebb_values *v, name_t *name, const void *data, size_t n,
                      unsigned int flags) noexcept nogil:
    if name.is_id:
        return ebb_values_put_packed(v, name.id, data, n, flags)
    return ebb_values_put_packed_key(v, name.key, name.n, data, n, flags)


cdef int c_read_packed(ebb_values *v, name_t *name, void *buf, size_t cap,
                       size_t *n) noexcept nogil:
    if name.is_id:
        return ebb_values_read_packed(v, name.id, buf, cap, n)
    return ebb_values_read_packed_key(v, name.key, name.n, buf, cap, n)


# ---- buffers ----

cdef int refuse_objects(object data) except -1:
    """The bytes of an array of objects are their addresses, which mean nothing later."""
    if type(data) is bytes or type(data) is bytearray:
        return 0
    array = data.obj if type(data) is memoryview else data
    if getattr(getattr(array, "dtype", None), "hasobject", False):
        raise TypeError(f"a value is bytes, not Python objects (dtype {array.dtype})")
    return 0


cdef int get_view(object data, Py_buffer *view) except -1:
    """Fills the view with the bytes of data, in C order."""
    cdef Py_buffer gaps
    if not PyObject_CheckBuffer(data):
        raise TypeError(f"a value is bytes-like, not {type(data).__name__}")
    refuse_objects(data)
    try:
        PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
    except (BufferError, ValueError):
        # Its bytes do not follow each other, so they are copied.  Their format is not asked for:
        # numpy has none for dates.
        PyObject_GetBuffer(data, &gaps, PyBUF_INDIRECT)
        try:
            data = PyBytes_FromStringAndSize(NULL, gaps.len)
            PyBuffer_ToContiguous(PyBytes_AsString(data), &gaps, gaps.len, b"C")
        finally:
            PyBuffer_Release(&gaps)
        PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
    return 0


def bytes_of(data):
    """The bytes that a put of data stores."""
    cdef Py_buffer view
    if type(data) is bytes:
        return data
    get_view(data, &view)
    try:
        return PyBytes_FromStringAndSize(<const char *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


def nbytes_of(data):
    """How many these are."""
    cdef Py_buffer view
    if not PyObject_CheckBuffer(data):
        raise TypeError(f"a value is bytes-like, not {type(data).__name__}")
    PyObject_GetBuffer(data, &view, PyBUF_INDIRECT)
    n = view.len
    PyBuffer_Release(&view)
    return n


cdef int get_room(object buf, Py_buffer *view) except -1:
    if not PyObject_CheckBuffer(buf):
        raise TypeError(f"a buffer to read into is a writable bytes-like object, "
                        f"not {type(buf).__name__}")
    refuse_objects(buf)
    return PyObject_GetBuffer(buf, view, PyBUF_WRITABLE)


def unpacked_size(data):
    """Bytes of the value that is in a packed form, by its head.

    CorruptError: it is none; ValueError: it is of a later version; TypeError: it is not bytes-like.
    """
    cdef Py_buffer view
    cdef uint64_t n = 0
    get_view(data, &view)
    cdef int err = ebb_packed_size(view.buf, <size_t>view.len, &n)
    PyBuffer_Release(&view)
    if err:
        raise form_error(err)
    return n


cdef object form_error(int err):
    if err == -ENOTSUP:
        return ValueError("the packed form is of another codec or unit than the store's, or of a "
                          "later version of libebb")
    return CorruptError("the packed form of a value is damaged, or is none")


cdef object no_memory(what):
    """The MemoryError of a process that is short of memory, or of mappings."""
    cdef object why = f"no memory for {what}"
    try:
        with open("/proc/self/maps", "rb") as f:
            n = sum(1 for _ in f)
        with open("/proc/sys/vm/max_map_count", "rb") as f:
            most = int(f.read())
        if n > most - most // 64:
            why += f": the process has {n} mappings, and vm.max_map_count allows {most}"
    except (OSError, MemoryError):
        pass
    return MemoryError(why)


# ---- what may be closed at any time ----

@cython.no_gc
cdef class Gated:
    """What Values and CacheValues share: a gate before a table or cache of libebb.

    Their _open() opens it, once; then is_open() is true, and end() closes it.
    """
    cdef gate_t gate
    cdef int generation

    def __cinit__(self, *args, **kwargs):
        self.gate = 0
        self.generation = generation

    cdef bint is_open(self) noexcept:
        return False

    cdef void end(self) noexcept:
        pass

    def __dealloc__(self):
        # Who is inside has a reference, so nobody is.
        if gate_shut(&self.gate):
            self.end()

    def close(self):
        """Ends it and gives all its memory back, as soon as no thread is in a call any more.

        Any use after that is a ValueError.  It may be closed again.
        """
        if gate_shut(&self.gate):
            self.end()

    @property
    def closed(self):
        """Whether close() was called."""
        return gate_is_shut(&self.gate)

    cdef object of_parent(self):
        return RuntimeError(f"this {type(self).__name__} was opened before a fork: its memory is "
                            "the parent process's; open one in the child")

    cdef int done(self, int err) except -1:
        """Raises what a call failed with that has no argument to be wrong."""
        if err == -EINVAL:      # libebb knows of a child that no fork() of the C library made
            raise self.of_parent()
        if err == -ENOMEM:
            raise no_memory("that")
        if err:
            raise OSError(-err, os.strerror(-err))
        return 0

    cdef int enter(self) except -1:
        cdef int close
        if self.generation != generation:
            raise self.of_parent()
        if gate_enter(&self.gate, &close):
            if self.is_open():
                return 0
            self.leave()
            raise ValueError(f"this {type(self).__name__} was never opened: "
                             "__init__() was not called")
        if close:
            self.end()
        raise ValueError(f"this {type(self).__name__} is closed")

    cdef void leave(self) noexcept:
        if gate_leave(&self.gate):
            self.end()


# ---- values ----

@cython.no_gc
cdef class Values(Gated):
    """libebb's table of values: what Store is made of."""
    cdef ebb_values *v
    cdef uint64_t mem_limit

    def _open(self, codec, level, unit, mem_limit):
        """Opens it; once.  The arguments were checked."""
        cdef ebb_values_config cfg
        cdef ebb_values *v
        cdef bytes name = codec.encode()
        cdef int err
        if self.v != NULL:
            raise RuntimeError("__init__() was called before")
        ebb_values_config_init(&cfg)
        cfg.codec = PyBytes_AsString(name)
        cfg.level = level
        cfg.unit_bytes = unit
        cfg.mem_limit = mem_limit
        err = ebb_values_open(&v, &cfg)
        if err == -ENOMEM:
            raise no_memory(f"a {type(self).__name__}")
        if err:
            raise self.error(err, None, 0)
        self.mem_limit = mem_limit
        self.v = v

    cdef bint is_open(self) noexcept:
        return self.v != NULL

    cdef void end(self) noexcept:
        cdef ebb_values *v = self.v
        with nogil:
            ebb_values_close(v)

    cdef object error(self, int err, object key, size_t n):
        """The exception that an error number of libebb is."""
        err = -err
        if err == ENOENT:
            return KeyError(key)
        if err == EINVAL:       # as done() has it
            return self.of_parent()
        if err == ENOMEM and self.mem_limit:
            return MemoryError(f"no room for {n} bytes: the capacity is {self.mem_limit} bytes")
        if err == ENOMEM:
            return no_memory(f"{n} bytes" if n else "that")
        if err == ENOSPC:
            return MemoryError("the table has as many values as it can have")
        if err == EFBIG:
            return ValueError(f"a value of {n} bytes; at most 2**40 are allowed")
        if err == EIO:
            return OSError(EIO, f"what is stored does not decompress, under the key {key!r}")
        return OSError(err, os.strerror(err))

    cdef bint was_there(self, int err, object key) except -1:
        if err and err != -ENOENT:
            raise self.error(err, key, 0)
        return not err

    cdef bint has_large(self, const name_t *name) noexcept:
        """Whether there is a value whose end takes long: that of 1 GiB takes 30 ms."""
        cdef uint64_t n = 0
        return not c_size(self.v, name, &n) and n >= LARGE

    cdef int store(self, object key, object data, unsigned int flags, bint packed,
                   bint quiet) except -1:
        """Stores data; 0: there is a value, and flags say that there be none.

        packed: whether data is a packed form.  quiet: 2 stands for a MemoryError.
        """
        cdef name_t name
        cdef Py_buffer view
        cdef int err
        make_name(key, &name)
        get_view(data, &view)
        try:
            self.enter()
            if packed:
                with nogil:
                    err = c_put_packed(self.v, &name, view.buf, <size_t>view.len, flags)
            elif view.len < LONG and not self.has_large(&name):
                err = c_put(self.v, &name, view.buf, <size_t>view.len, flags)
            else:
                with nogil:
                    err = c_put(self.v, &name, view.buf, <size_t>view.len, flags)
            self.leave()
        finally:
            n = view.len
            PyBuffer_Release(&view)
        if err == -EEXIST:
            return 0
        if quiet and (err == -ENOMEM or err == -ENOSPC):
            return 2
        if packed and (err == -EUCLEAN or err == -ENOTSUP):
            raise form_error(err)
        if err:
            raise self.error(err, key, n)
        return 1

    def _put(self, key, data, unsigned int flags):
        """Stores data; returns False if there is a value and flags say that there be none."""
        return self.store(key, data, flags, False, False) == 1

    def __setitem__(self, key, data):
        self._put(key, data, 0)

    cdef bytes get_bytes(self, object key, name_t *name):
        """The value; the caller is inside.  None: there is none."""
        cdef unsigned char small[LONG]
        cdef size_t cap, n = 0
        cdef bytes out
        cdef void *at
        cdef int err = c_get(self.v, name, small, LONG, &n)
        if not err:
            return PyBytes_FromStringAndSize(<const char *>small, <Py_ssize_t>n)
        while err == -ENOSPC:
            # *n is its size, but it may be another value by now.
            cap = n
            out = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>cap)
            at = PyBytes_AsString(out)
            with nogil:
                err = c_get(self.v, name, at, cap, &n)
            if not err:
                return out if n == cap else out[:n]
        if err == -ENOENT:
            return None
        raise self.error(err, key, n)

    cdef bytes look_up(self, object key):
        cdef name_t name
        if not can_be_key(key):
            return None
        make_name(key, &name)
        self.enter()
        try:
            return self.get_bytes(key, &name)
        finally:
            self.leave()

    def __getitem__(self, key):
        cdef bytes found = self.look_up(key)
        if found is None:
            raise KeyError(key)
        return found

    def get(self, key, default=None):
        """The value under the key as bytes, or the default if there is none."""
        cdef bytes found = self.look_up(key)
        return default if found is None else found

    def get_into(self, key, buf):
        """Reads the value under the key into a writable buffer of C order; returns its bytes.

        What the buffer has after them is as it was.  ValueError: the buffer is smaller than the
        value, and was not touched; KeyError.
        """
        cdef name_t name
        cdef Py_buffer view
        cdef size_t n = 0
        cdef int err
        find_name(key, &name)
        get_room(buf, &view)
        try:
            self.enter()
            with nogil:
                err = c_get(self.v, &name, view.buf, <size_t>view.len, &n)
            self.leave()
        finally:
            cap = view.len
            PyBuffer_Release(&view)
        if err == -ENOSPC:
            raise ValueError(f"a buffer of {cap} bytes for a value of {n}")
        if err:
            raise self.error(err, key, cap)
        return n

    def read(self, key, offset=0, size=None):
        """Bytes of a value: size of them from offset on, or fewer where it ends.

        None: all to the end.  Only the units that have them are decompressed.
        ValueError: offset or size is negative; KeyError.
        """
        if offset < 0 or (size is not None and size < 0):
            raise ValueError(f"offset {offset} and size {size} must not be negative")
        return self._read_part(key, lambda total: (offset, total if size is None else size))

    def _read_part(self, key, part):
        """The same of what part() says, as (offset, size), when it is told the value's bytes.

        It is one value's size and bytes, whoever replaces it meanwhile.
        """
        cdef name_t name
        cdef ebb_value_reader *reader = NULL
        cdef uint64_t from_
        cdef size_t want, got = 0
        cdef bytes out
        cdef void *at
        cdef int err
        find_name(key, &name)
        self.enter()
        try:
            err = c_read_open(self.v, &name, &reader)
            if err:
                raise self.error(err, key, 0)
            total = ebb_value_reader_size(reader)
            offset, size = part(total)
            from_ = min(offset, total)
            want = min(size, total - from_)
            out = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>want)
            at = PyBytes_AsString(out)
            with nogil:
                err = ebb_value_read(reader, from_, at, want, &got)
            if err:
                raise self.error(err, key, want)
        finally:
            if reader != NULL:
                ebb_value_reader_close(reader)
            self.leave()
        return out if got == want else out[:got]

    cdef bytes packed(self, object key):
        """The value's packed form; None: there is none."""
        cdef name_t name
        cdef size_t cap = 0, n = 0
        cdef bytes out = None
        cdef void *at
        cdef int err
        find_name(key, &name)
        self.enter()
        try:
            err = c_read_packed(self.v, &name, NULL, 0, &n)
            while err == -ENOSPC:
                cap = n
                out = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>cap)
                at = PyBytes_AsString(out)
                with nogil:
                    err = c_read_packed(self.v, &name, at, cap, &n)
        finally:
            self.leave()
        if err == -ENOENT:
            return None
        if err:
            raise self.error(err, key, n)
        return out if n == cap else out[:n]

    def read_packed(self, key):
        """The value under the key in its packed form, as bytes: as it is stored, with a sum.

        put_packed() of a store of the same codec and unit takes it, and unpack() of any unit.
        Nothing is compressed or decompressed.  KeyError.
        """
        cdef bytes form = self.packed(key)
        if form is None:
            raise KeyError(key)
        return form

    def packed_size_of(self, key):
        """Bytes of what read_packed() would return.  KeyError."""
        cdef name_t name
        cdef size_t n = 0
        cdef int err
        find_name(key, &name)
        self.enter()
        err = c_read_packed(self.v, &name, NULL, 0, &n)
        self.leave()
        if err != -ENOSPC:
            raise self.error(err, key, 0)
        return n

    def put_packed(self, key, data):
        """Stores the value that is in a packed form, without the codec's work.

        CorruptError: the form is damaged, or none; ValueError: another codec or unit made it, or a
        later version; MemoryError.  Then all is as it was before.
        """
        self.store(key, data, 0, True, False)

    cdef int unpack_to(self, const Py_buffer *view, void *at, size_t cap, size_t *n) except -1:
        """Errors but that the room is too small are raised; that is 1."""
        cdef int err
        self.enter()
        with nogil:
            err = ebb_values_unpack(self.v, view.buf, <size_t>view.len, at, cap, n)
        self.leave()
        if err == -EUCLEAN or err == -ENOTSUP:
            raise form_error(err)
        if err == -EIO:
            raise CorruptError("the packed form of a value does not decompress")
        if err and err != -ENOSPC:
            raise self.error(err, None, cap)
        return err == -ENOSPC

    def unpack(self, data):
        """The value that is in a packed form, as bytes, without storing it.

        CorruptError: the form is damaged, or none; ValueError: another codec than this store's made
        it, or a later version.
        """
        cdef Py_buffer view
        cdef bytes out
        cdef size_t n = 0
        cdef uint64_t cap = 0
        cdef int err
        get_view(data, &view)
        try:
            err = ebb_packed_size(view.buf, <size_t>view.len, &cap)
            if err == -ENOTSUP:
                # The sum tells whether that is damage.
                self.unpack_to(&view, NULL, 0, &n)
            if err:
                raise form_error(err)
            out = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>cap)
            # Its bytes may be changed by another thread: then it is what it is not.
            if self.unpack_to(&view, PyBytes_AsString(out), cap, &n) or n != cap:
                raise form_error(-EUCLEAN)
        finally:
            PyBuffer_Release(&view)
        return out

    def unpack_into(self, data, buf):
        """The same into a writable buffer; returns its bytes.  ValueError: it is smaller."""
        cdef Py_buffer view, room
        cdef size_t n = 0
        get_view(data, &view)
        try:
            get_room(buf, &room)
            try:
                if self.unpack_to(&view, room.buf, <size_t>room.len, &n):
                    raise ValueError(f"a buffer of {room.len} bytes for a value of {n}")
            finally:
                PyBuffer_Release(&room)
        finally:
            PyBuffer_Release(&view)
        return n

    def size_of(self, key):
        """Bytes of the value under the key, which is not read.  KeyError."""
        cdef name_t name
        cdef uint64_t n = 0
        cdef int err
        find_name(key, &name)
        self.enter()
        err = c_size(self.v, &name, &n)
        self.leave()
        if err:
            raise self.error(err, key, 0)
        return n

    def __contains__(self, key):
        cdef name_t name
        cdef uint64_t n = 0
        cdef int err
        if not can_be_key(key):
            return False
        make_name(key, &name)
        self.enter()
        err = c_size(self.v, &name, &n)
        self.leave()
        return self.was_there(err, key)

    cdef bint delete(self, object key) except -1:
        cdef name_t name
        cdef int err
        if not can_be_key(key):
            return False
        make_name(key, &name)
        self.enter()
        if self.has_large(&name):
            with nogil:
                err = c_delete(self.v, &name)
        else:
            err = c_delete(self.v, &name)
        self.leave()
        return self.was_there(err, key)

    def _delete(self, key):
        """Deletes a value; returns whether there was one."""
        return self.delete(key)

    def __delitem__(self, key):
        if not self._delete(key):
            raise KeyError(key)

    def __iter__(self):
        self.enter()
        self.leave()
        return KeyIterator(self)

    cdef int fill(self, ebb_values_stat *stat) except -1:
        cdef int err
        stat.struct_size = sizeof(stat[0])
        self.enter()
        err = c_ebb_values_stat(self.v, stat)
        self.leave()
        return self.done(err)

    def __len__(self):
        cdef ebb_values_stat stat
        self.fill(&stat)
        return stat.values

    @property
    def nbytes(self):
        """Bytes of all values, as they were put."""
        cdef ebb_values_stat stat
        self.fill(&stat)
        return stat.value_bytes

    def _stats(self):
        cdef ebb_values_stat stat
        cdef ebb_stat store
        cdef int err
        stat.struct_size = sizeof(stat)
        store.struct_size = sizeof(store)
        self.enter()
        err = c_ebb_values_stat(self.v, &stat) or c_ebb_stat(ebb_values_store(self.v), &store)
        self.leave()
        self.done(err)
        return {
            "values": stat.values,
            "nbytes": stat.value_bytes,
            "packed": stat.packed_bytes,
            "pool": store.mem_used_total,
            "pool_peak": store.mem_used_max,
            "idle": store.zone_free_bytes,
            "held_back": store.held_back_bytes,
            "meta": stat.meta_bytes + store.meta_bytes,
            "resident": store.zone_bytes + stat.meta_bytes + store.meta_bytes,
            "capacity": self.mem_limit,
        }

    def _set_capacity(self, uint64_t bytes_):
        cdef int err
        self.enter()
        err = ebb_values_set_mem_limit(self.v, bytes_)
        if not err:
            self.mem_limit = bytes_
        self.leave()
        self.done(err)

    def trim(self):
        """Moves values together and gives free memory back to the system; returns its bytes.

        Memory of deleted values goes back by itself after a while.  This is for who wants it now.
        """
        cdef uint64_t pages = 0, given = 0
        cdef int err
        self.enter()
        with nogil:
            err = ebb_compact(ebb_values_store(self.v), &pages)
            # What does not move for want of memory is no reason to keep what is free.
            if not err or err == -ENOMEM:
                err = ebb_trim(ebb_values_store(self.v), &given)
        self.leave()
        self.done(err)
        return given

    def flush(self):
        """Returns when what was deleted before is no longer held back."""
        cdef int err
        self.enter()
        with nogil:
            err = ebb_flush(ebb_values_store(self.v))
        self.leave()
        self.done(err)

    def check(self):
        """Checks all that is stored; no other thread may use it meanwhile.

        RuntimeError: it is damaged, with a sentence on how.
        """
        cdef char why[256]
        cdef int err
        self.enter()
        with nogil:
            err = ebb_values_check(self.v, why, sizeof(why))
        self.leave()
        if err == -EUCLEAN:
            raise RuntimeError((<bytes>why).decode())
        self.done(err)

    def __reduce_ex__(self, protocol):
        raise TypeError(f"a {type(self).__name__} cannot be pickled: its memory is one process's; "
                        "send its values, or open one in the other process")


@cython.final
cdef class KeyIterator:
    """Goes over the keys: those that are there all the time come exactly once."""
    cdef Values values
    cdef ebb_values_cursor cursor

    def __cinit__(self, Values values not None):
        self.values = values
        self.cursor.at = 0
        self.cursor.nth = 0
        self.cursor.end = 0

    def __iter__(self):
        return self

    def __next__(self):
        cdef ebb_values_entry entry
        cdef unsigned char key[EBB_VALUES_KEY_MAX]
        cdef int err
        entry.struct_size = sizeof(entry)
        self.values.enter()
        # One thread at a time: two that share an iterator would share its cursor.
        with cython.critical_section(self):
            err = ebb_values_next(self.values.v, &self.cursor, &entry, key)
        self.values.leave()
        if err == -ENOENT:
            raise StopIteration
        if err:
            raise self.values.error(err, None, 0)
        return key_of(&entry, key)


include "_file.pxi"
include "_steps.pxi"
include "_cache.pxi"
