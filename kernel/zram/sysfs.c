// SPDX-License-Identifier: GPL-2.0-only
/*
 * sysfs.c - the files of /sys/block/zramN and /sys/class/zram-control.
 *
 * Names, formats and error numbers are in-tree zram's, for the tools that know them; release_limit,
 * release_stat, comp_unit and unit_stat are ours.  A refused value is named in the log.  The
 * codecs' files are in algorithm.c.
 */
#include "zram.h"

#include <linux/ctype.h>
#include <linux/device.h>
#include <linux/kstrtox.h>
#include <linux/string.h>
#include <linux/string_helpers.h>
#include <linux/sysfs.h>
#include <linux/version.h>

#include "sysfs.h"

/* No header tells of a file of in-tree zram. */
#define HAS_MAX_COMP_STREAMS (LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0))

#define COMPACT_STEPS 16        /* under one hold of dev_lock */
#define SHOWN 64                /* bytes of a refused value */

/* ---- what is written to files ---- */

ssize_t zram_refuse(struct device *dev, const char *file, const char *buf, const char *why,
		    ssize_t err)
{
	size_t len = strlen(buf);
	char text[4 * SHOWN + 1];
	int n;

	if (len && buf[len - 1] == '\n')
		len--;
	/* %pE takes what Latin-1 calls printable as it is, which is half a character in UTF-8. */
	n = string_escape_mem(buf, min_t(size_t, len, SHOWN), text, sizeof(text) - 1,
			      ESCAPE_ANY | ESCAPE_NAP, NULL);
	text[n] = 0;
	pr_notice_ratelimited("%s: %s '%s'%s: %s\n", dev ? dev_name(dev) : "zram-control", file,
			      text, len > SHOWN ? "..." : "", why);
	return err;
}

int zram_lock_unused(struct device *dev, const char *file, const char *buf)
{
	struct zram *z = zram_of(dev);

	if (down_write_killable(&z->dev_lock))
		return -EINTR;
	if (!z->disksize)
		return 0;
	up_write(&z->dev_lock);
	return zram_refuse(dev, file, buf, "the device has its size, reset first", -EBUSY);
}

bool zram_next_word(char **text, char **name, char **value)
{
	*text = skip_spaces(*text);
	if (!**text)
		return false;
	*text = next_arg(*text, name, value);
	/* "name=" is as good as no value, in all files. */
	if (*value && !**value)
		*value = NULL;
	return true;
}

/*
 * A size below 2^64, of at most 31 characters: a digit first, K, M, G, T, P or E or none at the
 * end, and a newline or none.  False: buf is something else.  Not by memparse(): before 7.0 it
 * loses the high bits of what a suffix makes too large, and takes a suffix by itself for 0.
 */
static bool parse_size(const char *buf, u64 *bytes)
{
	static const char suffixes[] = "KMGTPE";
	size_t len = strcspn(buf, "\n");
	const char *suffix;
	unsigned int shift;
	char number[32];

	if (!isdigit(*buf) || len >= sizeof(number) || (buf[len] && buf[len + 1]))
		return false;
	memcpy(number, buf, len);
	number[len] = 0;
	/* First without a suffix: the E of 0x1E is a digit. */
	if (!kstrtoull(number, 0, bytes))
		return true;
	suffix = strchr(suffixes, toupper(number[len - 1]));
	number[len - 1] = 0;
	if (!suffix || kstrtoull(number, 0, bytes))
		return false;
	shift = 10 * (unsigned int)(suffix - suffixes + 1);
	if (*bytes > U64_MAX >> shift)
		return false;
	*bytes <<= shift;
	return true;
}

/* ---- size and life ---- */

ZRAM_SHOW(disksize, "%llu", disksize)

