// SPDX-License-Identifier: GPL-2.0-only
/*
 * debugfs.c - /sys/kernel/debug/zram/zramN:
 *
 *   classes   the table that in-tree has as zsmalloc/zramN/classes.  It is not put there: that
 *             directory belongs to zsmalloc, which may come and go (zswap uses it, too)
 *   block_state   a line for each slot that has something, as in-tree's
 *   check     reading it runs every invariant of the core; the disk must be closed
 */
#include "zram.h"

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "tier/tier_check.h"

static struct dentry *root;

/* Rows and columns are in-tree's: classes without zspages, too. */

#define CLASSES_BYTES (CLASS_RAW_MAX * sizeof(struct pool_class_stat))
#define ROW_TAIL "%13llu %10llu %10llu"

static void show_row(struct seq_file *m, const struct size_class *c,
		     const struct pool_class_stat *row, struct pool_class_stat *total)
{
	unsigned int k;

	seq_printf(m, " %5u %5u ", c->index, c->size);
	for (k = 0; k < POOL_FULLNESS; k++) {
		seq_printf(m, "%9llu ", row->zspages[k]);
		total->zspages[k] += row->zspages[k];
	}
	seq_printf(m, ROW_TAIL " %16u %8llu\n", row->objs, row->used, row->pages, c->pages,
		   row->freeable);
	total->objs += row->objs;
	total->used += row->used;
	total->pages += row->pages;
	total->freeable += row->freeable;
}

/* rows: to work in. */
static void show_classes(struct seq_file *m, struct pool *p, struct pool_class_stat *rows)
{
	struct pool_class_stat total = { 0 };
	unsigned int i;

	pool_class_stats(p, rows);
	seq_printf(m, " %5s %5s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s %13s %10s %10s %16s %8s\n",
		   "class", "size", "10%", "20%", "30%", "40%", "50%", "60%", "70%", "80%", "90%",
		   "99%", "100%", "obj_allocated", "obj_used", "pages_used", "pages_per_zspage",
		   "freeable");
	for (i = 0; i < p->table.nclasses; i++)
		show_row(m, &p->table.class[i], &rows[i], &total);
	seq_printf(m, "\n %5s %5s ", "Total", "");
	for (i = 0; i < POOL_FULLNESS; i++)
		seq_printf(m, "%9llu ", total.zspages[i]);
	seq_printf(m, ROW_TAIL " %16s %8llu\n", total.objs, total.used, total.pages, "",
		   total.freeable);
}

