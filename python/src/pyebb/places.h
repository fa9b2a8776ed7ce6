/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * places.h - which bytes of a file are free.
 *
 *     file    | region | region | region      | region | ...
 *               small: 16 KiB, cut into places of one size
 *                                 large: one place, of whole blocks
 *
 * A place has a size of 8 to 15 times a power of two, as a small one in units of 8 bytes, as a
 * large one in blocks, so at most an eighth of it is unused.  A region whose last place was given
 * back is empty: its bytes go back to the disk, and it serves any later small size, or large one
 * like its own.
 *
 *     take:  a region of the size that has room, or an empty one, or a new one at the end
 *     give:  the place --the region is empty--> who gave it punches a hole --> places_punched()
 *
 * One mutex has all of it.  What is between makes no objects of Python and waits for nothing, so
 * nobody comes here again from there.
 */
#ifndef PYEBB_PLACES_H
#define PYEBB_PLACES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PLACES_REGION 16384u    /* bytes of a small region */
#define PLACES_SMALL 8192u      /* bytes of the largest place there */
#define PLACES_LEAST 64u        /* bytes of the smallest */
#define PLACES_UNIT 8u
#define PLACES_BLOCK 4096u
#define PLACES_SIZES 256u       /* of each kind: enough for 2^64 bytes */

struct places_region {
	uint64_t at;            /* byte of the file where it begins */
	uint64_t used[PLACES_REGION / PLACES_LEAST / 64];       /* a bit a place */
	uint32_t next, prev;    /* in its list; 0: none */
	uint32_t live;          /* places in use */
	uint16_t size;
	bool is_large;
};

struct places {
	pthread_mutex_t lock;                   /* all below */
	struct places_region *region;           /* [room]; [0] is none */
	uint32_t regions, room;
	uint32_t with_room[PLACES_SIZES];       /* small ones of a size that have a free place */
	uint32_t empty, empty_large[PLACES_SIZES];
	uint64_t end;                           /* bytes of the file */
	uint64_t values, nbytes, packed;        /* that are in it */
};

/* The least size of so many units or more, and its units.  size: 8 e + v, of v << e units. */
static inline unsigned places_size(uint64_t units)
{
	unsigned e = units < 16 ? 0 : 60 - (unsigned)__builtin_clzll(units);

	return 8 * e + (unsigned)((units + ((uint64_t)1 << e) - 1) >> e);
}

static inline uint64_t places_units(unsigned size)
{
	return size < 16 ? size : (uint64_t)(8 + size % 8) << (size / 8 - 1);
}

static inline uint64_t places_bytes(const struct places_region *r)
{
	return places_units(r->size) * (r->is_large ? PLACES_BLOCK : PLACES_UNIT);
}

static inline uint64_t places_region_bytes(const struct places_region *r)
{
	return r->is_large ? places_bytes(r) : PLACES_REGION;
}

static inline unsigned places_most(const struct places_region *r)
{
	return r->is_large ? 1 : (unsigned)(PLACES_REGION / places_bytes(r));
}

static inline void places_init(struct places *p)
{
	memset(p, 0, sizeof(*p));
	pthread_mutex_init(&p->lock, NULL);
}

static inline void places_end(struct places *p)
{
	free(p->region);
	p->region = NULL;
}

static inline void places_link(struct places *p, uint32_t *list, uint32_t i)
{
	p->region[i].prev = 0;
	p->region[i].next = *list;
	if (*list)
		p->region[*list].prev = i;
	*list = i;
}

static inline void places_unlink(struct places *p, uint32_t *list, uint32_t i)
{
	struct places_region *r = &p->region[i];

	if (r->prev)
		p->region[r->prev].next = r->next;
	else
		*list = r->next;
	if (r->next)
		p->region[r->next].prev = r->prev;
}

/* A region that was never used; 0: there is no memory. */
static inline uint32_t places_add(struct places *p)
{
	uint32_t room = p->room ? 2 * p->room : 64;
	struct places_region *more;

	if (p->regions + 1 >= p->room) {
		more = realloc(p->region, room * sizeof(*more));
		if (!more)
			return 0;
		memset(more + p->room, 0, (room - p->room) * sizeof(*more));
		p->region = more;
		p->room = room;
	}
	p->region[++p->regions].at = p->end;
	return p->regions;
}

