// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* ebb_pages.c - owns struct ebb_pages: per-CPU page lists over a zone, by themselves. */
#include "ebb.h"
#include "home/pcp.h"
#include "sized.h"
#include "home/zone.h"

#define MAGIC 0x6562627061676573ull     /* "ebbpages" */

struct ebb_pages {
	u64 magic;              /* as a store's */
	struct host_pages *zone;
	struct pcp pcp;
};

#define STAT_LEAST ((size_t)56)         /* bytes of version 0.1 */

_Static_assert(sizeof(struct ebb_pages_stat) >= STAT_LEAST, "structs do not shrink");
_Static_assert(sizeof(host_page) == sizeof(uint32_t), "ebb.h names pages by u32");

static bool bad(const struct ebb_pages *pages)
{
	return !pages || pages->magic != MAGIC;
}

int ebb_pages_open(struct ebb_pages **out, unsigned int batch, unsigned int high)
{
	struct ebb_pages *pages;
	int err;

	if (!out)
		return -EINVAL;
	*out = NULL;
	pages = host_user_map_wiped(sizeof(*pages));
	if (!pages)
		return -ENOMEM;
	err = zone_open(&pages->zone);
	if (!err) {
		err = pcp_init(&pages->pcp, pages->zone, batch, high);
		if (!err) {
			WRITE_ONCE(pages->zone->measure, 1);
			pages->magic = MAGIC;
			*out = pages;
			return 0;
		}
		zone_close(pages->zone);
	}
	host_user_unmap_wiped(pages, sizeof(*pages));
	return err;
}

void ebb_pages_close(struct ebb_pages *pages)
{
	if (bad(pages))
		return;
	pages->magic = 0;
	pcp_destroy(&pages->pcp);
	zone_close(pages->zone);
	host_user_unmap_wiped(pages, sizeof(*pages));
}

#define PIECE ((size_t)1 << 20)         /* pages of one call into the core */

int ebb_pages_alloc(struct ebb_pages *pages, uint32_t *ids, size_t n)
{
	size_t done = 0;

	if (bad(pages) || (!ids && n))
		return -EINVAL;
	while (done < n) {
		size_t k = n - done < PIECE ? n - done : PIECE;
		unsigned int got = host_pages_alloc(pages->zone, ids + done, (unsigned int)k,
						    NUMA_NO_NODE, HOST_MAY_WAIT);

		done += got;
		if (got < k) {
			ebb_pages_free(pages, ids, done);
			return -ENOMEM;
		}
	}
	return 0;
}

int ebb_pages_free(struct ebb_pages *pages, const uint32_t *ids, size_t n)
{
	size_t done = 0;

	if (bad(pages) || (!ids && n))
		return -EINVAL;
	while (done < n) {
		size_t k = n - done < PIECE ? n - done : PIECE;

		host_pages_free(pages->zone, ids + done, (unsigned int)k);
		done += k;
	}
	return 0;
}

int ebb_pages_free_one_hold(struct ebb_pages *pages, const uint32_t *ids, size_t n)
{
	if (bad(pages) || (!ids && n) || n > UINT32_MAX)
		return -EINVAL;
	if (n)
		zone_pages_free(pages->zone, ids, (unsigned int)n);
	return 0;
}

int ebb_pages_decay(struct ebb_pages *pages, int *changed)
{
	bool any;

	if (bad(pages))
		return -EINVAL;
	any = pcp_decay(&pages->pcp);
	if (changed)
		*changed = any;
	return 0;
}

void *ebb_pages_addr(struct ebb_pages *pages, uint32_t id)
{
	return !bad(pages) && id ? host_page_addr(pages->zone, id) : NULL;
}

int ebb_pages_stat(struct ebb_pages *pages, struct ebb_pages_stat *stat)
{
	struct ebb_pages_stat ours;
	struct zone_stat zone;

	if (bad(pages) || !stat)
		return -EINVAL;
	zone_stat(pages->zone, &zone);
	ours = (struct ebb_pages_stat){
		.holds = zone.holds,
		.max_pages_per_hold = zone.max_pages_per_hold,
		.max_hold_ns = zone.max_hold_ns,
		.p999_hold_ns = zone.p999_hold_ns,
		.listed_pages = pcp_count(&pages->pcp),
		.free_pages = zone.free_pages,
	};
	return sized_out(stat, STAT_LEAST, &ours, sizeof(ours));
}

int ebb_pages_reset_stat(struct ebb_pages *pages)
{
	if (bad(pages))
		return -EINVAL;
	zone_reset_stat(pages->zone);
	return 0;
}
