// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_check.c - the invariants of core/store/check.c: each is broken once, and told by its
 * sentence. A check that never fails would let every other test pass.
 */
#include "support.h"
#include "store_calls.h"
#include "store/check.h"
#include "codecs/codecs.h"
#include "stay.h"
#include "wound.h"

#define SLOTS 2000
#define SMALL 20        /* bytes: more than 64 objects in a zspage */
#define LARGE (PAGE_SIZE / 7)      /* fewer */
#define LARGES 1000     /* the first slot with a large one */

static struct rig {
	struct source source;
	struct store store;
} rig;
static cpu_set_t cpus;          /* where the test may run */

/* ---- what there is to damage ---- */

static u64 *word(u64 slot)
{
	return (u64 *)(void *)store_slot(&rig.store, slot);
}

static u64 ref(u64 slot)
{
	return slot_ref(*word(slot));
}

static struct pool_class *class_of(u64 slot)
{
	return ref_class(&rig.store.pool, ref(slot));
}

static struct zspage *zspage_of(u64 slot)
{
	return class_at(class_of(slot), ref_zspage(class_of(slot), ref(slot)));
}

static u64 *state_of(u64 slot)
{
	return (u64 *)(void *)zspage_state(zspage_of(slot), class_of(slot)->words);
}

/*
 * The last object of a kind is in a zspage that is neither full nor empty, the first in a full one.
 */
#define PARTIAL_SMALL (LARGES - 1)
#define PARTIAL_LARGE (SLOTS - 1)
#define FULL_LARGE LARGES

static struct release_cpu *cpu_with_refs(void)
{
	for (unsigned int i = 0; i < rig.store.release.items; i++)
		if (host_a64_read(&rig.store.release.item[i]->head) !=
		    host_a64_read(&rig.store.release.item[i]->tail))
			return rig.store.release.item[i];
	must_failed(__FILE__, __LINE__, "no reference waits in a buffer", 0, 1);
}

/* The highest object that a reference to a slot's zspage can name: the zspage has fewer. */
static u64 past_all(u64 slot)
{
	must(class_of(slot)->objs <= class_of(slot)->obj_mask);
	return ref(slot) | ref_loc(class_of(slot), 0, class_of(slot)->obj_mask);
}

/* Another class of the slot's group, in whose references the number stands in the same place. */
static const struct pool_class *neighbour(u64 slot)
{
	struct pool *p = &rig.store.pool;
	const struct pool_class *found = NULL;

	for (u32 i = 0; i < p->table.nclasses; i++)
		if (&p->class[i] != class_of(slot) && p->class[i].group == class_of(slot)->group &&
		    p->class[i].obj_bits == class_of(slot)->obj_bits)
			found = &p->class[i];
	must(found != NULL);
	return found;
}

static void class_out_of_range(void) { HURT(zspage_of(0)->class, 0xfe); }
static void count_too_high(void) { HURT(*state_of(PARTIAL_SMALL), *state_of(PARTIAL_SMALL) + 1); }
static void empty(void) { HURT(*state_of(PARTIAL_LARGE), 0); }
static void too_many_pages(void) { HURT(zspage_of(0)->pages, CHAIN_MAX + 1); }
static void too_few_pages(void) { HURT(zspage_of(0)->pages, 0); }
static void full_on_a_list(void) { HURT(zspage_of(FULL_LARGE)->list, 3); }
static void partial_on_none(void) { HURT(zspage_of(PARTIAL_LARGE)->list, 0); }
static void mask(void) { HURT(class_of(0)->listed, (u16)(class_of(0)->listed ^ 1u << 5)); }
static void prev(void) { HURT(zspage_of(PARTIAL_LARGE)->prev, 12345); }
static void group(void) { HURT(zspage_of(PARTIAL_LARGE)->list, POOL_LISTS); }
static void chunks(void) { HURT(*(u64 *)(void *)&rig.store.pool.zspages.chunks, 1000); }
static void pages(void) { HURT(*(u64 *)(void *)&rig.store.pool.pages, 1); }
static void type(void) { HURT(*word(1), (u64)7 << SLOT_TYPE_SHIFT); }
static void empty_with_a_value(void) { HURT(*word(1), 5); }
static void reader(void) { HURT(*word(1), *word(1) + SLOT_READER); }
static void no_bit(void) { HURT(*word(1), *word(1) | (u64)1 << 54); }
static void held_in_a_record(void) { HURT(rig.store.holds.bucket[0], 1); }
static void no_such_object(void)
{
	HURT(*word(FULL_LARGE), *word(FULL_LARGE) | past_all(FULL_LARGE));
}
static void no_such_zspage(void) { HURT(*word(1), *word(1) | REF_LOC_MASK); }
static void lost(void) { HURT(*word(1), 0); }
static void bytes(void) { HURT(cpu_with_refs()->pushed, cpu_with_refs()->pushed + 1); }
static void freed(void) { HURT(*(u64 *)(void *)&cpu_with_refs()->freed, 1); }
static void pocket(void) { HURT(rig.store.release.item[0]->queue.nempty, 100); }
static void out(void) { HURT(rig.store.release.node->out, rig.store.release.node->out + 1); }
static void fulls(void) { HURT(rig.store.release.item[0]->queue.nfull, 1); }
static void ring_end(void) { HURT(cpu_with_refs()->end, cpu_with_refs()->end + 1); }
static void place(void) { HURT(cpu_with_refs()->at, cpu_with_refs()->at + 1); }
static void tail(void) { HURT(*(u64 *)(void *)&cpu_with_refs()->tail, RELEASE_REFS + 100000); }
static void spilling(void) { HURT(*(u64 *)(void *)&rig.store.release.item[0]->spilling, 1); }
static void in_flight(void) { HURT(*(u64 *)(void *)&rig.store.release.node->inflight[1], 1); }
static void in_flight_too(void) { HURT(*(u64 *)(void *)&rig.store.release.node->inflight[0], 1); }
static void partial(void) { HURT(class_of(0)->partial, class_of(0)->partial + 1); }
static void end_behind(void) { HURT(cpu_with_refs()->end, host_a64_read(&cpu_with_refs()->tail)); }

