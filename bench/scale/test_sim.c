// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_sim.c - what the counting home says of programs so small that the answer is known.  TAP. */
#include "home.h"

#include <stdio.h>

#define NEAR 1000u      /* ps, a transfer */

static host_a64 *word;
static u32 lock, mutex;
static unsigned int cases, order[8], norder, times;

static void is(const char *what, u64 is, u64 should)
{
	printf("%s %u - %s", is == should ? "ok" : "not ok", ++cases, what);
	if (is != should)
		printf(": %llu in place of %llu", (unsigned long long)is, (unsigned long long)should);
	printf("\n");
}

static void add(void *arg)
{
	(void)arg;
	host_a64_add(word, 1);
}

static void look(void *arg)
{
	(void)arg;
	sim_access(word, sizeof(*word), false);
}

static void hold(void *arg)
{
	sim_pass((u64)(size_t)arg);             /* who comes when */
	sim_lock(lock, word);
	order[norder++] = (unsigned int)(size_t)arg;
	sim_pass(10 * NEAR);
	sim_unlock(lock, word);
}

static void sleep_for(void *arg)
{
	(void)arg;
	sim_lock(mutex, word);
	sim_pass(100 * NEAR);
	sim_unlock(mutex, word);
}

static void each(void *item, void *arg)
{
	(void)arg;
	++*(u32 *)item;
}

static void use_item(void *arg)
{
	void *item = host_percpu_lock(arg);

	sim_access(item, sizeof(u32), true);
	host_percpu_unlock(arg, item);
}

static void work(struct host_work *w)
{
	(void)w;
	times++;
}

static void all_of(unsigned int cpus, void (*fn)(void *arg), void *arg)
{
	unsigned int cpu;

	for (cpu = 0; cpu < cpus; cpu++)
		sim_begin(cpu, SIM_OP, fn, arg);
	sim_reset_counts();
}

/* The time that a run takes. */
static u64 took(void)
{
	u64 from = sim_run();

	return sim_ended(SIM_OP) - from;
}

static void lines(void)
{
	const struct sim_counts *n = sim_counts(SIM_OP);

	word = sim_memory(sizeof(*word));
	sim_begin(0, SIM_OP, add, NULL);
	sim_reset_counts();
	is("a line that nobody had takes no transfer", took(), 0);
	is("and is counted for nobody", n->remote_own + n->remote_other + n->taken_back, 0);

	all_of(4, add, NULL);
	is("writers of one line follow one another", took(), 3 * NEAR);
	is("what a CPU of the node wrote is so counted", n->remote_own, 2);
	is("what one of another node wrote, too", n->remote_other, 1);
	is("every add is done", word->v, 5);

	all_of(4, look, NULL);
	is("readers of one line hardly wait for each other", took(), NEAR + 2 * NEAR / 10);
	is("a reader that has the line takes no transfer", n->remote_own + n->remote_other, 3);
	sim_begin(0, SIM_OP, look, NULL);
	sim_reset_counts();
	is("what was read once is here", took(), 0);
	sim_begin(0, SIM_OP, add, NULL);
	sim_reset_counts();
	is("a write takes the line back from its readers", took(), NEAR);
	is("and that is counted", n->taken_back, 1);
}

static void locks(void)
{
	const struct sim_counts *n = sim_counts(SIM_OP);
	unsigned int i;

	word = sim_memory(sizeof(*word));
	lock = sim_lock_new("a lock", false);
	mutex = sim_lock_new("a mutex", true);
	for (i = 4; i--;)
		sim_begin(i, SIM_OP, hold, (void *)(size_t)(4 - i));
	sim_reset_counts();
	/* The others have come to the line by the time that the first is through. */
	is("a lock is had by one at a time", took(), 4 * 10 * NEAR + 3 * NEAR + 1);
	is("in the order in which they came", order[0] * 1000 + order[1] * 100 + order[2] * 10 + order[3],
	   1234);
	is("each wait is counted", n->waits[0] + n->waits[1] + n->waits[2], 3);

	all_of(2, sleep_for, NULL);
	is("who waits for a mutex sleeps", (took(), n->sleeps), 1);
}

static void items(void)
{
	static struct host_percpu pc;
	static struct host_work w;
	const struct sim_counts *n = sim_counts(SIM_OP);
	const struct sim_counts *setup = sim_counts(SIM_SETUP);

	host_percpu_init(&pc, sizeof(u32));
	all_of(3, use_item, &pc);
	sim_run();
	is("an own item takes no transfer and is no visit", n->remote_own + n->remote_other + n->visits, 0);
	sim_be(0);
	host_percpu_each(&pc, each, NULL);
	is("a look at all items visits each other CPU's", setup->visits, 3);

	host_work_init(&w, work, 1);
	host_work_queue(&w);
	host_work_queue(&w);
	home_start_works();
	sim_run();
	is("work that is queued twice before it runs runs once", times, 1);
}

int main(void)
{
	sim_cost = (struct sim_cost){ .remote = NEAR, .wake = 1, .slice = 1000 * NEAR };
	sim_open(4, 2);
	printf("1..18\n");
	lines();
	locks();
	items();
	return 0;
}