/* An empty region; 0: there is no memory. */
static inline uint32_t places_empty(struct places *p, unsigned size, bool is_large)
{
	uint32_t *list = is_large ? &p->empty_large[size] : &p->empty;
	uint32_t i = *list;
	struct places_region *r;

	if (i)
		places_unlink(p, list, i);
	else
		i = places_add(p);
	if (!i)
		return 0;
	r = &p->region[i];
	r->size = (uint16_t)size;
	r->is_large = is_large;
	if (r->at == p->end)
		p->end += places_region_bytes(r);
	return i;
}

static inline uint64_t places_take_locked(struct places *p, uint64_t bytes, uint64_t *at)
{
	bool is_large = bytes > PLACES_SMALL;
	uint64_t unit = is_large ? PLACES_BLOCK : PLACES_UNIT;
	uint64_t least = bytes < PLACES_LEAST ? PLACES_LEAST : bytes;
	unsigned size = places_size((least + unit - 1) / unit), n = 0, word = 0;
	uint32_t i = is_large ? 0 : p->with_room[size];
	struct places_region *r;

	if (!i) {
		i = places_empty(p, size, is_large);
		if (!i)
			return 0;
		if (!is_large)
			places_link(p, &p->with_room[size], i);
	}
	r = &p->region[i];
	while (!~r->used[word])
		word++;
	n = 64 * word + (unsigned)__builtin_ctzll(~r->used[word]);
	r->used[word] |= (uint64_t)1 << n % 64;
	if (++r->live == places_most(r) && !is_large)
		places_unlink(p, &p->with_room[size], i);
	*at = r->at + n * places_bytes(r);
	return (uint64_t)i << 8 | n;
}

/*
 * A place for the packed form, of so many bytes, of a value of nbytes; *at: where it is in the
 * file.  0: there is no memory.
 */
static inline uint64_t places_take(struct places *p, uint64_t bytes, uint64_t nbytes, uint64_t *at)
{
	uint64_t place;

	pthread_mutex_lock(&p->lock);
	place = places_take_locked(p, bytes, at);
	if (place) {
		p->values++;
		p->nbytes += nbytes;
		p->packed += bytes;
	}
	pthread_mutex_unlock(&p->lock);
	return place;
}

/*
 * Gives it back.  True: its region is empty, and nobody's until the caller has made a hole of these
 * bytes and called places_punched().  The only region of a size that has room is kept.
 */
static inline bool places_give(struct places *p, uint64_t place, uint64_t bytes, uint64_t nbytes,
			       uint64_t *at, uint64_t *hole)
{
	unsigned n = place & 0xff;
	uint32_t *list;
	struct places_region *r;
	bool empty;

	pthread_mutex_lock(&p->lock);
	r = &p->region[place >> 8];
	list = &p->with_room[r->size];
	r->used[n / 64] &= ~((uint64_t)1 << n % 64);
	if (r->live-- == places_most(r) && !r->is_large)
		places_link(p, list, (uint32_t)(place >> 8));
	empty = !r->live && (r->is_large || r->next || r->prev);
	if (empty && !r->is_large)
		places_unlink(p, list, (uint32_t)(place >> 8));
	*at = r->at;
	*hole = places_region_bytes(r);
	p->values--;
	p->nbytes -= nbytes;
	p->packed -= bytes;
	pthread_mutex_unlock(&p->lock);
	return empty;
}

/* The region of that place may be used again. */
static inline void places_punched(struct places *p, uint64_t place)
{
	uint32_t i = (uint32_t)(place >> 8);

	pthread_mutex_lock(&p->lock);
	places_link(p, p->region[i].is_large ? &p->empty_large[p->region[i].size] : &p->empty, i);
	pthread_mutex_unlock(&p->lock);
}

static inline void places_count(struct places *p, uint64_t *values, uint64_t *nbytes,
				uint64_t *packed)
{
	pthread_mutex_lock(&p->lock);
	*values = p->values;
	*nbytes = p->nbytes;
	*packed = p->packed;
	pthread_mutex_unlock(&p->lock);
}

#endif