static int classes_show(struct seq_file *m, void *unused)
{
	struct pool_class_stat *rows = host_zalloc(CLASSES_BYTES);
	struct zram *z = m->private;

	if (!rows)
		return -ENOMEM;
	down_read(&z->dev_lock);
	if (z->disksize)
		show_classes(m, &z->store.pool, rows);
	up_read(&z->dev_lock);
	host_free(rows, CLASSES_BYTES);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(classes);

/* Nobody else may use the store: a closed disk sees to that, but for the shrinker. */
static const char *debugfs_check(struct zram *z)
{
	const char *bad;

	down_write(&z->check_lock);
	zram_shrinker_remove(z);
	/* It may queue itself, and then takes no unit apart. */
	host_work_flush(&z->tick);
	shrink_set_ended(&z->store.shrink, true);
	host_work_flush(&z->rest);
	release_quiesce(&z->store.release);
	bad = ZRAM_HAS(WRITEBACK) ? tier_check(&z->store) : store_check(&z->store);
	shrink_set_ended(&z->store.shrink, false);
	zram_shrinker_add(z);
	up_write(&z->check_lock);
	return bad;
}

static int check_show(struct seq_file *m, void *unused)
{
	struct zram *z = m->private;
	const char *bad = NULL;
	int err = 0;

	mutex_lock(&z->disk->open_mutex);
	/* Who sets release_limit goes on without dev_lock. */
	mutex_lock(&z->limit_lock);
	down_write(&z->dev_lock);
	if (disk_openers(z->disk) || z->claim)
		err = -EBUSY;
	else if (z->disksize)
		bad = debugfs_check(z);
	up_write(&z->dev_lock);
	mutex_unlock(&z->limit_lock);
	mutex_unlock(&z->disk->open_mutex);
	if (!err)
		seq_printf(m, "%s\n", bad ? bad : "ok");
	return err;
}
DEFINE_SHOW_ATTRIBUTE(check);

/* In-tree's line: slot, second of the last touch, and what it is. */
static int show_slot(char *buf, size_t room, struct zram *z, u64 i, u64 word)
{
	struct store *s = &z->store;
	bool huge = slot_type(word) == SLOT_BACKED ? slot_backed_size(word) == PAGE_SIZE :
		    slot_has_object(word) && pool_ref_size(&s->pool, slot_ref(word)) == PAGE_SIZE;
	bool same = slot_type(word) == SLOT_FILL || slot_type(word) == SLOT_FILL_OBJ;

	return snprintf(buf, room, "%12llu %12u.%06d %c%c%c%c%c%c\n", i,
			z->ages ? READ_ONCE(z->ages[i]) : 0, 0, same ? 's' : '.',
			slot_type(word) == SLOT_BACKED ? 'w' : '.', huge ? 'h' : '.',
			word & SLOT_IDLE ? 'i' : '.', slot_codec(word) ? 'r' : '.',
			word & SLOT_INCOMPRESSIBLE ? 'n' : '.');
}

/*
 * Lines from slot *at on, as many as there is room for, of one piece of slots; *at moves to the
 * slot that is the next.  True: the piece was looked at, and there are more.
 */
static bool show_piece(struct zram *z, char *buf, size_t room, size_t *n, u64 *at)
{
	unsigned int left = STORE_PIECE;
	struct store *s = &z->store;
	host_a64 *slot;

	while ((slot = store_next_slot(s, at, s->slots, &left))) {
		u64 word = host_a64_read(slot);
		int line = word ? show_slot(buf + *n, room - *n, z, *at - 1, word) : 0;

		if (line >= room - *n) {
			--*at;
			return false;
		}
		*n += line;
	}
	return *at < s->slots;
}

#define BLOCK_STATE_MOST SZ_64K /* bytes that one read(2) gives */

/*
 * The file's position counts slots.  The lock is held for a piece at a time, so a reset may come in
 * between: then the lines end.
 */
static ssize_t block_state_read(struct file *file, char __user *to, size_t count, loff_t *pos)
{
	struct zram *z = file->private_data;
	size_t room = min_t(size_t, count, BLOCK_STATE_MOST), n = 0;
	char *buf = kvmalloc(room, GFP_KERNEL);
	bool more = true, any = false;
	ssize_t err = 0;
	u64 at = *pos;

	if (!buf)
		return -ENOMEM;
	while (more) {
		err = down_read_killable(&z->dev_lock);
		if (err)
			break;
		more = z->disksize && show_piece(z, buf, room, &n, &at);
		any |= z->disksize != 0;
		up_read(&z->dev_lock);
		cond_resched();
	}
	if (!err && !any)
		err = -EINVAL;
	if (n && copy_to_user(to, buf, n))
		err = -EFAULT;
	if (!err)
		*pos = at;
	kvfree(buf);
	return err ?: n;
}

static const struct file_operations block_state_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = block_state_read,
	.llseek = default_llseek,
};

void zram_debugfs_add(struct zram *z)
{
	z->debugfs = debugfs_create_dir(z->disk->disk_name, root);
	debugfs_create_file("block_state", 0400, z->debugfs, z, &block_state_fops);
	debugfs_create_file("classes", 0400, z->debugfs, z, &classes_fops);
	debugfs_create_file("check", 0400, z->debugfs, z, &check_fops);
}

void zram_debugfs_remove(struct zram *z)
{
	debugfs_remove(z->debugfs);
}

void zram_debugfs_init(void)
{
	root = debugfs_create_dir("zram", NULL);
}

void zram_debugfs_exit(void)
{
	debugfs_remove(root);
}
