// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bench-user store: what storing and reading a page costs, and how much of it is the codec.
 */
#include <string.h>

#include "codec.h"
#include "team.h"

enum { SLOTS, NS, CODEC, OTHER, PUT, COLD, READ, CODEC_READ };

static const struct column columns[] = {
	COUNT(SLOTS, "slots_per_thread"), SPREAD(NS, "ns_per_page", 0),
	SPREAD(CODEC, "codec_ns_per_page", 0), SPREAD(OTHER, "other_ns_per_page", 0),
	SPREAD(PUT, "store_ns_per_page", 0), SPREAD(COLD, "cold_ns_per_page", 0),
	SPREAD(READ, "read_ns_per_page", 0), SPREAD(CODEC_READ, "codec_read_ns_per_page", 0),
	{ .key = NULL },
};

struct share {
	struct team_slots slots;         /* first, for slots_fill() and slots_verify() */
	const struct packed_set *packed;
	const char *codec;
	int what;
};

static int one(const struct share *s, struct codec *c, uint64_t slot, size_t at, unsigned char *buf)
{
	size_t page = ebb_page_size(), n;
	const unsigned char *packed = packed_object(s->packed, at, &n);

	switch (s->what) {
	case READ:
		return ebb_read(s->slots.store, slot, buf, page);
	case PUT:
		return ebb_put(s->slots.store, slot, packed, n);
	case CODEC:
		codec_compress(c, data_page(s->slots.set, at), page, buf);
		return 0;
	}
	if (!codec_unpack(c, packed, n, buf, page))
		fail("the codec does not read back what it wrote");
	return 0;
}

static int work(void *arg, unsigned int i)
{
	const struct share *s = arg;
	struct codec *c = codec_open(s->codec);
	unsigned char buf[65536];
	int ret = 0;

	for (size_t p = 0; p < s->slots.each && !ret && !interrupted(); p++)
		ret = one(s, c, (uint64_t)i * s->slots.each + p, slots_page(&s->slots, i, p), buf);
	codec_close(c);
	return ret;
}

static void free_all(const struct team_slots *s)
{
	must(ebb_free(s->store, 0, (uint64_t)s->threads * s->each), "cannot free");
	must(ebb_flush(s->store), "cannot flush");
}

static void store_run(const struct bench_run *r, bench_figures v)
{
	struct share s = {
		.slots = { .set = r->set, .threads = r->threads,
			   .each = r->o->size / ebb_page_size() },
		.packed = r->loaded, .codec = r->store.codec,
	};
	double pages = (double)s.slots.each;

#define PHASE(phase, fn, said) do { \
	s.what = phase; \
	v[0][phase] = team_run(r->threads, fn, &s, said).mean_ns / pages; \
} while (0)
	v[0][SLOTS] = pages;
	s.slots.store = store_open(&r->store, (uint64_t)r->threads * s.slots.each, EBB_DEFAULT);
	PHASE(COLD, slots_fill, "cannot store a page");
	PHASE(READ, work, "cannot read a page");
	free_all(&s.slots);
	PHASE(NS, slots_fill, "cannot store a page");
	team_run(r->threads, slots_verify, &s, "cannot read a page back");
	PHASE(CODEC, work, "cannot compress");
	PHASE(CODEC_READ, work, "cannot decompress");
	free_all(&s.slots);
	PHASE(PUT, work, "cannot store an object");
#undef PHASE
	v[0][OTHER] = v[0][NS] - v[0][CODEC];
	ebb_close(s.slots.store);
}

const struct bench store_bench = {
	BENCH("store", "what storing and reading a page costs beside the codec",
"Each thread writes, reads and frees as many pages of its own; times are the mean over the threads\n"
"of their time per page:\n"
"  cold_ns_per_page    the first fill: the system zeroes fresh memory meanwhile\n"
"  ns_per_page         a fill after everything was freed: the memory is at hand\n"
"  codec_ns_per_page   compressing the same pages, nothing else; codec_read_ns_per_page\n"
"  other_ns_per_page   the difference\n"
"  store_ns_per_page   the same pages, compressed beforehand, through ebb_put()"),
	.threads_key = "threads", .data_key = "data", .rows = 1,
	.defaults = {
		.threads = { { 1, 2 }, 2 }, .data = { { "system" }, 1 }, .size = 128 << 20,
		.codecs = { { "lz4" }, 1 }, .rounds = 5,
	},
	.columns = columns,
	.copies = 2, .copies_each = true,
	.load = packed_load, .run = store_run,
};