static ssize_t disksize_store(struct device *dev, struct device_attribute *attr, const char *buf,
			      size_t len)
{
	struct zram *z = zram_of(dev);
	u64 bytes = memparse(buf, NULL);
	int err;

	if (!bytes)
		return zram_refuse(dev, "disksize", buf, "not a size", -EINVAL);
	err = zram_lock_unused(dev, "disksize", buf);
	if (err)
		return err;
	if (bytes > U64_MAX - PAGE_SIZE + 1)
		err = zram_refuse(dev, "disksize", buf, "too large", -EINVAL);
	else
		err = zram_start(z, round_up(bytes, PAGE_SIZE));
	up_write(&z->dev_lock);
	if (err == -ENOMEM)
		zram_refuse(dev, "disksize", buf, "no memory for its tables", err);
	return err ?: len;
}
static DEVICE_ATTR_RW(disksize);

static ssize_t initstate_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(zram_of(dev)->disksize) != 0);
}
static DEVICE_ATTR_RO(initstate);

static ssize_t reset_store(struct device *dev, struct device_attribute *attr, const char *buf,
			   size_t len)
{
	u16 really;
	int err = kstrtou16(buf, 10, &really);

	if (!err && !really)
		err = -EINVAL;
	if (err)
		return zram_refuse(dev, "reset", buf, "not a number over 0", err);
	err = zram_reset(zram_of(dev));
	if (err == -EINTR)
		return err;
	if (err)
		return zram_refuse(dev, "reset", buf, "the device is in use", err);
	return len;
}
static DEVICE_ATTR_WO(reset);

/* ---- memory ---- */

static ssize_t mem_limit_store(struct device *dev, struct device_attribute *attr, const char *buf,
			       size_t len)
{
	struct zram *z = zram_of(dev);
	char *end;
	u64 bytes = memparse(buf, &end);

	if (end == buf)
		return zram_refuse(dev, "mem_limit", buf, "not a size", -EINVAL);
	if (down_write_killable(&z->dev_lock))
		return -EINTR;
	/* Past the last page it wraps to no limit, which is what it says. */
	z->mem_limit = round_up(bytes, PAGE_SIZE);
	if (z->disksize)
		WRITE_ONCE(z->store.pool.limit, z->mem_limit);
	up_write(&z->dev_lock);
	return len;
}
static DEVICE_ATTR_WO(mem_limit);

#if ZRAM_HAS(UNITS)
ZRAM_SHOW(comp_unit, "%u", comp_unit)

static ssize_t comp_unit_store(struct device *dev, struct device_attribute *attr, const char *buf,
			       size_t len)
{
	struct zram *z = zram_of(dev);
	u64 bytes;
	int err;

	if (!parse_size(buf, &bytes) || !zram_fits_unit(bytes))
		return zram_refuse(dev, "comp_unit", buf,
				   "not a power of two from the page size to 64K", -EINVAL);
	err = zram_lock_unused(dev, "comp_unit", buf);
	if (err)
		return err;
	z->comp_unit = bytes;
	up_write(&z->dev_lock);
	return len;
}
static DEVICE_ATTR_RW(comp_unit);
#endif

static ssize_t mem_used_max_store(struct device *dev, struct device_attribute *attr,
				  const char *buf, size_t len)
{
	struct zram *z = zram_of(dev);
	unsigned long value;

	if (kstrtoul(buf, 10, &value) || value)
		return zram_refuse(dev, "mem_used_max", buf, "only 0 resets it", -EINVAL);
	if (down_read_killable(&z->dev_lock))
		return -EINTR;
	if (z->disksize)
		pool_reset_peak(&z->store.pool);
	up_read(&z->dev_lock);
	return len;
}
static DEVICE_ATTR_WO(mem_used_max);

int zram_compact(struct zram *z)
{
	struct pool_compaction pc = { 0 };
	bool begun = false, more;

	do {
		if (host_interrupted() || down_read_killable(&z->dev_lock))
			return -EINTR;
		more = z->disksize;
		if (more && !begun) {
			release_flush(&z->store.release);
			pool_compact_begin(&z->store.pool, &pc);
			begun = true;
		} else if (more) {
			more = pool_compact_go(&z->store.pool, &pc, COMPACT_STEPS);
		}
		if (begun && !more && z->disksize)
			zram_note_freed(z);
		up_read(&z->dev_lock);
		cond_resched();
	} while (more);
	return begun ? 0 : -EINVAL;
}

