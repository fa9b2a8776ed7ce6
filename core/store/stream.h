/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stream.h - streams: a codec context with its buffers for each CPU.
 *
 * There are as many as CPUs ran when they were made: a machine may have places for many CPUs that
 * never come, and zstd takes 200 KiB for each.  A CPU that asks for the first time is given the
 * next stream as its own, so CPUs share none as long as there are enough.  Any CPU may use any
 * stream, and passes over those that are locked: nobody waits for a thread that is preempted while
 * another stream is free.
 *
 * A thread does nothing that may sleep while it has a stream, and unlocks it after the work on one
 * page.  A read takes its stream before its hold, so holders <= streams.
 *
 * If they are lazy, a stream has a context from when its CPU first asks.  The CPU makes that with
 * the stream locked, and nobody waits for it: a thread that finds no stream free waits for
 * stream[0], which has a context to the end.
 */
#ifndef EBB_CORE_STREAM_H
#define EBB_CORE_STREAM_H

#include "codec.h"

/* On lines of its own: each read and write of a page takes the lock. */
struct stream {
	struct mutex lock;
	bool used;                      /* since somebody last looked */
	void *ctx;                      /* NULL: none yet */
	void *buf;                      /* compressed bytes; codec_bytes() */
	void *bounce;                   /* for objects that span pages; PAGE_SIZE */
	/* Of a store with units (unit.c). */
	void *unit;                     /* the pages of one, as last unpacked; codec_bytes() */
	u64 unit_is;                    /* 1 + what its slots say; 0: of none */
	unsigned int unit_has;          /* its first pages that are there */
	u64 unit_next;                  /* the slot behind the one that was read last */
	u64 unit_made;                  /* units.made, when it was unpacked */
} ____cacheline_aligned;

/*
 * Orderings (docs/internals/locking.md).
 *
 * streams.home[].  Writes: who asks first on a CPU, write_once.  Reads: read_once.  Order: none:
 *     any stream will do.
 */
struct streams {
	const struct codec_ops *codec;
	struct codec_params params;
	void (*made)(struct streams *t);        /* NULL: not lazy */
	unsigned int n;                 /* streams; fixed */
	u32 *first;                     /* [CPUs]: its own stream + 1; 0: it has not asked yet */
	host_a64 asked;                 /* CPUs that have asked */
	struct stream *stream;          /* [n] */
};

/*
 * Makes streams for any number of stores with this codec and these parameters, which are copied,
 * but for the dictionary.  If more than a page is compressed at a time there is room for a unit.
 * made: NULL, or they are lazy: all contexts but the first are made when their CPU asks, which then
 * may wait for memory, and made() is called after that with no stream locked.  Process context.
 * -ENOMEM; -EINVAL: the codec does not take the dictionary.
 */
int streams_init(struct streams *t, const struct codec_ops *codec,
		 const struct codec_params *params, void (*made)(struct streams *t));

/* No store has them any more.  Process context. */
void streams_destroy(struct streams *t);

/* Ends the context of st, which is locked, or not in use yet or any more. */
void stream_empty(struct streams *t, struct stream *st);

/* For stream_get(): gives st, which is locked, a context, and may unlock it for a moment. */
bool stream_fill(struct streams *t, struct stream *st);
/* For stream_get(): locks a stream that has a context, first at last.  Process context. */
struct stream *stream_other(struct streams *t, unsigned int first);

/* The CPU's own.  If two of its threads ask first, one stream is nobody's own, and still used. */
static inline unsigned int stream_first(struct streams *t)
{
	unsigned int cpu = raw_smp_processor_id();
	u32 first = READ_ONCE(t->first[cpu]);

	if (unlikely(!first)) {
		first = (u32)((host_a64_add(&t->asked, 1) - 1) % t->n) + 1;
		WRITE_ONCE(t->first[cpu], first);
	}
	return first - 1;
}

/* Locks a stream for the work on one page, until stream_put().  Process context. */
__no_context_analysis        /* it returns with a lock that it cannot name */
static inline struct stream *stream_get(struct streams *t)
{
	unsigned int first = stream_first(t);
	struct stream *st = &t->stream[first];

	if (likely(mutex_trylock(&st->lock))) {
		st->used = true;
		if (likely(st->ctx != NULL) || stream_fill(t, st))
			return st;
		mutex_unlock(&st->lock);
	}
	return stream_other(t, first);
}

/*
 * Compresses a page into st->buf; returns its bytes, at most cap, or PAGE_SIZE: the codec does
 * not get it so small.  -EIO: the codec failed; -ENOMEM.
 */
static inline int stream_pack(const struct codec_ops *codec, struct stream *st, const void *page,
			      size_t cap)
{
	int n = codec->compress(st->ctx, page, PAGE_SIZE, st->buf, cap);

	if (n == -ENOSPC)
		return (int)PAGE_SIZE;
	if (n == -ENOMEM)
		return n;
	/* A codec that breaks its contract must not break the pool. */
	return n <= 0 || (size_t)n > cap ? -EIO : n;
}

/* Decompresses a page.  -EIO: the bytes are not those of one; then page is zeros. */
static inline int stream_unpack(const struct codec_ops *codec, struct stream *st, const void *data,
				size_t bytes, void *page)
{
	if (codec->decompress(st->ctx, data, bytes, page, PAGE_SIZE)) {
		/* Nobody is to see how far the codec came, or what was in page before. */
		memset(page, 0, PAGE_SIZE);
		return -EIO;
	}
	return 0;
}

/* Unlocks a stream.  Any context. */
__no_context_analysis
static inline void stream_put(struct stream *st)
{
	mutex_unlock(&st->lock);
}

#endif
