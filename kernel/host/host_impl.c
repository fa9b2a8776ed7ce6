// SPDX-License-Identifier: GPL-2.0-only
/*
 * host_impl.c - the long halves of the kernel home: per-CPU items made and settled, pages,
 * memory, tables, deferred work.
 *
 * Owns two workqueues; other state is in the caller's structs (host_impl.h draws them).
 *
 *     queue   work that reclaim may wait for: it has a thread to fall back on (WQ_MEM_RECLAIM),
 *             which runs one item at a time, so each is short
 *     slow    work that may take long; nobody who frees memory waits for it
 */
#include "host.h"

#include <linux/log2.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat.h"

static struct workqueue_struct *queue, *slow;

/* ---- per-CPU items ---- */

int host_kernel_percpu_init(struct host_percpu *pc, size_t bytes, struct lock_class_key *key)
{
	unsigned int cpu, n = nr_cpu_ids;

	lockdep_init_map(&pc->map, "ebb_item", &key[1], 0);
	pc->item = host_zalloc(n * sizeof(*pc->item));
	if (!pc->item)
		goto no_memory;
	for (cpu = 0; cpu < n; cpu++) {
		/* A power of two, so that kmalloc() aligns it and no line has two CPUs' items. */
		size_t room = roundup_pow_of_two(max_t(size_t, HOST_ITEM_HEAD + bytes,
						       L1_CACHE_BYTES));
		int node = cpu_possible(cpu) ? cpu_to_node(cpu) : NUMA_NO_NODE;
		struct host_item *item = kvzalloc_node(room, GFP_KERNEL, node);

		if (!item)
			goto no_memory;
		if (HOST_ITEM_HEAD) {
			spin_lock_init(&item->lock);
			lockdep_set_class(&item->lock, &key[0]);
		}
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

	for (cpu = 0; pc->item && cpu < nr_cpu_ids; cpu++)
		kvfree(pc->item[cpu]);
	host_free(pc->item, nr_cpu_ids * sizeof(*pc->item));
	pc->item = NULL;
}

/*
 * A section runs with preemption off, so a grace period covers it; with PREEMPT_RT it is one of the
 * item's lock.
 */
void host_settle(struct host_percpu *pc)
{
	unsigned int i;

	if (!IS_ENABLED(CONFIG_PREEMPT_RT)) {
		synchronize_rcu();
		return;
	}
	for (i = 0; i < host_percpu_items(pc); i++) {
		struct host_item *item = pc->item[i];

		spin_lock(&item->lock);
		spin_unlock(&item->lock);
	}
}

/* ---- pages ---- */

/*
 * What was taken from the kernel, or given back, in /proc/vmstat: a batch as a rule has one zone.
 */
static void pages_count(const host_page *pages, unsigned int n, int sign)
{
	unsigned int i, from = 0;

	for (i = 1; i <= n; i++) {
		struct zone *zone = page_zone((struct page *)pages[from]);

		if (i == n || page_zone((struct page *)pages[i]) != zone) {
			compat_count_zspages(zone, sign * (long)(i - from));
			from = i;
		}
	}
}

/*
 * The bulk allocator gives pages down to the low watermark, and then one page by the rules of gfp.
 * A caller that may wait reclaims; if it is reclaiming already, it gets the kernel's emergency
 * pages, down to the last.  A caller that does not wait leaves those alone, unless it says
 * HOST_RECLAIMS.  HOST_AT_HAND wakes no thread, since the page may not be needed.
 */
unsigned int host_pages_alloc(struct host_pages *src, host_page *out, unsigned int n,
			      unsigned int node, unsigned int how)
{
	gfp_t gfp = GFP_NOWAIT | __GFP_NOWARN;

	if (how & HOST_MAY_WAIT)
		gfp = GFP_NOIO | __GFP_NOWARN;
	else if (how & HOST_AT_HAND)
		gfp = __GFP_NOWARN | __GFP_NOMEMALLOC;
	else if (!(how & HOST_RECLAIMS))
		gfp |= __GFP_NOMEMALLOC;
	BUILD_BUG_ON(sizeof(host_page) != sizeof(struct page *));
	BUILD_BUG_ON((int)NUMA_NO_NODE != NUMA_NO_NODE);
	memset(out, 0, n * sizeof(*out));
	n = alloc_pages_bulk_node(gfp, (int)node, n, (struct page **)out);
	pages_count(out, n, 1);
	return n;
}

void host_pages_free(struct host_pages *src, const host_page *pages, unsigned int n)
{
	pages_count(pages, n, -1);
	release_pages((struct page **)pages, n);
}

/* ---- memory ---- */

/* From here on memory comes in whole pages, which need not be contiguous. */
#define ZALLOC_PAGES_BYTES (16 * PAGE_SIZE)
/* The kernel is to kill nobody for it: the caller can do without. */
#define ZALLOC_GFP (GFP_KERNEL | __GFP_NOWARN | __GFP_RETRY_MAYFAIL)

void *host_zalloc(size_t bytes)
{
	void *mem = NULL;

	if (bytes <= PAGE_SIZE)
		return host_zalloc_node(bytes, NUMA_NO_NODE);
	/* To make pages contiguous is not worth the trouble. */
	if (bytes < ZALLOC_PAGES_BYTES)
		mem = kzalloc(bytes, GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);
	return mem ? mem : __vmalloc(bytes, ZALLOC_GFP | __GFP_ZERO);
}

/* With __GFP_RETRY_MAYFAIL kvmalloc() would try hard to make pages contiguous, too. */
void *host_zalloc_node(size_t bytes, unsigned int node)
{
	gfp_t gfp = bytes <= PAGE_SIZE ? ZALLOC_GFP : ZALLOC_GFP & ~__GFP_RETRY_MAYFAIL;

	/* kmalloc() aligns powers of two to themselves, and nothing else to a line. */
	if (bytes < PAGE_SIZE)
		bytes = roundup_pow_of_two(max_t(size_t, bytes, SMP_CACHE_BYTES));
	return kvzalloc_node(bytes, gfp, (int)node);
}

void host_free(void *p, size_t bytes)
{
	kvfree(p);
}

/* ---- tables ---- */

int host_table_init(struct host_table *t, u64 n)
{
	u64 i;

	t->pieces = t->left = ((n - 1) >> HOST_KERNEL_PIECE_SHIFT) + 1;
	t->none = page_address(ZERO_PAGE(0));
	t->piece = host_zalloc(host_table_bytes(t));
	if (!t->piece)
		return -ENOMEM;
	for (i = 0; i < t->pieces; i++) {
		t->piece[i] = t->none;
		if (!(i % PAGE_SIZE))
			cond_resched();
	}
	return 0;
}

void host_table_destroy(struct host_table *t)
{
	host_free(t->piece, host_table_bytes(t));
}

host_page host_table_take(struct host_table *t)
{
	while (t->left) {
		host_a64 *piece = t->piece[--t->left];

		if (piece != t->none)
			return (host_page)virt_to_page(piece);
		if (!(t->left % PAGE_SIZE))
			cond_resched();
	}
	return 0;
}

size_t host_table_bytes(const struct host_table *t)
{
	return t->pieces * sizeof(*t->piece);
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

	queue_work_node(w->node, w->queue, &w->work);
	return HRTIMER_NORESTART;
}

int host_work_init(struct host_work *w, void (*fn)(struct host_work *w), unsigned int node)
{
	w->node = node < nr_node_ids && node_online(node) ? (int)node : NUMA_NO_NODE;
	w->wake = HOST_KERNEL_NO_WAKE;
	w->fn = fn;
	w->queue = queue;
	w->dead = false;
	spin_lock_init(&w->lock);
	INIT_WORK(&w->work, work_run);
	compat_hrtimer_setup(&w->timer, work_timer);
	return 0;
}

int host_work_init_slow(struct host_work *w, void (*fn)(struct host_work *w), unsigned int node)
{
	int err = host_work_init(w, fn, node);

	w->queue = slow;
	return err;
}

void host_kernel_work_arm(struct host_work *w, u64 us)
{
	spin_lock(&w->lock);
	if (us < w->wake && !w->dead) {
		if (us)
			hrtimer_start(&w->timer, ns_to_ktime(us * NSEC_PER_USEC), HRTIMER_MODE_REL);
		else
			queue_work_node(w->node, w->queue, &w->work);
		/*
		 * After it: with PREEMPT_RT this thread may lose its CPU here, and who does not see
		 * wake waits for the lock, which lends it his priority.  work_run() waits for it as
		 * well.
		 */
		WRITE_ONCE(w->wake, us);
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

int host_kernel_init(const char *name)
{
	queue = alloc_workqueue("%s", WQ_UNBOUND | WQ_MEM_RECLAIM, 0, name);
	if (!queue)
		return -ENOMEM;
	slow = alloc_workqueue("%s-slow", WQ_UNBOUND, 0, name);
	if (slow)
		return 0;
	destroy_workqueue(queue);
	return -ENOMEM;
}

void host_kernel_exit(void)
{
	destroy_workqueue(slow);
	destroy_workqueue(queue);
}
