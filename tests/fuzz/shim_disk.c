// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* shim_disk.c - see shim_disk.h.  What breaks a rule of the kernel's aborts. */
#include "kernel_shim.h"

#include <stdio.h>

struct task_struct shim_task;

static void demand(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "kernel_shim: %s\n", what);
	abort();
}

void shim_spin_lock(spinlock_t *l)
{
	demand(spin_trylock(l), "a spin lock is taken twice");
}

void shim_spin_unlock(spinlock_t *l)
{
	demand(l->held, "a spin lock is unlocked that is not locked");
	spin_lock_init(l);
}

void shim_must_not_wait(bool ready)
{
	demand(ready, "somebody waits for what has no end");
}

void bio_init(struct bio *bio, struct block_device *bdev, struct bio_vec *table, unsigned short n,
	      unsigned int op)
{
	memset(bio, 0, sizeof(*bio));
	demand(n == 1, "a bio of one page");
	bio->op = (enum req_op)op;
	bio->bi_bdev = bdev;
	bio->bi_io_vec = table;
}

void bio_uninit(struct bio *bio)
{
	bio->bi_io_vec = NULL;
}

void __bio_add_page(struct bio *bio, struct page *page, unsigned int len, unsigned int off)
{
	demand(!bio->bi_iter.bi_size && bio->bi_io_vec, "a bio has more than its pages");
	*bio->bi_io_vec = (struct bio_vec) { page, len, off };
	bio->bi_iter.bi_size = len;
}

int blk_status_to_errno(u8 status)
{
	return status ? -EIO : 0;
}
