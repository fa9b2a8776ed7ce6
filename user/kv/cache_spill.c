// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* cache_spill.c - see cache_spill.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cache_spill.h"

#include <errno.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "home/private_file.h"

struct spill_record {
	u64 sum;                        /* of all that follows, and the bytes */
	u64 at, hash;
	u32 bytes, unused;
};

static const char magic[32] = "spilled values of an Ebb cache\n";

/* ---- the file ---- */

/*
 * A write past a limit of the file's size is answered by SIGXFSZ, too, which ends the process
 * unless somebody wants it.  It is blocked while we write, and taken if it was ours.
 */
#define XFSZ_BIT ((u64)1 << (SIGXFSZ - 1))

static u64 block_signal(bool *pending)
{
	u64 set = XFSZ_BIT, was = 0, now = 0;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, &was, sizeof(set));
	syscall(SYS_rt_sigpending, &now, sizeof(now));
	*pending = now & XFSZ_BIT;
	return was;
}

static void unblock_signal(u64 was, bool pending)
{
	const struct timespec at_once = { 0, 0 };
	u64 set = XFSZ_BIT;

	if (!pending)
		syscall(SYS_rt_sigtimedwait, &set, NULL, &at_once, sizeof(set));
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &was, NULL, sizeof(was));
}

/* ---- the worker ---- */

static void spill_write(struct host_work *w)
{
	const size_t at = offsetof(struct cache_spill, work);
	struct cache_spill *sp = (struct cache_spill *)((char *)w - at);
	unsigned char head[SPILL_HEAD] = { 0 };
	bool writing, pending;
	u64 chunk, was;
	size_t n;

	mutex_lock(&sp->lock);
	writing = sp->writing;
	chunk = sp->filled - 1;
	n = sp->write_bytes;
	mutex_unlock(&sp->lock);
	if (!writing)
		return;
	memcpy(head, magic, sizeof(magic));
	was = block_signal(&pending);
	/* On the disk before all else: what is there without it would be refused for ever. */
	if (!sp->has_head)
		sp->has_head = private_file_move(SYS_pwrite64, sp->fd, head, sizeof(head), 0) &&
			       !syscall(SYS_fdatasync, sp->fd);
	writing = sp->has_head &&
		  private_file_move(SYS_pwrite64, sp->fd, sp->buf[chunk & 1], n,
				    SPILL_HEAD + chunk % sp->chunks * SPILL_CHUNK);
	unblock_signal(was, pending);
	mutex_lock(&sp->lock);
	sp->writing = false;
	if (!writing) {
		host_a64_add(&sp->errors, 1);
		sp->paused = ktime_get_ns() + SPILL_PAUSE_NS;
	}
	mutex_unlock(&sp->lock);
}

/* ---- begin and end ---- */

size_t cache_spill_bytes(void)
{
	return sizeof(struct cache_spill) + 2 * SPILL_CHUNK;
}

static void free_spill(struct cache_spill *sp)
{
	host_free(sp->buf[0], SPILL_CHUNK);
	host_free(sp->buf[1], SPILL_CHUNK);
	mutex_destroy(&sp->lock);
	host_free(sp, sizeof(*sp));
}

int cache_spill_open(struct cache_spill **out, const char *path, u64 capacity)
{
	struct cache_spill *sp = host_zalloc(sizeof(*sp));
	int err = -ENOMEM;

	if (!sp)
		return err;
	mutex_init(&sp->lock);
	sp->chunks = capacity / SPILL_CHUNK;
	sp->filled = 1;
	if (syscall(SYS_getrandom, &sp->seed, sizeof(sp->seed), 0) != (long)sizeof(sp->seed))
		sp->seed = ktime_get_ns() ^ (u64)(uintptr_t)sp << 32;
	sp->buf[0] = host_zalloc(SPILL_CHUNK);
	sp->buf[1] = host_zalloc(SPILL_CHUNK);
	if (sp->buf[0] && sp->buf[1]) {
		sp->fd = private_file_open(path, magic, sizeof(magic));
		err = sp->fd < 0 ? sp->fd : 0;
	}
	if (err)
		goto no_file;
	/* A disk that hangs keeps its own thread, and nobody else's work waits. */
	err = host_work_init_slow(&sp->work, spill_write, 0);
	if (err)
		goto no_work;
	*out = sp;
	return 0;

no_work:
	syscall(SYS_close, sp->fd);
no_file:
	free_spill(sp);
	return err;
}

