// SPDX-License-Identifier: GPL-2.0-only
/*
 * policy.c - owns the thread of a device that does what nobody asks for at the moment.
 *
 *     first     pages are written out ahead of need (ahead.c), at the priority of any thread
 *     else      ages are kept, pages are written or recompressed for their age, as the last of all
 *
 * It works in units of a few milliseconds, and looks between them whether it is to end, to be
 * frozen, or to write ahead.  Nothing is in flight then, and it has no lock.
 */
#include "zram.h"

#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/sched/task.h>

#include "wb.h"

#define REST_MS 1000            /* when there is nothing to do */

/* The devices' kernels without ahead.c: nothing is written ahead. */
bool __weak zram_ahead_wanted(struct zram *z)
{
	return false;
}

void __weak zram_ahead(struct zram *z)
{
}

/* ---- the thread ---- */

static bool is_called(struct zram_policy *p)
{
	return READ_ONCE(p->kicked) || kthread_should_stop();
}

static void rest(struct zram_policy *p, unsigned int ms)
{
	WRITE_ONCE(p->stats.works, false);
	wait_event_freezable_timeout(p->wait, is_called(p), msecs_to_jiffies(ms) + 1);
	WRITE_ONCE(p->kicked, false);
	WRITE_ONCE(p->stats.works, true);
}

static void set_nice(int *now, int nice)
{
	if (*now != nice)
		sched_set_normal(current, nice);
	*now = nice;
}

static int run(void *data)
{
	struct zram *z = data;
	int nice = 0;

	set_freezable();
	while (!kthread_should_stop()) {
		try_to_freeze();
		if (zram_ahead_wanted(z)) {
			set_nice(&nice, 0);
			zram_ahead(z);
		} else {
			set_nice(&nice, MAX_NICE);
			rest(&z->policy, REST_MS);
		}
		cond_resched();
	}
	WRITE_ONCE(z->policy.stats.works, false);
	return 0;
}

/* ---- its life ---- */

bool zram_policy_on(const struct zram *z)
{
	const struct zram_policy *p = &z->policy;

	return p->is_auto || p->writeback_age || p->recompress_age;
}

int zram_policy_start(struct zram *z)
{
	struct zram_policy *p = &z->policy;
	struct task_struct *thread;

	if (p->thread || !zram_policy_on(z) || z->claim)
		return 0;
	thread = kthread_create(run, z, "%s", z->disk->disk_name);
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	WRITE_ONCE(p->thread, thread);
	wake_up_process(thread);
	return 0;
}

void zram_policy_stop(struct zram *z)
{
	struct task_struct *thread;

	down_write(&z->dev_lock);
	thread = z->policy.thread;
	WRITE_ONCE(z->policy.thread, NULL);
	up_write(&z->dev_lock);
	if (thread)
		kthread_stop(thread);
}

void zram_policy_kick(struct zram *z)
{
	WRITE_ONCE(z->policy.kicked, true);
	wake_up(&z->policy.wait);
}

void zram_policy_defaults(struct zram *z)
{
	struct zram_policy *p = &z->policy;

	p->is_auto = false;
	p->high = p->low = 0;
	WRITE_ONCE(p->writeback_age, 0);
	WRITE_ONCE(p->recompress_age, 0);
	WRITE_ONCE(p->cpu, 10);
	memset(&p->stats, 0, sizeof(p->stats));
}

void zram_policy_init(struct zram *z)
{
	init_waitqueue_head(&z->policy.wait);
}
