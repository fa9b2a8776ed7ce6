# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The part of _core.pyx that calls ebb_cache.h.  A key begins with the number of times that the
# cache was cleared: what is left in a spill from before is then nobody's.

cdef extern from "ebb_cache.h" nogil:
    enum:
        EBB_CACHE_KEY_MAX
        EBB_CACHE_VALUE_MAX
        EBB_CACHE_CAPACITY_MIN
        EBB_CACHE_ADMIT
        EBB_CACHE_SECOND_MISS
    struct ebb_cache:
        pass
    struct ebb_cache_config:
        uint64_t capacity
        const char *codec
        int32_t level
        uint32_t flags
        const char *spill
        uint64_t spill_capacity
    struct ebb_cache_stat:
        size_t struct_size
        uint64_t capacity
        uint64_t used_bytes
        uint64_t pool_bytes
        uint64_t idle_bytes
        uint64_t index_bytes
        uint64_t meta_bytes
        uint64_t pinned_bytes
        uint64_t values
        uint64_t object_bytes
        uint64_t hits
        uint64_t misses
        uint64_t puts
        uint64_t noted
        uint64_t failed
        uint64_t evicted
        uint64_t spill_values
        uint64_t spill_hits
        uint64_t spilled
        uint64_t spill_dropped
        uint64_t spill_bad
        uint64_t spill_errors
    void ebb_cache_config_init(ebb_cache_config *cfg)
    int ebb_cache_open(ebb_cache **cache, const ebb_cache_config *cfg)
    void ebb_cache_close(ebb_cache *cache)
    int ebb_cache_put(ebb_cache *c, const void *key, size_t key_bytes, const void *data,
                      size_t bytes, uint64_t charge, unsigned int flags)
    int ebb_cache_get(ebb_cache *c, const void *key, size_t key_bytes, void *buf, size_t cap,
                      size_t *bytes)
    int ebb_cache_take(ebb_cache *c, const void *key, size_t key_bytes, void *buf, size_t cap,
                       size_t *bytes)
    int ebb_cache_delete(ebb_cache *c, const void *key, size_t key_bytes)
    int ebb_cache_set_capacity(ebb_cache *c, uint64_t bytes)
    int ebb_cache_flush(ebb_cache *c)
    int c_ebb_cache_stat "ebb_cache_stat"(ebb_cache *c, ebb_cache_stat *stat)
    int ebb_cache_check(ebb_cache *c, char *why, size_t len)


cdef enum:
    ROUND = 4           # bytes of a cleared cache's number, before a key

# No value in a spill is larger.
cdef enum:
    SPILLED_MAX = 65536

SPILL_ERRORS = {
    errno.EBUSY: "The spill is another cache's",
    errno.EEXIST: "The file is no spill, and was left as it is",
    errno.ELOOP: "The spill is a symbolic link, which is not followed",
    errno.EPERM: "The spill cannot be kept from other users there",
}

MAX_CACHE_KEY = EBB_CACHE_KEY_MAX - ROUND - 1
MAX_CACHE_VALUE = EBB_CACHE_VALUE_MAX
CACHE_CAPACITY_MIN = EBB_CACHE_CAPACITY_MIN


cdef struct cache_name_t:
    size_t n
    unsigned char key[EBB_CACHE_KEY_MAX]


