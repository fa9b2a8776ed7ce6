/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * case.h - the cases of a test program: case.c has its main(), which runs every CASE() of the
 * program's file, in the order of the file, as one group of cmocka.
 *
 *   EBB_TEST_CASE    the only cases to run, by name; * and ? as in a shell
 */
#ifndef EBB_TESTS_CASE_H
#define EBB_TESTS_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "case_list.h"

/* A program may define what is done before all cases, before each, and after each in any case. */
void before_all(void);
void before_each(void);
void clean_up(void);

/* And what holds after each that did not fail. */
void after_each(void);

#endif
