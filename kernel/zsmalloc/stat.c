// SPDX-License-Identifier: GPL-2.0-only
/*
 * stat.c - debugfs, with CONFIG_ZSMALLOC_STAT:
 *
 *     zsmalloc/NAME/classes   the table of size classes
 *     zsmalloc/NAME/release   what is held back, and how it was freed
 */
#include "zspool.h"

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "classes.h"

static struct dentry *root;

static int classes_show(struct seq_file *m, void *unused)
{
	struct pool_class_stat *rows = host_zalloc(POOL_CLASSES_BYTES);
	struct zs_pool *pool = m->private;

	if (!rows)
		return -ENOMEM;
	pool_classes_show(m, &pool->cells.pool, rows);
	host_free(rows, POOL_CLASSES_BYTES);
	return 0;
}

static int classes_open(struct inode *inode, struct file *file)
{
	return single_open_size(file, classes_show, inode->i_private, POOL_CLASSES_TEXT);
}

static const struct file_operations classes_fops = {
	.owner = THIS_MODULE,
	.open = classes_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = single_release,
};

static int release_show(struct seq_file *m, void *unused)
{
	struct zs_pool *pool = m->private;
	struct release *r = &pool->cells.release;
	struct release_stats st;

	release_stats(r, &st);
	seq_printf(m, "limit %llu\nheld %llu\npeak %llu\ndeferred %llu\nin_place %llu\n",
		   READ_ONCE(r->limit), release_held(r), release_peak(r), st.deferred, st.in_place);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(release);

void zs_stat_init(void)
{
	root = debugfs_create_dir("zsmalloc", NULL);
}

void zs_stat_exit(void)
{
	debugfs_remove_recursive(root);
}

void zs_stat_add(struct zs_pool *pool)
{
	pool->files = debugfs_create_dir(pool->name, root);
	debugfs_create_file("classes", 0444, pool->files, pool, &classes_fops);
	debugfs_create_file("release", 0444, pool->files, pool, &release_fops);
}

void zs_stat_remove(struct zs_pool *pool)
{
	debugfs_remove_recursive(pool->files);
}
