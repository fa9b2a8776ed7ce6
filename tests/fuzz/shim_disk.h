/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shim_disk.h - of Linux what a writer to a block device takes (kernel_shim.h includes it): lists,
 * a thread's state, files that are disks.
 *
 * A disk is there at once: a bio has ended when submit_bio() returns, so nobody ever waits.
 */
#ifndef EBB_TESTS_SHIM_DISK_H
#define EBB_TESTS_SHIM_DISK_H

#include <fcntl.h>
#include <sys/stat.h>

struct bio;
struct bio_vec;
struct page;
#define ERESTARTNOINTR 513

/* ---- lists ---- */

struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *l)
{
	l->next = l->prev = l;
}

static inline void list_add_tail(struct list_head *e, struct list_head *l)
{
	e->prev = l->prev;
	e->next = l;
	l->prev->next = e;
	l->prev = e;
}

static inline void list_add(struct list_head *e, struct list_head *l)
{
	list_add_tail(e, l->next);
}

static inline void list_del(struct list_head *e)
{
	e->prev->next = e->next;
	e->next->prev = e->prev;
	e->next = e->prev = NULL;
}

#define list_empty(l) ((l)->next == (l))
#define list_empty_careful(l) list_empty(l)
#ifndef container_of
#define container_of(p, type, field) ((type *)((char *)(p) - offsetof(type, field)))
#endif
#define list_entry(p, type, field) container_of(p, type, field)
#define list_first_entry(l, type, field) list_entry((l)->next, type, field)
#define list_for_each_entry_safe(e, n, l, field)                                              \
	for (e = list_first_entry(l, __typeof__(*e), field),                                  \
	    n = list_entry(e->field.next, __typeof__(*e), field);                             \
	     &e->field != (l); e = n, n = list_entry(n->field.next, __typeof__(*e), field))

/* ---- threads, of which there is one ---- */

/* The home's, which nobody but this thread takes. */
void shim_spin_lock(spinlock_t *l);
void shim_spin_unlock(spinlock_t *l);
#define spin_lock(l) shim_spin_lock(l)
#define spin_unlock(l) shim_spin_unlock(l)
#define spin_lock_irq(l) spin_lock(l)
#define spin_unlock_irq(l) spin_unlock(l)
#define spin_lock_irqsave(l, flags) ((flags) = 0, spin_lock(l))
#define spin_unlock_irqrestore(l, flags) ((void)(flags), spin_unlock(l))

typedef struct {
	int none;
} wait_queue_head_t;

/* What would sleep for ever aborts. */
void shim_must_not_wait(bool ready);
#define init_waitqueue_head(w) ((w)->none = 0)
#define wake_up(w) ((void)(w))
#define wait_event(w, condition) ((void)(w), shim_must_not_wait(condition))
#define HZ 100
#define schedule_timeout_killable(ticks) shim_must_not_wait(!(ticks))
#define smp_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)

typedef struct {
	int v;
} atomic_t;

/* A work is over when it has been queued. */
struct work_struct {
	void (*fn)(struct work_struct *work);
};
struct workqueue_struct;
void queue_work(struct workqueue_struct *queue, struct work_struct *work);
#define INIT_WORK_ONSTACK(w, f) ((w)->fn = (f))
#define flush_work(w) ((void)(w))
#define destroy_work_on_stack(w) ((void)(w))
#define init_completion(c) ((c)->done = 0)
#define complete(c) ((void)(c)->done++)
#define wait_for_completion_killable_timeout(c, ticks)                                        \
	((void)(ticks), shim_must_not_wait((c)->done), 1)

struct task_struct {
	unsigned int flags;
};
extern struct task_struct shim_task;
#define current (&shim_task)
#define freezing(task) ((void)(task), false)
#define signal_pending(task) ((void)(task), false)

/* ---- disks ---- */

struct inode {
	mode_t i_mode;
	long long size;
	struct block_device *bdev;
};
struct address_space {
	struct inode *host;
};
struct file {
	struct address_space *f_mapping;
};

#ifndef O_LARGEFILE
#define O_LARGEFILE 0
#endif
#define ERR_PTR(err) ((void *)(intptr_t)(err))
#define PTR_ERR(p) ((long)(intptr_t)(p))
#define IS_ERR(p) ((uintptr_t)(p) >= (uintptr_t)-4095)
#define I_BDEV(inode) ((inode)->bdev)
#define file_bdev(file) I_BDEV((file)->f_mapping->host)
#define i_size_read(inode) ((inode)->size)
#define swap(a, b)                                                                            \
	do {                                                                                  \
		__typeof__(a) swapped = (a);                                                  \
		(a) = (b);                                                                    \
		(b) = swapped;                                                                \
	} while (0)

/* The fuzzer's: what a path names. */
struct file *filp_open(const char *path, int flags, mode_t mode);
int filp_close(struct file *file, void *id);
/* At the end of buf, with a zero after it. */
char *file_path(struct file *file, char *buf, int room);
unsigned int bdev_logical_block_size(const struct block_device *bdev);

struct blk_plug {
	int none;
};
#define blk_start_plug(p) ((p)->none = 0)
#define blk_finish_plug(p) ((void)(p))

void bio_init(struct bio *bio, struct block_device *bdev, struct bio_vec *table, unsigned short n,
	      unsigned int op);
void bio_uninit(struct bio *bio);
void __bio_add_page(struct bio *bio, struct page *page, unsigned int len, unsigned int off);
/* The fuzzer's: ends it before it returns, with no lock held but for dev_lock. */
void submit_bio(struct bio *bio);
int blk_status_to_errno(u8 status);

#define alloc_page(gfp) ((struct page *)malloc(sizeof(struct page)))
#define __free_page(page) free(page)

#endif
