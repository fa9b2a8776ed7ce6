/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* lazy.h - streams whose contexts, but for the first, are there while their CPUs use them. */
#ifndef EBB_USER_LAZY_H
#define EBB_USER_LAZY_H

#include "store/stream.h"

#define LAZY_IDLE_US 10000000u          /* a context that is unused for so long ends */

struct lazy_streams {
	struct streams streams;
	struct host_work idle;          /* lazy_trim() */
};

/* As streams_init(), or an error of host_work_init(). */
int lazy_init(struct lazy_streams *l, const struct codec_ops *codec,
	      const struct codec_params *params);
/* As streams_destroy(). */
void lazy_destroy(struct lazy_streams *l);

/*
 * Ends the contexts, but the first, that were not used since the last call.  True: there are more.
 * Process context.
 */
bool lazy_trim(struct streams *t);

#endif