@cython.no_gc
cdef class CacheValues(Gated):
    """libebb's cache: what Cache is made of."""
    cdef ebb_cache *c
    cdef bint spills
    cdef size_t last            # bytes of a value that was found of late
    cdef object resize          # the lock of who changes the capacity
    cdef uint64_t capacity      # that it has when nobody clears it
    cdef uint32_t cleared       # how often that began
    cdef uint32_t restored      # how often it ended

    def __cinit__(self, *args, **kwargs):
        self.resize = threading.RLock()     # a finalizer may clear the cache that it interrupts

    def _open(self, codec, level, capacity, spill, spill_capacity, second_miss):
        """Opens it; once.  The arguments were checked."""
        cdef ebb_cache_config cfg
        cdef ebb_cache *c = NULL
        cdef bytes name = codec.encode()
        cdef bytes path
        cdef int err
        if self.c != NULL:
            raise RuntimeError("__init__() was called before")
        ebb_cache_config_init(&cfg)
        cfg.capacity = capacity
        cfg.codec = PyBytes_AsString(name)
        cfg.level = level
        if second_miss:
            cfg.flags = EBB_CACHE_SECOND_MISS
        if spill is not None:
            path = os.fsencode(spill)
            if b"\0" in path:
                raise ValueError(f"spill {spill!r}: expected a path without a NUL character")
            cfg.spill = PyBytes_AsString(path)
            cfg.spill_capacity = spill_capacity
        with nogil:
            err = ebb_cache_open(&c, &cfg)
        if err == -ENOMEM:
            raise no_memory(f"a cache of {capacity} bytes")
        if err:
            raise OSError(-err, SPILL_ERRORS.get(-err) or os.strerror(-err), spill)
        self.capacity = capacity
        self.spills = spill is not None
        self.c = c

    cdef bint is_open(self) noexcept:
        return self.c != NULL

    cdef void end(self) noexcept:
        cdef ebb_cache *c = self.c
        with nogil:
            ebb_cache_close(c)

    cdef int make_key(self, object key, cache_name_t *name) except -1:
        cdef name_t plain
        cdef uint32_t cleared = self.cleared
        make_name(key, &plain)
        memcpy(name.key, &cleared, ROUND)
        if plain.is_id:
            name.key[ROUND] = KEY_ID
            memcpy(name.key + ROUND + 1, &plain.id, sizeof(plain.id))
            name.n = ROUND + 1 + sizeof(plain.id)
            return 0
        if plain.n + ROUND > EBB_CACHE_KEY_MAX:
            raise ValueError(f"a key of {plain.n - 1} bytes; at most {MAX_CACHE_KEY} are allowed")
        memcpy(name.key + ROUND, plain.key, plain.n)
        name.n = ROUND + plain.n
        return 0

    cdef bint find_key(self, object key, cache_name_t *name) except -1:
        """The same for who looks; False: it cannot be a key, so it is not there."""
        if not can_be_key(key):
            return False
        self.make_key(key, name)
        return True

    def _put(self, key, data, admit):
        """Stores data; True: it did.  None: its key was only noted; False: there is no room."""
        cdef cache_name_t name
        cdef Py_buffer view
        cdef unsigned int flags = EBB_CACHE_ADMIT if admit else 0
        cdef uint32_t restored
        cdef int err
        get_view(data, &view)
        try:
            while True:
                restored = self.restored
                self.make_key(key, &name)
                self.enter()
                with nogil:
                    err = ebb_cache_put(self.c, name.key, name.n, view.buf, <size_t>view.len,
                                        <uint64_t>view.len, flags)
                self.leave()
                if (err != -ENOMEM and err != -EFBIG) or self.cleared == restored:
                    break
                with self.resize:       # it found no room, but in a cache that was being cleared
                    pass
        finally:
            PyBuffer_Release(&view)
        if err != -EAGAIN and err != -ENOMEM and err != -EFBIG:
            self.done(err)
        return None if err == -EAGAIN else not err

    cdef int read_to(self, cache_name_t *name, void *at, size_t cap, size_t *n,
                     bint take) noexcept:
        """Reads a value, and deletes it with take; without the interpreter's lock, if that may
        take long."""
        cdef int err
        if cap <= LONG and not self.spills:
            if take:
                return ebb_cache_take(self.c, name.key, name.n, at, cap, n)
            return ebb_cache_get(self.c, name.key, name.n, at, cap, n)
        with nogil:
            if take:
                err = ebb_cache_take(self.c, name.key, name.n, at, cap, n)
            else:
                err = ebb_cache_get(self.c, name.key, name.n, at, cap, n)
        return err

    cdef object get_one(self, object key, bint take, bint writable):
        """The value, or None."""
        cdef cache_name_t name
        cdef unsigned char small[LONG]
        cdef size_t cap = LONG, n = 0
        cdef void *at = small
        cdef bytes large = None
        cdef object out = None
        cdef Py_buffer room
        cdef int err
        if not self.find_key(key, &name):
            return None
        self.enter()
        try:
            # What is in the file is read once, and so is a value as large as the last one was.
            if self.spills:
                cap = SPILLED_MAX
            elif self.last > LONG:
                cap = min(self.last, <size_t>LARGE)
            if cap > LONG:
                large = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>cap)
                at = PyBytes_AsString(large)
            err = self.read_to(&name, at, cap, &n, take)
            if not err:
                self.last = n
                if writable:
                    return PyByteArray_FromStringAndSize(<const char *>at, <Py_ssize_t>n)
                if large is not None and n == cap:
                    return large
                return PyBytes_FromStringAndSize(<const char *>at, <Py_ssize_t>n)
            while err == -ENOSPC:
                # n is its size, but it may be another value by now.
                cap = n
                if writable:
                    out = PyByteArray_FromStringAndSize(NULL, <Py_ssize_t>cap)
                    PyObject_GetBuffer(out, &room, PyBUF_WRITABLE)
                    err = self.read_to(&name, room.buf, cap, &n, take)
                    PyBuffer_Release(&room)
                else:
                    out = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>cap)
                    err = self.read_to(&name, PyBytes_AsString(out), cap, &n, take)
                if not err:
                    self.last = n
                    return out if n == cap else out[:n]
        finally:
            self.leave()
        if err == -ENOENT:
            return None
        if err == -ENOMEM:
            raise no_memory(f"a value of {cap} bytes that is read")
        if err == -EIO:
            raise OSError(EIO, f"what is stored does not decompress, under the key {key!r}")
        self.done(err)

    def _get(self, key):
        return self.get_one(key, False, False)

    def _get_writable(self, key):
        return self.get_one(key, False, True)

    def _take(self, key):
        return self.get_one(key, True, False)

    def _has(self, key):
        cdef cache_name_t name
        cdef size_t n = 0
        cdef int err
        if not self.find_key(key, &name):
            return False
        self.enter()
        err = self.read_to(&name, NULL, 0, &n, False)
        self.leave()
        if err != -ENOSPC and err != -ENOENT:
            self.done(err)
        return err != -ENOENT

    def _delete(self, key):
        """Deletes a value; returns whether there was one."""
        cdef cache_name_t name
        cdef int err
        if not self.find_key(key, &name):
            return False
        self.enter()
        with nogil:
            err = ebb_cache_delete(self.c, name.key, name.n)
        self.leave()
        if err != -ENOENT:
            self.done(err)
        return not err

    def _set_capacity(self, uint64_t capacity):
        cdef int err
        self.enter()
        try:
            with self.resize:
                with nogil:
                    err = ebb_cache_set_capacity(self.c, capacity)
                if not err:
                    self.capacity = capacity
        finally:
            self.leave()
        self.done(err)

    def clear(self):
        """Deletes all values."""
        cdef int err
        self.enter()
        try:
            with self.resize:
                # Who has the number of before puts where nobody looks any more.
                self.cleared += 1
                with nogil:
                    err = ebb_cache_set_capacity(self.c, 0)
                    if not err:
                        err = ebb_cache_set_capacity(self.c, self.capacity)
                self.restored = self.cleared
        finally:
            self.leave()
        self.done(err)

    def flush(self):
        """Returns when what was evicted before the call is in the spill, or has failed."""
        cdef int err
        self.enter()
        with nogil:
            err = ebb_cache_flush(self.c)
        self.leave()
        self.done(err)

    def stats(self):
        """Figures as a dict, of what libebb counts since it was opened; bytes where so named.

        capacity, used_bytes: what all of it takes, of which pool_bytes, idle_bytes, index_bytes,
        meta_bytes, pinned_bytes.  values, object_bytes: now in memory.  hits, misses, puts; noted,
        failed: puts that did not store; evicted; spill_...: of the file.
        """
        cdef ebb_cache_stat stat
        cdef int err
        stat.struct_size = sizeof(stat)
        self.enter()
        err = c_ebb_cache_stat(self.c, &stat)
        self.leave()
        self.done(err)
        return {
            "capacity": self.capacity, "used_bytes": stat.used_bytes,
            "pool_bytes": stat.pool_bytes, "idle_bytes": stat.idle_bytes,
            "index_bytes": stat.index_bytes, "meta_bytes": stat.meta_bytes,
            "pinned_bytes": stat.pinned_bytes, "values": stat.values,
            "object_bytes": stat.object_bytes, "hits": stat.hits, "misses": stat.misses,
            "puts": stat.puts, "noted": stat.noted, "failed": stat.failed,
            "evicted": stat.evicted, "spill_values": stat.spill_values,
            "spill_hits": stat.spill_hits, "spilled": stat.spilled,
            "spill_dropped": stat.spill_dropped, "spill_bad": stat.spill_bad,
            "spill_errors": stat.spill_errors,
        }

    def check(self):
        """Checks all that is stored; no other thread may use it meanwhile.  RuntimeError."""
        cdef char why[256]
        cdef int err
        self.enter()
        with nogil:
            err = ebb_cache_check(self.c, why, sizeof(why))
        self.leave()
        if err == -EUCLEAN:
            raise RuntimeError((<bytes>why).decode())
        self.done(err)

    def __reduce_ex__(self, protocol):
        raise TypeError(f"a {type(self).__name__} cannot be pickled: its memory is one process's; "
                        "open one in the other process")