void cache_spill_close(struct cache_spill *sp)
{
	if (!sp)
		return;
	host_work_destroy(&sp->work);
	/* A forked child may have the file open, and with it the lock. */
	if (ftruncate(sp->fd, 0) || flock(sp->fd, LOCK_UN))
		host_a64_add(&sp->errors, 1);
	syscall(SYS_close, sp->fd);
	free_spill(sp);
}

/* ---- records ---- */

static u64 sum_of(const struct cache_spill *sp, const struct spill_record *r, const void *data)
{
	u64 head = XXH3_64bits_withSeed(&r->at, sizeof(*r) - sizeof(r->sum), sp->seed);

	return XXH3_64bits_withSeed(data, r->bytes, head);
}

/* Has the filled chunk written, and begins the next.  False: the one before is on its way. */
static bool next_chunk(struct cache_spill *sp) __must_hold(&sp->lock)
{
	if (sp->writing)
		return false;
	sp->writing = true;
	sp->write_bytes = sp->fill;
	sp->fill = 0;
	WRITE_ONCE(sp->filled, sp->filled + 1);
	return true;
}

bool cache_spill_put(struct cache_spill *sp, u64 hash, const void *data, size_t n, u64 *at)
{
	struct spill_record r = { .hash = hash, .bytes = (u32)n };
	bool fits = sizeof(r) + n <= SPILL_CHUNK, full = false;
	unsigned char *to;

	mutex_lock(&sp->lock);
	if (fits && sp->paused)
		fits = ktime_get_ns() > sp->paused;
	if (fits)
		sp->paused = 0;
	if (fits && sp->fill + sizeof(r) + n > SPILL_CHUNK) {
		fits = next_chunk(sp);
		full = fits;
	}
	if (fits) {
		r.at = sp->filled * SPILL_CHUNK + sp->fill;
		r.sum = sum_of(sp, &r, data);
		to = sp->buf[sp->filled & 1] + sp->fill;
		memcpy(to, &r, sizeof(r));
		memcpy(to + sizeof(r), data, n);
		sp->fill += sizeof(r) + n;
		*at = r.at;
	}
	mutex_unlock(&sp->lock);
	if (full)
		host_work_queue(&sp->work);
	host_a64_add(fits ? &sp->spilled : &sp->dropped, 1);
	return fits;
}

bool cache_spill_has(struct cache_spill *sp, u64 at)
{
	return at / SPILL_CHUNK + sp->chunks > READ_ONCE(sp->filled);
}

/* Copies n bytes of the log, from memory if they are not written yet. */
static bool copy_log(struct cache_spill *sp, u64 at, void *to, size_t n)
{
	u64 chunk = at / SPILL_CHUNK, off = at % SPILL_CHUNK;
	bool here;

	if (off + n > SPILL_CHUNK)
		return false;
	mutex_lock(&sp->lock);
	here = chunk == sp->filled || (chunk + 1 == sp->filled && sp->writing);
	if (here)
		memcpy(to, sp->buf[chunk & 1] + off, n);
	mutex_unlock(&sp->lock);
	return here || private_file_move(SYS_pread64, sp->fd, to, n,
					 SPILL_HEAD + chunk % sp->chunks * SPILL_CHUNK + off);
}

int cache_spill_get(struct cache_spill *sp, u64 hash, u64 at, void *data, size_t cap, size_t *n)
{
	struct spill_record r;
	bool good;

	if (!cache_spill_has(sp, at))
		return -ESTALE;
	good = copy_log(sp, at, &r, sizeof(r)) && r.at == at && r.hash == hash && r.bytes <= cap &&
	       copy_log(sp, at + sizeof(r), data, r.bytes) && r.sum == sum_of(sp, &r, data);
	/* It may have been overwritten meanwhile, which is no fault. */
	if (!good && cache_spill_has(sp, at))
		host_a64_add(&sp->bad, 1);
	*n = r.bytes;
	return good ? 0 : -ESTALE;
}

void cache_spill_flush(struct cache_spill *sp)
{
	bool more = true;
	u64 last;

	/* The last chunk when we came: others may fill one after the other meanwhile. */
	mutex_lock(&sp->lock);
	last = sp->filled - !sp->fill;
	mutex_unlock(&sp->lock);
	while (more) {
		host_work_flush(&sp->work);
		mutex_lock(&sp->lock);
		if (sp->filled == last)
			next_chunk(sp);
		more = sp->filled == last || (sp->filled == last + 1 && sp->writing);
		mutex_unlock(&sp->lock);
		if (more)
			host_work_queue(&sp->work);
	}
}
