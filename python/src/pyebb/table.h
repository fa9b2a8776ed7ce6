/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * table.h - one change of a dict at a time.
 *
 * A look at a dict and a change of it are one step where the interpreter has its lock.  A
 * free-threaded one has none, and a critical section is none either: the dict's own functions enter
 * the same section, and until 3.13 that gives up the one outside.  So such a build has a mutex.
 *
 *     table_lock --> look --> set or delete --> table_unlock
 *
 * What is between makes nothing that Python code is run for, so nobody comes here again from there:
 * in 3.13.  A later interpreter frees the old keys of a dict that grows together with what else
 * waits to be freed; if that has a finalizer, and it uses a store of the same mutex, it waits for
 * itself.  Such a build was compiled, and never run.
 *
 * What is between may wait for the dict's own section, which others leave without this mutex.  Who
 * waits for the mutex lets the interpreter stop the world, as PyMutex_Lock() has it.
 */
#ifndef PYEBB_TABLE_H
#define PYEBB_TABLE_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

#ifdef Py_GIL_DISABLED

#define TABLE_LOCKS 64u

static PyMutex table_locks[TABLE_LOCKS];

/* Several dicts may have the same; a cache line has several, too. */
static inline PyMutex *table_mutex(PyObject *table)
{
	return &table_locks[((uintptr_t)table >> 5) % TABLE_LOCKS];
}

static inline void table_lock(PyObject *table)
{
	PyMutex_Lock(table_mutex(table));
}

static inline void table_unlock(PyObject *table)
{
	PyMutex_Unlock(table_mutex(table));
}

/* In a forked child: who held one is in the parent. */
static inline void table_locks_renew(void)
{
	memset(table_locks, 0, sizeof(table_locks));
}

#else

static inline void table_lock(PyObject *table)
{
	(void)table;
}

static inline void table_unlock(PyObject *table)
{
	(void)table;
}

static inline void table_locks_renew(void)
{
}

#endif

#endif
