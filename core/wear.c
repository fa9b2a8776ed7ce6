// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * wear.c - owns the sums of bytes written, one an hour.  An hour that begins takes the oldest one's
 * place.
 */
#include "wear.h"

/* The hours up to this one begin with nothing. */
static void go_to(struct wear *w, u64 hour)
{
	unsigned int n;

	for (n = 0; w->hour < hour && n < WEAR_HOURS; n++)
		w->sum[++w->hour % WEAR_HOURS] = 0;
	/* After more hours than there are sums, all of them are 0. */
	if (w->hour < hour)
		w->hour = hour;
}

void wear_add(struct wear *w, u64 hour, u64 bytes)
{
	go_to(w, hour);
	w->sum[w->hour % WEAR_HOURS] += bytes;
}

u64 wear_spent(struct wear *w, u64 hour)
{
	unsigned int i;
	u64 bytes = 0;

	go_to(w, hour);
	for (i = 0; i < WEAR_HOURS; i++)
		bytes += w->sum[i];
	return bytes;
}
