/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ebb_in.h - what other files of the library ask of ebb.c, and programs do not.
 */
#ifndef EBB_USER_EBB_IN_H
#define EBB_USER_EBB_IN_H

#include "ebb.h"

/* Bytes of the store's zspages now: what mem_limit is about.  One load. */
uint64_t ebb_pool_bytes(struct ebb_store *store);

#endif