static ssize_t compact_store(struct device *dev, struct device_attribute *attr, const char *buf,
			     size_t len)
{
	int err = zram_compact(zram_of(dev));

	if (err == -EINVAL)
		return zram_refuse(dev, "compact", buf, "the device has no size yet", err);
	return err ?: len;
}
static DEVICE_ATTR_WO(compact);

ZRAM_SHOW(release_limit, "%llu", release_limit)

/* Has the limit's buffers made without dev_lock: limit_lock is held, so a store stays. */
static int set_limit(struct zram *z, u64 bytes)
{
	bool has_store;
	int err;

	if (down_read_killable(&z->dev_lock))
		return -EINTR;
	has_store = z->disksize;
	if (!has_store)
		WRITE_ONCE(z->release_limit, bytes);
	up_read(&z->dev_lock);
	if (!has_store)
		return 0;
	err = release_set_limit(&z->store.release, bytes);
	if (!err)
		WRITE_ONCE(z->release_limit, bytes);
	return err;
}

static ssize_t release_limit_store(struct device *dev, struct device_attribute *attr,
				   const char *buf, size_t len)
{
	struct zram *z = zram_of(dev);
	u64 bytes;
	int err;

	if (!parse_size(buf, &bytes))
		return zram_refuse(dev, "release_limit", buf, "not a size", -EINVAL);
	if (mutex_lock_killable(&z->limit_lock))
		return -EINTR;
	err = set_limit(z, bytes);
	mutex_unlock(&z->limit_lock);
	if (err == -ENOMEM)
		zram_refuse(dev, "release_limit", buf, "no memory for its buffers", err);
	return err ?: len;
}
static DEVICE_ATTR_RW(release_limit);

/* ---- figures ---- */

static ssize_t io_stat_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zram *z = zram_of(dev);
	u64 reads = 0, writes = 0, freed = 0;

	down_read(&z->dev_lock);
	if (z->disksize) {
		reads = store_count(&z->store, CNT_FAILED_READ);
		writes = store_count(&z->store, CNT_FAILED_WRITE);
		freed = store_count(&z->store, CNT_FREED);
	}
	up_read(&z->dev_lock);
	return sysfs_emit(buf, "%8llu %8llu 0 %8llu\n", reads, writes, freed);
}
static DEVICE_ATTR_RO(io_stat);

static ssize_t sysfs_figures(char *buf, const u64 *v, unsigned int n)
{
	unsigned int i;
	int at = 0;

	for (i = 0; i < n; i++)
		at += sysfs_emit_at(buf, at, i ? " %8llu" : "%8llu", v[i]);
	return at + sysfs_emit_at(buf, at, "\n");
}

static ssize_t mm_stat_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zram *z = zram_of(dev);
	struct store *s = &z->store;
	u64 v[9] = { 0 };

	down_read(&z->dev_lock);
	v[3] = z->mem_limit;
	if (z->disksize) {
		v[0] = store_count(s, CNT_ORIG_BYTES);
		v[1] = store_count(s, CNT_COMPR_BYTES);
		v[2] = pool_pages(&s->pool) << PAGE_SHIFT;
		v[4] = pool_pages_peak(&s->pool) << PAGE_SHIFT;
		v[5] = store_count(s, CNT_SAME);
		v[6] = host_a64_read(&s->pool.pages_compacted);
		v[7] = store_count(s, CNT_HUGE);
		v[8] = store_count(s, CNT_HUGE_SINCE);
	}
	up_read(&z->dev_lock);
	return sysfs_figures(buf, v, ARRAY_SIZE(v));
}
static DEVICE_ATTR_RO(mm_stat);

/* In-tree counts frees that it misses; here there are none to miss (core/store/slot.h). */
static ssize_t debug_stat_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "version: %d\n0 %8llu\n", 1, 0ULL);
}
static DEVICE_ATTR_RO(debug_stat);

/*
 * held_now held_peak (bytes)  deferred in_place sync (objects freed, by how)
 * pressure (times that the kernel, short of memory, had some freed)
 */
