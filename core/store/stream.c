// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * stream.c - owns the codec contexts: made, shared, ended.
 */
#include "stream.h"

void stream_empty(struct streams *t, struct stream *st)
{
	if (st->ctx)
		t->codec->destroy(st->ctx);
	host_free(st->buf, codec_bytes(&t->params));
	host_free(st->bounce, PAGE_SIZE);
	host_free(st->unit, codec_bytes(&t->params));
	st->ctx = st->buf = st->bounce = st->unit = NULL;
	st->unit_is = 0;
}

/* Makes the buffers and the context of st.  False: no memory. */
static bool stream_equip(struct streams *t, struct stream *st)
{
	size_t bytes = codec_bytes(&t->params);

	st->buf = host_zalloc(bytes);
	st->bounce = host_zalloc(PAGE_SIZE);
	if (bytes > PAGE_SIZE)
		st->unit = host_zalloc(bytes);
	if (st->buf && st->bounce && (st->unit || bytes <= PAGE_SIZE))
		st->ctx = t->codec->create(&t->params);
	if (!st->ctx)
		stream_empty(t, st);
	return st->ctx != NULL;
}

__no_context_analysis        /* as stream_get() */
bool stream_fill(struct streams *t, struct stream *st)
{
	if (!stream_equip(t, st) || !t->made)
		return st->ctx != NULL;
	/* Queuing may take long, if the home has to make a thread for it. */
	mutex_unlock(&st->lock);
	t->made(t);
	mutex_lock(&st->lock);
	st->used = true;
	return st->ctx != NULL;
}

__no_context_analysis        /* as stream_get() */
struct stream *stream_other(struct streams *t, unsigned int first)
{
	struct stream *st;
	unsigned int i;

	for (i = 1; i < t->n; i++) {
		st = &t->stream[(first + i) % t->n];
		if (!mutex_trylock(&st->lock))
			continue;
		st->used = true;
		if (st->ctx)
			return st;
		mutex_unlock(&st->lock);
	}
	st = &t->stream[t->made ? 0 : first];
	mutex_lock(&st->lock);
	return st;
}

void streams_destroy(struct streams *t)
{
	unsigned int i;

	host_free(t->first, nr_cpu_ids * sizeof(*t->first));
	for (i = 0; t->stream && i < t->n; i++) {
		stream_empty(t, &t->stream[i]);
		mutex_destroy(&t->stream[i].lock);
	}
	host_free(t->stream, t->n * sizeof(*t->stream));
	if (t->codec->release)
		t->codec->release(&t->params);
}

int streams_init(struct streams *t, const struct codec_ops *codec,
		 const struct codec_params *params, void (*made)(struct streams *t))
{
	unsigned int i;
	int err;

	memset(t, 0, sizeof(*t));
	t->codec = codec;
	t->params = *params;
	if (codec->prepare) {
		err = codec->prepare(&t->params);
		if (err)
			return err;
	}
	t->n = num_online_cpus();
	t->first = host_zalloc(nr_cpu_ids * sizeof(*t->first));
	t->stream = host_zalloc(t->n * sizeof(*t->stream));
	if (!t->first || !t->stream)
		goto no_memory;
	for (i = 0; i < t->n; i++) {
		struct stream *st = &t->stream[i];

		mutex_init(&st->lock);
		if ((!made || !i) && !stream_fill(t, st))
			goto no_memory;
	}
	t->made = made;
	return 0;

no_memory:
	streams_destroy(t);
	return -ENOMEM;
}