/* Both: a CPU from which nothing was taken yet knows its head, 0, from the start. */
static void known(void)
{
	struct release_cpu *rc = cpu_with_refs();

	HURT(rc->head_seen, host_a64_read(&rc->head));
	HURT(rc->pushed_at_head, rc->pushed + 1);
}

static void end_ahead(void)
{
	struct release_cpu *rc = cpu_with_refs();

	HURT(rc->end, host_a64_read(&rc->head) + RELEASE_REFS + 1);
}

static void in_a_buffer(void)
{
	struct release_cpu *rc = cpu_with_refs();

	HURT(rc->buf->ref[host_a64_read(&rc->head) % RELEASE_REFS], past_all(FULL_LARGE));
}

static void past_the_last(void)
{
	HURT(*state_of(PARTIAL_LARGE),
	     *state_of(PARTIAL_LARGE) | (u64)1 << class_of(PARTIAL_LARGE)->objs);
}

static void aside(void)
{
	struct pool_class *c = class_of(PARTIAL_LARGE);

	HURT(c->head[POOL_ASIDE], ref_zspage(c, ref(PARTIAL_LARGE)));
	HURT(c->listed, (u16)(c->listed | 1u << POOL_ASIDE));
}

static void unlisted(void)
{
	struct pool_class *c = class_of(PARTIAL_LARGE);
	unsigned int g = zspage_of(PARTIAL_LARGE)->list;

	HURT(c->head[g], 0);
	HURT(c->listed, (u16)(c->listed & ~(1u << g)));
	HURT(c->partial, c->partial - 1);
}

static void freed_object(void)
{
	struct pool_class *c = class_of(PARTIAL_LARGE);
	unsigned int obj = class_lowest_free(c, zspage_of(PARTIAL_LARGE));

	must(obj < c->objs);
	HURT(*word(PARTIAL_LARGE), (*word(PARTIAL_LARGE) & ~REF_LOC_MASK) |
	     ref_loc(c, ref_zspage(c, ref(PARTIAL_LARGE)), obj));
}

static void key(void)
{
	HURT(*object_key(&rig.store.pool, class_of(1), zspage_of(1), ref_obj(class_of(1), ref(1))),
	     2);
}

static void counter(void)
{
	struct store_cpu *cpu = host_percpu_peek(&rig.store.cpus, 0);

	HURT(cpu->counters.v[CNT_SAME], cpu->counters.v[CNT_SAME] + 1);
}

static void other_class(void)
{
	u64 raw = rig.store.pool.table.class[neighbour(FULL_LARGE)->place].index;

	HURT(*word(FULL_LARGE), (*word(FULL_LARGE) & ~REF_MASK) | raw << REF_CLASS_SHIFT |
	     (ref(FULL_LARGE) & REF_LOC_MASK));
}

