/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * case_list.h - the cases of a test program, in the order of its file, of which it has no table.
 */
#ifndef EBB_TESTS_CASE_LIST_H
#define EBB_TESTS_CASE_LIST_H

struct test_case {
	const char *name;
	void (*run)(void);
	int line;
	struct test_case *next;
};

extern struct test_case *case_first;
extern unsigned int case_count;

void case_add(struct test_case *c);

#define CASE(what_holds)                                                                      \
	static void what_holds(void);                                                         \
	__attribute__((constructor)) static void add_##what_holds(void)                       \
	{                                                                                     \
		static struct test_case c = { #what_holds, what_holds, __LINE__, 0 };         \
		case_add(&c);                                                                 \
	}                                                                                     \
	static void what_holds(void)

#endif
