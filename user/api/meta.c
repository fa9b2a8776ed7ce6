// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* meta.c - see meta.h: what a store takes, beside the pages of its objects, too. */
#include "meta.h"

void release_reset_peak(struct release *r)
{
	unsigned int k;

	for (k = 0; k < nr_node_ids; k++)
		WRITE_ONCE(r->node[k].peak, 0);
}

u64 release_meta_bytes(struct release *r)
{
	u64 bufs = 0, scratches = 1;
	unsigned int k;

	for (k = 0; k < nr_node_ids; k++) {
		bufs += READ_ONCE(r->node[k].cpu_bufs) + READ_ONCE(r->node[k].limit_bufs);
		scratches += r->node[k].nworkers;
	}
	return bufs * sizeof(struct release_buf) + scratches * RELEASE_SCRATCH_BYTES;
}

static u64 holds_bytes(const struct holds *h)
{
	return (h->mask + 1) * sizeof(*h->bucket) + h->max * sizeof(*h->record);
}

u64 store_meta_bytes(struct store *s)
{
	return host_table_bytes(&s->table) + (host_a64_read(&s->pieces) << PAGE_SHIFT) +
	       (zspage_table_pages(&s->pool.zspages) << PAGE_SHIFT) +
	       release_meta_bytes(&s->release) + holds_bytes(&s->holds);
}

u64 store_pages_taken(struct store *s)
{
	return pool_pages(&s->pool) + zspage_table_pages(&s->pool.zspages) +
	       host_a64_read(&s->pieces);
}