static const struct damage table[] = {
	{ class_out_of_range, "a descriptor is of no class" },
	{ count_too_high, "popcount(used) != objects in use" },
	{ past_the_last, "popcount(used) != objects in use" },
	{ empty, "an empty zspage was not given back" },
	{ too_many_pages, "an object in use is on a page that is not there" },
	{ too_few_pages, "an object in use is on a page that is not there" },
	{ full_on_a_list, "a full zspage is on a list" },
	{ partial_on_none, "a zspage is filed below its fullness group" },
	{ mask, "a class's mask of lists is wrong" },
	{ aside, "a zspage is still put aside" },
	{ prev, "a list of zspages is damaged" },
	{ group, "a list of zspages is damaged" },
	{ unlisted, "a partial zspage is on no list" },
	{ partial, "a class does not know how many zspages are on its lists" },
	{ chunks, "a chunk of descriptors is not in use" },
	{ pages, "pages in zspages != pool_pages()" },
	{ other_class, "a reference names another class than its zspage" },
	{ no_such_zspage, "a reference names a zspage that is not there" },
	{ freed_object, "a reference names an object that is not in use" },
	{ no_such_object, "a reference names an object that is not in use" },
	{ in_a_buffer, "a reference names an object that is not in use" },
	{ type, "a slot word is of no type" },
	{ empty_with_a_value, "a slot word is of no type" },
	{ reader, "a slot is held by nobody" },
	{ no_bit, "a slot word is of no type" },
	{ held_in_a_record, "an object is held by nobody" },
	{ key, "an object has another slot's key" },
	{ bytes, "bytes held back != sum over buffers" },
	{ lost, "objects in use != references in slots and buffers" },
	{ freed, "bytes held back != sum over buffers" },
	{ pocket, "release buffers are not all queued or empty" },
	{ out, "release buffers are not all queued or empty" },
	{ known, "bytes of a ring are not what its owner knows" },
	{ ring_end, "a buffer's end is not where a push will look" },
	{ end_behind, "a buffer's end is not where a push will look" },
	{ end_ahead, "a buffer's end is not where a push will look" },
	{ place, "a buffer's end is not where a push will look" },
	{ tail, "a buffer has more than fits in it" },
	{ spilling, "an item spills, and nobody is there" },
	{ in_flight, "references are in flight, and nobody is there" },
	{ in_flight_too, "references are in flight, and nobody is there" },
	{ fulls, "a queue does not know how many buffers it has" },
	{ counter, "a counter does not match the slots" },
};

/* ---- the tests ---- */

__no_context_analysis        /* rig_close() unlocks */
static void rig_open(void)
{
	const struct store_config cfg = {
		.codec[0] = { .ops = &codec_lz4, .level = codec_lz4.default_level },
		/* so many that no buffer is missing */
		.slots = 16 * RELEASE_REFS, .chain = 8, .release_limit = 1 << 30,
	};
	unsigned char data[LARGE];

	/* On one CPU so many frees fill a buffer; the owner of a new one would know its head. */
	cpus = stay_on_this_cpu();
	source_open(&rig.source);
	must_eq(store_init(&rig.store, &rig.source.pages, &cfg), 0);
	for (u64 i = 0; i < SLOTS; i++) {
		fill_random(data, sizeof(data), i);
		must_eq(store_put(&rig.store, i, data, i < LARGES ? SMALL : LARGE, NUMA_NO_NODE),
			0);
	}
	must(class_of(0)->objs > 64 && class_of(LARGES)->objs < 64);
	must(*state_of(FULL_LARGE) == class_of(FULL_LARGE)->full);
	/* The newest of both kinds have room beside them; the drain waits until rig_close(). */
	must_eq(store_free(&rig.store, SLOTS - 2), 0);
	must_eq(store_free(&rig.store, LARGES - 2), 0);
	release_flush(&rig.store.release);
	hold_workers(&rig.store.release);
	must_hold(store_check(&rig.store));
}

__no_context_analysis
static void rig_close(void)
{
	let_workers(&rig.store.release);
	store_destroy(&rig.store);
	source_close(&rig.source);
	must_eq(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
}

static const char *check(void)
{
	return store_check(&rig.store);
}

CASE(each_invariant_that_is_broken_is_told)
{
	rig_open();
	must_eq(store_free(&rig.store, 3), 0);
	must_tell_each(table, ARRAY_LEN(table), check);
	rig_close();
}

CASE(references_that_wait_are_counted_wherever_they_are)
{
	struct release *r = &rig.store.release;
	struct release_queue *q;
	u64 before, i;

	rig_open();
	before = store_pages_taken(&rig.store);
	must(before >= pool_pages(&rig.store.pool));
	for (i = 0; i < SLOTS - 2; i++)
		if (i != LARGES - 2)
			must_eq(store_free(&rig.store, i), 0);
	for (i = 0; i < r->items && !r->item[i]->queue.full; i++)
		;
	must(i < r->items);
	q = &r->item[i]->queue;
	must(release_held(r) > 0);
	must_hold(store_check(&rig.store));
	/* Nothing is back yet. */
	must_eq(store_pages_taken(&rig.store), before);
	HURT(q->full->ref[0], past_all(PARTIAL_LARGE));
	must(store_check(&rig.store) != NULL);
	heal();
	HURT(q->full->bytes, q->full->bytes + 1);
	must(store_check(&rig.store) != NULL);
	heal();
	HURT(r->node->limit_bufs, 0);
	HURT(r->node->cpu_bufs, 0);
	must(store_check(&rig.store) != NULL);
	heal();
	rig_close();
}
