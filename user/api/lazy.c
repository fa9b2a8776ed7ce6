// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* lazy.c - ends contexts that are idle. */
#include "lazy.h"

bool lazy_trim(struct streams *t)
{
	bool more = false;
	unsigned int i;

	for (i = 1; i < t->n; i++) {
		struct stream *st = &t->stream[i];

		if (!mutex_trylock(&st->lock)) {
			more = true;
			continue;
		}
		if (!st->used)
			stream_empty(t, st);
		st->used = false;
		more |= st->ctx != NULL;
		mutex_unlock(&st->lock);
	}
	return more;
}

static void lazy_idle_run(struct host_work *w)
{
	struct lazy_streams *l =
		(struct lazy_streams *)((char *)w - offsetof(struct lazy_streams, idle));

	if (lazy_trim(&l->streams))
		host_work_queue_delayed(w, LAZY_IDLE_US);
}

static void lazy_made(struct streams *t)
{
	struct lazy_streams *l =
		(struct lazy_streams *)((char *)t - offsetof(struct lazy_streams, streams));

	host_work_queue_delayed(&l->idle, LAZY_IDLE_US);
}

int lazy_init(struct lazy_streams *l, const struct codec_ops *codec,
	      const struct codec_params *params)
{
	int err = host_work_init(&l->idle, lazy_idle_run, NUMA_NO_NODE);

	if (err)
		return err;
	err = streams_init(&l->streams, codec, params, lazy_made);
	if (err)
		host_work_destroy(&l->idle);
	return err;
}

void lazy_destroy(struct lazy_streams *l)
{
	host_work_destroy(&l->idle);
	streams_destroy(&l->streams);
}