static ssize_t release_stat_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zram *z = zram_of(dev);
	struct release *r = &z->store.release;
	struct release_stats rs;
	u64 v[6] = { 0 };

	down_read(&z->dev_lock);
	if (z->disksize) {
		release_stats(r, &rs);
		v[0] = release_held(r);
		v[1] = release_peak(r);
		v[2] = rs.deferred;
		v[3] = rs.in_place;
		v[4] = store_count(&z->store, CNT_SYNC);
		v[5] = host_a64_read(&z->flush_pressure);
	}
	up_read(&z->dev_lock);
	return sysfs_figures(buf, v, ARRAY_SIZE(v));
}
static DEVICE_ATTR_RO(release_stat);

#if ZRAM_HAS(UNITS)
/* units  pages in them, and dead pages (of those that were)  bytes of memory */
static ssize_t unit_stat_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zram *z = zram_of(dev);
	struct unit_stats us = { 0 };

	down_read(&z->dev_lock);
	if (zram_unit_pages(z))
		units_stats(&z->store, &us);
	up_read(&z->dev_lock);
	return sysfs_figures(buf, (u64[]){ us.units, us.pages, us.dead, us.room }, 4);
}
static DEVICE_ATTR_RO(unit_stat);
#endif

/* As the kernel's own zram had it to the end: a stream for each CPU, whatever is written. */
static ssize_t max_comp_streams_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", num_online_cpus());
}

static ssize_t max_comp_streams_store(struct device *dev, struct device_attribute *attr,
				      const char *buf, size_t len)
{
	return len;
}
static DEVICE_ATTR_RW(max_comp_streams);

static struct attribute *zram_disk_attrs[] = {
	&dev_attr_disksize.attr,
	&dev_attr_initstate.attr,
	&dev_attr_reset.attr,
	&dev_attr_comp_algorithm.attr,
	&dev_attr_algorithm_params.attr,
	&dev_attr_mem_limit.attr,
	&dev_attr_mem_used_max.attr,
	&dev_attr_compact.attr,
	&dev_attr_idle.attr,
	&dev_attr_release_limit.attr,
	&dev_attr_io_stat.attr,
	&dev_attr_mm_stat.attr,
	&dev_attr_debug_stat.attr,
	&dev_attr_release_stat.attr,
#if ZRAM_HAS(MULTI_COMP)
	&dev_attr_recomp_algorithm.attr,
	&dev_attr_recompress.attr,
#endif
#if ZRAM_HAS(UNITS)
	&dev_attr_comp_unit.attr,
	&dev_attr_unit_stat.attr,
#endif
	HAS_MAX_COMP_STREAMS ? &dev_attr_max_comp_streams.attr : NULL,
	NULL,
};

static const struct attribute_group zram_disk_group = { .attrs = zram_disk_attrs };
const struct attribute_group *zram_disk_groups[] = {
	&zram_disk_group,
#if ZRAM_HAS(WRITEBACK)
	&zram_backing_group,
#endif
	NULL,
};

/* ---- zram-control ---- */

/* Reading it makes a device and tells its number, odd as that is. */
static ssize_t hot_add_show(const struct class *class, const struct class_attribute *attr,
			    char *buf)
{
	int nr = zram_add();

	return nr < 0 ? nr : sysfs_emit(buf, "%d\n", nr);
}
static struct class_attribute class_attr_hot_add = __ATTR(hot_add, 0400, hot_add_show, NULL);

static ssize_t hot_remove_store(const struct class *class, const struct class_attribute *attr,
				const char *buf, size_t len)
{
	int nr, err = kstrtoint(buf, 10, &nr);

	if (!err && nr < 0)
		err = -EINVAL;
	if (err)
		return zram_refuse(NULL, "hot_remove", buf, "not a device number", err);
	err = zram_remove_nr(nr);
	if (err == -EINTR)
		return err;
	if (err)
		return zram_refuse(NULL, "hot_remove", buf,
			      err == -ENODEV ? "no such device" : "the device is in use", err);
	return len;
}
static CLASS_ATTR_WO(hot_remove);

static struct attribute *zram_control_attrs[] = {
	&class_attr_hot_add.attr,
	&class_attr_hot_remove.attr,
	NULL,
};
ATTRIBUTE_GROUPS(zram_control);

const struct class zram_control = {
	.name = "zram-control",
	.class_groups = zram_control_groups,
};
