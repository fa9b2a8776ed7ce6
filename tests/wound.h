/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * wound.h - damage that heals: what tests of the checks do to a state, and take back.
 */
#ifndef EBB_TESTS_WOUND_H
#define EBB_TESTS_WOUND_H

#include "support.h"

static struct {
	void *at;
	size_t bytes;
	unsigned char was[8];
} wound[8];

static unsigned int wounds;

static inline void hurt(void *at, size_t bytes, const void *with)
{
	must(wounds < ARRAY_LEN(wound) && bytes <= sizeof(wound[0].was));
	wound[wounds].at = at;
	wound[wounds].bytes = bytes;
	memcpy(wound[wounds++].was, at, bytes);
	memcpy(at, with, bytes);
}

#define HURT(place, value)                              \
	do {                                            \
		__typeof__(place) v_ = (value);         \
		hurt(&(place), sizeof(v_), &v_);        \
	} while (0)

/* The last first, in case two are of one place. */
static inline void heal(void)
{
	for (; wounds; wounds--)
		memcpy(wound[wounds - 1].at, wound[wounds - 1].was, wound[wounds - 1].bytes);
}

/* False: each place had what it was given. */
static inline bool any_hurts(void)
{
	for (unsigned int i = 0; i < wounds; i++)
		if (memcmp(wound[i].at, wound[i].was, wound[i].bytes))
			return true;
	return false;
}

struct damage {
	void (*damage)(void);
	const char *sentence;
};

/* Each damage is told by its sentence, and what is healed is whole.  check: what tells. */
static inline void must_tell_each(const struct damage *table, size_t n, const char *(*check)(void))
{
	for (size_t i = 0; i < n; i++) {
		const char *told;

		table[i].damage();
		told = any_hurts() ? check() : "the damage changes nothing";
		heal();
		if (!told || strcmp(told, table[i].sentence)) {
			printf("# told: %s\n", told ? told : "nothing");
			must_failed(__FILE__, __LINE__, table[i].sentence, 0, 1);
		}
		must_hold(check());
	}
}

#endif
