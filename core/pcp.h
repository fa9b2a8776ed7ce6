/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pcp.h - per-CPU page lists in front of the home's page source.
 *
 *     pool  --pcp_free-->  [list of this CPU: count <= high]  --batch-->  host_pages_free
 *           <--pcp_alloc-                                     <--batch--  host_pages_alloc
 *
 * A list longer than high gives pages back in chunks of batch; the list is unlocked, and the
 * source's lock dropped, between two chunks, so no hold of the source's lock moves more than
 * batch pages, whatever the backlog.  high grows by a batch when a list runs over or dry, up
 * to high_max; pcp_decay() halves it on a list that was idle for a period, and makes it 0 after
 * two.
 */
#ifndef EBB_CORE_PCP_H
#define EBB_CORE_PCP_H

#include "host.h"

#define PCP_BATCH_MAX 64

struct pcp {
	struct host_pages *src;
	struct host_percpu cpus;        /* of struct pcp_cpu */
	unsigned int batch;             /* pages, 1 .. PCP_BATCH_MAX */
	unsigned int high_max;          /* pages, >= batch */
};

/*
 * batch: pages moved in one hold of the source's lock.  high_max: most pages of a list.
 * Process context.  -EINVAL: out of range; -ENOMEM.
 */
int pcp_init(struct pcp *pcp, struct host_pages *src, unsigned int batch, unsigned int high_max);

/* Gives all pages back and ends.  Process context; nobody uses the lists any more. */
void pcp_destroy(struct pcp *pcp);

/* Takes n pages, all or none.  Process context.  -ENOMEM. */
int pcp_alloc(struct pcp *pcp, host_page *out, unsigned int n);

/* Gives n pages back.  Any context. */
void pcp_free(struct pcp *pcp, const host_page *pages, unsigned int n);

/*
 * One refresh: lists that were idle since the last one shrink.  Returns whether anything
 * changed, a list's having been used included: if not, the next refresh has nothing to do
 * until a list is used.  Process context.
 */
bool pcp_decay(struct pcp *pcp);

/* Empties all lists into the source, batch by batch.  Process context. */
void pcp_drain(struct pcp *pcp);

/* Pages in all lists, each read at some moment of the call.  Any context. */
u64 pcp_count(struct pcp *pcp);

#endif
