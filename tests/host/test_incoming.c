// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_incoming.c - a page without room waits for blocks that others free, read, or hold for a
 * moment only, and is woken.
 *
 * The store's and the tier's functions are those of the tree.  What is transcribed from kernel/zram
 * says where from.  Actor 0 reads slot 0, actor 1 frees it, actor 2 is the work of incoming.c.
 */
#include "explore_main.h"
#include "rig.h"

static struct device {
	host_a64 waits, queued;
} *d;

/* incoming.c: zram_incoming_look() */
static void incoming_look(void)
{
	if (host_a64_or(&d->waits, 0))
		host_a64_xchg(&d->queued, 1);
}

/* backing.c: backing_begin(), backing_read_ended() */
static void backing_read(struct store *s, u64 slot)
{
	static u64 buf[PAGE_SIZE / sizeof(u64)];
	u64 word;

	while (!store_backed_begin(s, slot, &word)) {
		incoming_look();
		if (store_read(s, slot, buf) != STORE_BACKED)
			return;
	}
	host_a64_read(&rig->device[slot_block(word)]);
	store_backed_end(s, word);
	incoming_look();
}

/* incoming.c: try_next().  There is no room in the store, and never will be. */
static int try_next(struct store *s, bool *held, u64 *block)
{
	struct backed *b = s->backed;
	u64 reserved = READ_ONCE(b->reserved);
	bool in_hand = host_a64_read_acquire(&b->in_hand);
	int begun = store_reserve_block(s, block);

	if (!begun)
		return 0;
	*held |= !release_help_all(&s->release);
	if (begun == -EBUSY)
		return -EBUSY;
	if (*held || in_hand || READ_ONCE(b->reserved) != reserved)
		return -EBUSY;
	return -ENOMEM;
}

static bool is_queued(const void *on)
{
	return ((const host_a64 *)on)->v;
}

/* incoming.c: begin_next(), incoming_work() */
static void incoming_work(struct store *s)
{
	bool held = false;
	u64 block = 0;
	int err;

	for (;;) {
		host_a64_set(&d->waits, 0);
		err = try_next(s, &held, &block);
		if (err) {
			host_a64_xchg(&d->waits, 1);
			held = false;
			err = try_next(s, &held, &block);
			if (err != -EBUSY)
				host_a64_set(&d->waits, 0);
		}
		if (err != -EBUSY)
			break;
		/* held: it is queued again in 2 ms. */
		if (!held) {
			explore_doing("incoming.c waits to be queued");
			explore_at(&d->queued, sizeof(d->queued));
			if (!d->queued.v)
				explore_wait(is_queued, &d->queued);
			host_a64_xchg(&d->queued, 0);
		}
	}
	if (!err)
		store_put_backed(s, 1, block);
}

static void begin(void)
{
	const struct rig_config cfg = { .cpus = 2, .pages = HOME_PAGES, .slots = 4, .blocks = 1 };

	home_open_nodes(2, 1, cfg.pages);
	if (rig_open(&cfg))
		explore_fail("it does not begin");
	d = host_zalloc(sizeof(*d));
	rig_do(&(struct op)INCOMING(0), 1);
}

static void act(unsigned int actor)
{
	struct store *s = &rig->store;

	if (actor == 0)
		backing_read(s, 0);
	else if (actor == 1)
		store_free(s, 0);
	else
		incoming_work(s);
}

static void end(void)
{
	explore_outcome(host_a64_read(store_slot(&rig->store, 1)));
	host_free(d, sizeof(*d));
	rig_check();
	rig_close();
	home_close();
}

static void choose(unsigned int i, struct explore_case *c)
{
	(void)i;
	*c = (struct explore_case){ .name = "a page without room, a free, a read", .actors = 3 };
}

int main(int argc, char **argv)
{
	const struct explore_plan plan = {
		.program = "test_incoming",
		.job = { .begin = begin, .act = act, .end = end }, .scenarios = 1, .choose = choose,
	};

	return explore_main(argc, argv, &plan);
}
