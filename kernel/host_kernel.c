// SPDX-License-Identifier: GPL-2.0-only
/*
 * host_kernel.c - the long halves of the kernel home: per-CPU items from another CPU, pages,
 * memory, deferred work.
 *
 * Owns the workqueue; other state is in the caller's structs (host_impl.h draws them).
 */
#include "host.h"

#include <linux/delay.h>
#include <linux/log2.h>
#include <linux/slab.h>
#include <linux/topology.h>
#include <linux/vmalloc.h>

#include "compat.h"

static struct workqueue_struct *queue;

/* ---- per-CPU items ---- */

/* The interrupt of barrier_on_users(). */
static void answer(void *info)
{
	struct host_percpu *pc = info;

	/* In the middle of what the owner does without one (host_impl.h). */
	smp_mb();
	if (atomic_dec_and_test(&pc->unanswered))
		complete(&pc->answered);
}

int host_kernel_percpu_init(struct host_percpu *pc, size_t bytes, struct lock_class_key *item_key,
			    struct lock_class_key *map_key)
{
	unsigned int cpu, n = host_nr_cpus();

	lockdep_init_map(&pc->map, "ebb_item", map_key, 0);
	mutex_init(&pc->each);
	init_completion(&pc->answered);
	pc->item = host_zalloc(n * sizeof(*pc->item));
	pc->call = host_zalloc(n * sizeof(*pc->call));
	if (!pc->item || !pc->call)
		goto no_memory;
	for (cpu = 0; cpu < n; cpu++) {
		/* A power of two, so that kmalloc() aligns it and no line has two CPUs' items. */
		size_t room = roundup_pow_of_two(max_t(size_t, sizeof(struct host_item) + bytes,
						       L1_CACHE_BYTES));
		int node = cpu_possible(cpu) ? cpu_to_node(cpu) : NUMA_NO_NODE;
		struct host_item *item = kvzalloc_node(room, GFP_KERNEL, node);

		if (!item)
			goto no_memory;
		spin_lock_init(&item->lock);
		lockdep_set_class(&item->lock, item_key);
		INIT_CSD(&pc->call[cpu], answer, pc);
		pc->item[cpu] = item;
	}
	return 0;

no_memory:
	host_percpu_destroy(pc);
	return -ENOMEM;
}

void host_percpu_destroy(struct host_percpu *pc)
{
	unsigned int cpu;

	for (cpu = 0; pc->item && cpu < host_nr_cpus(); cpu++)
		kvfree(pc->item[cpu]);
	host_free(pc->item, host_nr_cpus() * sizeof(*pc->item));
	host_free(pc->call, host_nr_cpus() * sizeof(*pc->call));
	pc->item = NULL;
	pc->call = NULL;
}

/* The own CPU's item is marked, or not used yet: preemption is off, taken is set. */
void host_kernel_percpu_slow(struct host_item *item)
{
	if (!atomic_read(&item->marks)) {
		WRITE_ONCE(item->used, 1);
		/* taken and used before marks; pairs with the barrier in host_percpu_each(). */
		smp_mb();
		if (!atomic_read_acquire(&item->marks))
			return;
	}
	/* Nothing was done under it; release for form's sake. */
	smp_store_release(&item->taken, 0);
	spin_lock(&item->lock);
}

/*
 * Has every CPU pass a full barrier whose item was used, and waits for that, asleep: a CPU
 * that is in user space, or a virtual one that has lost its real one, may take a while.
 *
 * This CPU has no owner on it while preemption is off, and CPUs that are offline have none: so
 * there is no CPU hotplug state, and what a dead CPU left in its items is collected by the
 * next timer or decay tick.
 */
static void barrier_on_users(struct host_percpu *pc)
{
	unsigned int cpu, self;

	atomic_set(&pc->unanswered, 1);
	reinit_completion(&pc->answered);
	preempt_disable();
	self = smp_processor_id();
	for_each_online_cpu(cpu) {
		if (cpu == self || !READ_ONCE(pc->item[cpu]->used))
			continue;
		atomic_inc(&pc->unanswered);
		if (smp_call_function_single_async(cpu, &pc->call[cpu]))
			atomic_dec(&pc->unanswered);
	}
	preempt_enable();
	if (!atomic_dec_and_test(&pc->unanswered))
		wait_for_completion(&pc->answered);
}

void host_percpu_each(struct host_percpu *pc, void (*fn)(void *item, void *arg), void *arg)
{
	const bool marked = !IS_ENABLED(CONFIG_PREEMPT_RT);
	unsigned int cpu, n = host_nr_cpus();

	mutex_lock(&pc->each);
	if (marked) {
		for (cpu = 0; cpu < n; cpu++)
			atomic_inc(&pc->item[cpu]->marks);
		/* marks before used and taken; pairs with the slow path's and the interrupt's. */
		smp_mb();
		barrier_on_users(pc);
	}
	for (cpu = 0; cpu < n; cpu++) {
		struct host_item *item = pc->item[cpu];

		if (marked)
			smp_cond_load_acquire(&item->taken, !VAL);
		spin_lock(&item->lock);
		lock_map_acquire(&pc->map);
		WRITE_ONCE(item->used, 0);
		fn(item + 1, arg);
		lock_map_release(&pc->map);
		spin_unlock(&item->lock);
		/* Release: the owner that sees no mark sees used and what fn did. */
		if (marked)
			(void)atomic_fetch_dec_release(&item->marks);
	}
	mutex_unlock(&pc->each);
}

