/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stream.h - streams: a codec context with its buffers for each CPU.
 *
 * There is one for each CPU that ran when they were made: a machine may have places for many that
 * never come, and zstd takes 200 KiB for each.  A CPU's own is the next one when it first asks, so
 * that those that ask share none, whatever their numbers.  Any may be used from any CPU; a busy one
 * is passed over, so that nobody waits for a thread that lost its CPU while another stream is free.
 *
 * Nothing that may sleep is done with a stream in hand, and a read takes its stream before
 * its hold: who has a stream gives it back after the work on one page, and holders <= streams.
 *
 * Lazy ones have a context when their CPU first asks.  It is made with the lock in hand, but nobody
 * waits for that: who finds none free waits for the first, which has a context to the end.
 */
#ifndef EBB_CORE_STREAM_H
#define EBB_CORE_STREAM_H

#include "codec.h"

/* On lines of its own: each read and write of a page takes the lock. */
struct stream {
	host_mutex_t lock;
	bool used;                      /* since the last streams_trim() */
	void *ctx;                      /* NULL: none yet */
	void *buf;                      /* compressed bytes out; HOST_PAGE_SIZE */
	void *bounce;                   /* for objects that span pages; HOST_PAGE_SIZE */
} HOST_OWN_LINE;

/*
 * Orderings (docs/internals/locking.md).
 *
 * streams.home[].  Writes: who asks first on a CPU, write_once.  Reads: read_once.  Order: none:
 *     any stream will do.
 */
struct streams {
	const struct codec_ops *codec;
	struct codec_params params;
	bool lazy;
	unsigned int n;                 /* CPUs when they were made; fixed */
	u32 *home;                     /* [CPUs]: a CPU's own stream + 1; 0: it has not asked yet */
	host_a64 homes;                 /* CPUs that have asked */
	struct stream *stream;          /* [n] */
	struct host_work idle;          /* of lazy ones */
};

#define STREAMS_IDLE_US 10000000u       /* a lazy context that was not used for so long is ended */

/*
 * Streams for any number of stores with this codec and these parameters, which are copied, but for
 * the dictionary.  lazy: but for the first, a context is made when it is asked for, which may then
 * wait for memory, and ends when it is idle.  Process context; -ENOMEM; -EINVAL: the dictionary is
 * not one of the codec's.
 */
int streams_init(struct streams *t, const struct codec_ops *codec,
		 const struct codec_params *params, bool lazy);

/* No store has them any more.  Process context. */
void streams_destroy(struct streams *t);

/* Of lazy ones, ends those not used since the last call, but the first.  True: others are left. */
bool streams_trim(struct streams *t);

/*
 * What stream_get() does not do in line: gives st, which is locked, a context if it can, and drops
 * the lock for a moment; finds another than home.
 */
bool stream_fill(struct streams *t, struct stream *st);
struct stream *stream_other(struct streams *t, unsigned int home);

/* Two threads that ask on a CPU for the first time leave a stream to be found by the others. */
static inline unsigned int stream_home(struct streams *t)
{
	unsigned int cpu = host_cpu();
	u32 home = host_read_once(t->home[cpu]);

	if (host_unlikely(!home)) {
		home = (u32)((host_a64_add(&t->homes, 1) - 1) % t->n) + 1;
		host_write_once(t->home[cpu], home);
	}
	return home - 1;
}

/* A stream for the work on one page, until stream_put().  May sleep. */
HOST_NO_ANALYSIS        /* it returns with a lock that it cannot name */
static inline struct stream *stream_get(struct streams *t)
{
	unsigned int home = stream_home(t);
	struct stream *st = &t->stream[home];

	if (host_likely(host_mutex_trylock(&st->lock))) {
		st->used = true;
		if (host_likely(st->ctx != NULL) || stream_fill(t, st))
			return st;
		host_mutex_unlock(&st->lock);
	}
	return stream_other(t, home);
}

/*
 * The bytes in st->buf, at most cap, that the codec makes of a page; HOST_PAGE_SIZE: it does not
 * get it so small.  -EIO, -ENOMEM.
 */
static inline int stream_pack(const struct codec_ops *codec, struct stream *st, const void *page,
			      size_t cap)
{
	int n = codec->compress(st->ctx, page, HOST_PAGE_SIZE, st->buf, cap);

	if (n == -ENOSPC)
		return (int)HOST_PAGE_SIZE;
	if (n == -ENOMEM)
		return n;
	/* A codec that breaks its word must not break the pool's. */
	return n <= 0 || (size_t)n > cap ? -EIO : n;
}

/* The page that the codec made these bytes of.  -EIO: none; then it is zeros. */
static inline int stream_unpack(const struct codec_ops *codec, struct stream *st, const void *data,
				size_t bytes, void *page)
{
	if (codec->decompress(st->ctx, data, bytes, page, HOST_PAGE_SIZE)) {
		/* Nobody is to see how far the codec came, or what was in page before. */
		memset(page, 0, HOST_PAGE_SIZE);
		return -EIO;
	}
	return 0;
}

/* Ends that.  Any context. */
HOST_NO_ANALYSIS
static inline void stream_put(struct stream *st)
{
	host_mutex_unlock(&st->lock);
}

#endif
