# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The part of _core.pyx that places values and gives them up.  The interpreter runs a signal's
# handler between two steps of Python code, and Ctrl-C then is an exception there.  Here it runs
# none, but in the functions in Python that are called.  So a value has a key or is given up, however
# often it is interrupted.
#
# Where _core raises an exception, Cython runs a line of Python for its traceback, as the stable ABI
# has it, and a Ctrl-C that comes right then is lost.  So what happens often raises none here.
#
#     place(), place_in_file(), move_oldest() --> settle() --exchange()--> free_one() of the old one
#
# A SpillingStore has: _at, each key --> the number of a value in memory, or a File; _order, a deque
# of (number, key); _numbers, an iterator; _file, a SpillFile.

cdef bint free_one(Values store, object where) except -1:
    """Gives up a value that no key has any more.  False: it is none."""
    if where is None:
        return False
    if isinstance(where, int):
        store.delete(where)
    else:
        (<SpillFile>store._file).give(where)
    return True


def settle(Values store not None, key, where, only=ANY):
    """A key has what was placed, and what it had before is given up.  False: it had not `only`, and
    what was placed is given up."""
    cdef object old
    try:
        old = exchange(store._at, key, where, only)
    except BaseException:
        free_one(store, where)
        raise
    if only is not ANY and old is not only:
        free_one(store, where)
        return False
    if isinstance(where, int):
        store._order.append((where, key))
    free_one(store, old)
    return True


def place(Values store not None, key, data, packed, only=ANY):
    """Keeps a value in memory for a key, as settle() says.  None: there is no room.

    packed: whether data is a value's packed form.
    """
    number = next(store._numbers)
    if store.store(number, data, 0, packed, True) == 2:
        return None
    return settle(store, key, number, only)


def place_in_file(Values store not None, key, bytes form, only=ANY):
    """The same of a packed form in the file."""
    return settle(store, key, (<SpillFile>store._file).write(form), only)


def move_oldest(Values store not None):
    """Moves the oldest value in memory into the file; returns its packed bytes.  0: there is
    none."""
    cdef object file = None
    while store._order:
        try:
            number, key = store._order.popleft()
        except IndexError:      # another thread took the last one
            break
        try:
            form = store.packed(number)
            if form is None:
                continue        # it was replaced or deleted
            file = (<SpillFile>store._file).write(form)
            old = exchange(store._at, key, file, number)
        except BaseException:
            free_one(store, file)
            store._order.appendleft((number, key))
            raise
        if old is number:
            store.delete(number)
            return len(form)
        free_one(store, file)
        file = None
    return 0


def drop_stale(Values store not None, Py_ssize_t most):
    """Looks at so many of `_order`, and drops what was replaced or deleted."""
    cdef Py_ssize_t i
    for i in range(most):
        try:
            pair = store._order.popleft()
        except IndexError:      # another thread took the last one
            break
        if store._at.get(pair[1]) is pair[0]:
            store._order.append(pair)


def remove(Values store not None, key, only=ANY):
    """Deletes a value of a SpillingStore; returns whether there was one.  only: just that one."""
    cdef object old = exchange(store._at, key, None, only)
    return (only is ANY or old is only) and free_one(store, old)


# ---- the objects of an ArrayStore ----

cdef int free_object(Values store, object kept) except -1:
    """Gives up an object's values: its head, and the pieces of its frames."""
    spills = getattr(store, "_at", None) is not None
    numbers = [kept[0]]
    for frame in kept[1]:
        numbers += frame[0]
    for number in numbers:
        if spills:
            remove(store, number)
        else:
            store.delete(number)
    return 0


def exchange_object(Values store not None, table, key, new, only=ANY):
    """exchange(); if it did so, the object from before is given up."""
    old = exchange(table, key, new, only)
    if old is not None and (only is ANY or old is only):
        free_object(store, old)
    return old


def give_up_object(Values store not None, dict table not None, key, kept):
    """Gives up an object, unless the key has it."""
    if table.get(key) is not kept:
        free_object(store, kept)