/* ---- pages ---- */

/* What was taken from the kernel, or given back, in /proc/vmstat: a batch as a rule has one zone. */
static void count(const host_page *pages, unsigned int n, int sign)
{
	unsigned int i, run = 0;

	for (i = 0; i < n; i++) {
		struct zone *zone = page_zone((struct page *)pages[i]);

		run++;
		if (i + 1 == n || page_zone((struct page *)pages[i + 1]) != zone) {
			compat_count_zspages(zone, sign * (long)run);
			run = 0;
		}
	}
}

unsigned int host_pages_alloc(struct host_pages *src, host_page *out, unsigned int n)
{
	BUILD_BUG_ON(sizeof(host_page) != sizeof(struct page *));
	memset(out, 0, n * sizeof(*out));
	n = compat_alloc_pages_bulk(src->gfp, n, (struct page **)out);
	count(out, n, 1);
	return n;
}

void host_pages_free(struct host_pages *src, const host_page *pages, unsigned int n)
{
	count(pages, n, -1);
	release_pages((struct page **)pages, n);
}

/* ---- memory ---- */

/* From here on memory comes in whole pages, which need not be contiguous. */
#define ZALLOC_PAGES_BYTES (16 * PAGE_SIZE)

void *host_zalloc(size_t bytes)
{
	if (bytes >= ZALLOC_PAGES_BYTES)
		return __vmalloc(bytes, GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN);
	/* kmalloc() aligns powers of two to themselves, and nothing else to a line. */
	if (bytes < PAGE_SIZE)
		bytes = roundup_pow_of_two(max_t(size_t, bytes, HOST_CACHELINE));
	return kvzalloc(bytes, GFP_KERNEL | __GFP_NOWARN);
}

void host_free(void *p, size_t bytes)
{
	kvfree(p);
}

/* ---- deferred work ---- */

static void work_run(struct work_struct *work)
{
	struct host_work *w = container_of(work, struct host_work, work);

	spin_lock(&w->lock);
	/* Failing to cancel it is harmless: it then queues a run that finds nothing. */
	hrtimer_try_to_cancel(&w->timer);
	WRITE_ONCE(w->wake, HOST_KERNEL_NO_WAKE);
	spin_unlock(&w->lock);
	/* wake before what fn looks at: who queued and saw it unchanged is found by fn. */
	smp_mb();
	w->fn(w);
}

static enum hrtimer_restart work_timer(struct hrtimer *timer)
{
	struct host_work *w = container_of(timer, struct host_work, timer);

	queue_work(queue, &w->work);
	return HRTIMER_NORESTART;
}

int host_work_init(struct host_work *w, void (*fn)(struct host_work *w))
{
	w->wake = HOST_KERNEL_NO_WAKE;
	w->fn = fn;
	w->dead = false;
	spin_lock_init(&w->lock);
	INIT_WORK(&w->work, work_run);
	compat_hrtimer_setup(&w->timer, work_timer);
	return 0;
}

void host_kernel_work_arm(struct host_work *w, u64 us)
{
	spin_lock(&w->lock);
	if (us < w->wake && !w->dead) {
		WRITE_ONCE(w->wake, us);
		if (us)
			hrtimer_start(&w->timer, ns_to_ktime(us * NSEC_PER_USEC), HRTIMER_MODE_REL);
		else
			queue_work(queue, &w->work);
	}
	spin_unlock(&w->lock);
}

void host_work_flush(struct host_work *w)
{
	if (READ_ONCE(w->wake) != HOST_KERNEL_NO_WAKE)
		host_kernel_work_arm(w, 0);
	flush_work(&w->work);
}

void host_work_destroy(struct host_work *w)
{
	spin_lock(&w->lock);
	w->dead = true;
	spin_unlock(&w->lock);
	hrtimer_cancel(&w->timer);
	cancel_work_sync(&w->work);
}

int host_kernel_init(void)
{
	queue = alloc_workqueue("zram", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return queue ? 0 : -ENOMEM;
}

void host_kernel_exit(void)
{
	destroy_workqueue(queue);
}

/* ---- the rest ---- */

/* Who holds a slot may wait for a codec context, so looks soon become naps. */
void host_relax(unsigned int *spins)
{
	if (++*spins < 64)
		cpu_relax();
	else if (*spins < 256)
		cond_resched();
	else
		usleep_range(20, 100);
}
