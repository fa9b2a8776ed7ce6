# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The part of _core.pyx that keeps packed forms in a file without a name: the kernel gives its bytes
# back when the process ends, however that ends.  As in _steps.pxi, no Python code runs here.

from posix.types cimport off_t

cdef extern from "fcntl.h" nogil:
    enum:
        FALLOC_FL_KEEP_SIZE
        FALLOC_FL_PUNCH_HOLE
    int fallocate(int fd, int mode, off_t offset, off_t n)

cdef extern from "unistd.h" nogil:
    int c_close "close"(int fd)
    int ftruncate(int fd, off_t n)
    ssize_t pread(int fd, void *at, size_t n, off_t offset)
    ssize_t pwrite(int fd, const void *at, size_t n, off_t offset)

cdef extern from "places.h" nogil:
    struct places:
        pass
    void places_init(places *p)
    void places_end(places *p)
    uint64_t places_take(places *p, uint64_t bytes, uint64_t nbytes, uint64_t *at)
    bint places_give(places *p, uint64_t place, uint64_t bytes, uint64_t nbytes, uint64_t *at,
                     uint64_t *hole)
    void places_punched(places *p, uint64_t place)
    void places_count(places *p, uint64_t *values, uint64_t *nbytes, uint64_t *packed)


cdef int write_all(int fd, const char *data, size_t n, uint64_t at) noexcept nogil:
    """0, or an error number.  A write(2) takes at most 2 GiB."""
    cdef ssize_t done
    while n:
        done = pwrite(fd, data, n, <off_t>at)
        if done < 0 and c_errno != EINTR:
            return c_errno
        if done == 0:
            return ENOSPC
        if done > 0:
            data += done
            at += <uint64_t>done
            n -= <size_t>done
    return 0


cdef int read_all(int fd, char *data, size_t n, uint64_t at) noexcept nogil:
    """0, an error number, or -1: the file ends before."""
    cdef ssize_t done
    while n:
        done = pread(fd, data, n, <off_t>at)
        if done < 0 and c_errno != EINTR:
            return c_errno
        if done == 0:
            return -1
        if done > 0:
            data += done
            at += <uint64_t>done
            n -= <size_t>done
    return 0


@cython.final
cdef class File:
    """A value in a SpillFile."""
    cdef uint64_t place
    cdef readonly uint64_t at           # byte of the file
    cdef readonly uint64_t size         # bytes of the value
    cdef readonly uint64_t packed       # of its packed form


@cython.final
@cython.no_gc
cdef class SpillFile(Gated):
    """Packed forms in a file, which takes the descriptor fd for its own and ends with it.

    A place that is given up is soon another value's: who has read it looks whether it still is what
    he looked for.
    """
    cdef int fd
    cdef places places

    def __cinit__(self, int fd):
        self.fd = fd
        places_init(&self.places)

    cdef bint is_open(self) noexcept:
        return True

    cdef void end(self) noexcept:
        cdef int fd = self.fd
        cdef bint own = self.generation == generation
        with nogil:
            # A forked child may have it open, too, and is not to keep its bytes.
            if own and ftruncate(fd, 0):
                pass
            c_close(fd)
        places_end(&self.places)

    def fileno(self):
        """The descriptor."""
        return self.fd

    cdef File write(self, bytes form):
        """MemoryError: the file takes no more."""
        cdef File file = File.__new__(File)
        cdef const char *data = PyBytes_AsString(form)
        cdef size_t n = <size_t>PyBytes_Size(form)
        cdef int err
        err = ebb_packed_size(data, n, &file.size)
        if err:
            raise form_error(err)
        file.packed = n
        self.enter()
        file.place = places_take(&self.places, n, file.size, &file.at)
        if not file.place:
            self.leave()
            raise MemoryError("no memory for a table of what is spilled")
        with nogil:
            err = write_all(self.fd, data, n, file.at)
        if err:
            self.give_inside(file)
        self.leave()
        if err:
            raise MemoryError("the capacity is reached, and the spill takes no more: "
                              + os.strerror(err))
        return file

    def read(self, File file not None):
        """The packed form.  OSError; CorruptError: the file is shorter."""
        cdef bytes form = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>file.packed)
        cdef char *data = PyBytes_AsString(form)
        cdef int err
        self.enter()
        with nogil:
            err = read_all(self.fd, data, file.packed, file.at)
        self.leave()
        if err > 0:
            raise OSError(err, os.strerror(err))
        if err:
            raise CorruptError(f"the file ends before the {file.packed} bytes at {file.at}")
        return form

    cdef void give_inside(self, File file) noexcept:
        cdef uint64_t at, n
        if places_give(&self.places, file.place, file.packed, file.size, &at, &n):
            with nogil:
                # What a file system cannot give back serves the next value all the same.
                if fallocate(self.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, <off_t>at,
                             <off_t>n):
                    pass
                places_punched(&self.places, file.place)

    cdef int give(self, File file) except -1:
        """Gives a place up.  If the file has ended meanwhile, so has the place."""
        cdef int close
        if self.generation != generation:
            return 0
        if gate_enter(&self.gate, &close):
            self.give_inside(file)
            self.leave()
        elif close:
            self.end()
        return 0

    def counts(self):
        """How many values it has, their bytes, and those of their packed forms."""
        cdef uint64_t values = 0, nbytes = 0, packed = 0
        self.enter()
        places_count(&self.places, &values, &nbytes, &packed)
        self.leave()
        return values, nbytes, packed
