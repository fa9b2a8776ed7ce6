// SPDX-License-Identifier: GPL-2.0-only
/*
 * algorithm.c - owns the choice of codecs and what they are told, and the files for both:
 * comp_algorithm (priority 0), recomp_algorithm (1 to 3), algorithm_params.
 *
 *     algorithm[p]       the codec of priority p, and its set of parameters
 *     early[p]           a set that names p and a codec which p does not have (yet)
 *     early[4 + codec]   a set that names a codec which no priority has (yet)
 *
 * Choosing a codec takes its priority's set away, unless that names the codec, and brings one that
 * waits for it.  So who names the codec may tell its parameters before or after.  All of it is
 * written with dev_lock for writing, while there is no disksize.  What numbers and dictionaries are
 * worth depends on the codec, so that is judged when disksize is written.
 */
#include "zram.h"

#include <linux/device.h>
#include <linux/kernel_read_file.h>
#include <linux/kstrtox.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/vmalloc.h>

#include "codec/codecs.h"
#include "sysfs.h"

#define ALGORITHM_NAME_MAX 128

/* ---- sets ---- */

/* Leaves a without a codec and parameters. */
static void algorithm_drop(struct zram_algorithm *a)
{
	vfree(a->dict);
	*a = (struct zram_algorithm){ .level = ZRAM_UNSET, .winbits = ZRAM_UNSET };
}

/* Puts from in the place of a, and leaves it empty. */
static void algorithm_move(struct zram_algorithm *a, struct zram_algorithm *from)
{
	vfree(a->dict);
	*a = *from;
	from->dict = NULL;
	algorithm_drop(from);
}

static unsigned int codec_index(const struct codec_ops *codec)
{
	unsigned int i;

	for (i = 0; kernel_codecs[i] != codec;)
		i++;
	return i;
}

/* codec may be NULL: none. */
static void algorithm_choose(struct zram *z, unsigned int priority, const struct codec_ops *codec)
{
	struct zram_algorithm *a = &z->algorithm[priority], *set = &z->early[priority];

	if (codec && a->codec == codec && a->named)
		return;
	algorithm_drop(a);
	a->codec = codec;
	if (!codec)
		return;
	if (set->codec != codec)
		set = &z->early[STORE_CODECS + codec_index(codec)];
	if (set->codec == codec)
		algorithm_move(a, set);
}

void zram_algorithms_default(struct zram *z)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(z->early); i++)
		algorithm_drop(&z->early[i]);
	for (i = 0; i < STORE_CODECS; i++)
		algorithm_choose(z, i, NULL);
	algorithm_choose(z, 0, codec_default());
}

/* ---- judgement ---- */

/* Says which parameter is wrong; returns err. */
static int algorithm_wrong(const struct zram *z, const char *name, long long value,
			   const char *codec, const char *why, int err)
{
	pr_notice_ratelimited("%s: algorithm_params %s=%lld: %s %s\n", z->disk->disk_name, name,
			      value, codec, why);
	return err;
}

/* The same of a set that waits: for priority i, or past those for any. */
static int not_chosen(const struct zram *z, unsigned int i)
{
	const char *name = z->early[i].codec->name;

	if (i < STORE_CODECS)
		pr_notice_ratelimited("%s: algorithm_params algo=%s priority=%u: not chosen for it\n",
				      z->disk->disk_name, name, i);
	else
		pr_notice_ratelimited("%s: algorithm_params algo=%s: not chosen\n",
				      z->disk->disk_name, name);
	return -EINVAL;
}

static int algorithm_judge(const struct zram *z, const struct zram_algorithm *a)
{
	const struct codec_ops *c = a->codec;

	if (a->dict && !c->max_dict)
		return algorithm_wrong(z, "dict bytes", a->dict_bytes, c->name,
				       "takes no dictionary", -EOPNOTSUPP);
	if (a->dict && (a->dict_bytes < c->min_dict || a->dict_bytes > c->max_dict))
		return algorithm_wrong(z, "dict bytes", a->dict_bytes, c->name,
				       "takes no such length", -EINVAL);
	if (a->level != ZRAM_UNSET && c->min_level == c->max_level)
		return algorithm_wrong(z, "level", a->level, c->name, "has no levels", -EOPNOTSUPP);
	if (a->level != ZRAM_UNSET && (a->level < c->min_level || a->level > c->max_level))
		return algorithm_wrong(z, "level", a->level, c->name, "has no such level", -EINVAL);
	/* In-tree zram passes them over for other codecs. */
	if (c->has_winbits && a->winbits != ZRAM_UNSET &&
	    (abs(a->winbits) < 9 || abs(a->winbits) > 15))
		return algorithm_wrong(z, "deflate.winbits", a->winbits, c->name,
				       "takes 9 to 15 or -9 to -15", -EINVAL);
	return 0;
}

int zram_algorithms_judge(const struct zram *z)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < ARRAY_SIZE(z->early) && !err; i++)
		if (z->early[i].codec)
			err = not_chosen(z, i);
	for (i = 0; i < STORE_CODECS && !err; i++)
		if (z->algorithm[i].codec)
			err = algorithm_judge(z, &z->algorithm[i]);
	/* zstd would ask for memory again as lengths change. */
	if (!err && z->comp_unit > PAGE_SIZE && z->algorithm[0].dict)
		err = algorithm_wrong(z, "dict bytes", z->algorithm[0].dict_bytes,
				      z->algorithm[0].codec->name, "takes none with a comp_unit",
				      -EINVAL);
	return err;
}

void zram_algorithms_config(const struct zram *z, struct store_config *cfg)
{
	unsigned int i;

	for (i = 0; i < STORE_CODECS; i++) {
		const struct zram_algorithm *a = &z->algorithm[i];
		const struct codec_ops *c = a->codec;

		if (!c)
			continue;
		cfg->codec[i] = (struct store_codec) {
			.ops = c, .level = a->level == ZRAM_UNSET ? c->default_level : a->level,
			.winbits = c->has_winbits && a->winbits != ZRAM_UNSET ? a->winbits : 0,
			.dict = a->dict, .dict_bytes = a->dict_bytes,
		};
	}
}

/* ---- files ---- */

static ssize_t algorithm_list(const struct codec_ops *chosen, char *buf, ssize_t at)
{
	unsigned int i;

	for (i = 0; kernel_codecs[i]; i++)
		at += sysfs_emit_at(buf, at, kernel_codecs[i] == chosen ? "[%s] " : "%s ",
				    kernel_codecs[i]->name);
	return at + sysfs_emit_at(buf, at, "\n");
}

/* For comp_algorithm and recomp_algorithm, the part of a write after its words are known. */
static ssize_t choose_by_name(struct device *dev, const char *file, const char *buf,
			      const char *name, unsigned int priority)
{
	struct zram *z = zram_of(dev);
	const struct codec_ops *codec;
	int err;

	if (strlen(name) >= ALGORITHM_NAME_MAX)
		return zram_refuse(dev, file, buf, "too long", -E2BIG);
	codec = codec_find(name);
	if (!codec)
		return zram_refuse(dev, file, buf, "not one of those listed", -EINVAL);
	err = zram_lock_unused(dev, file, buf);
	if (err)
		return err;
	algorithm_choose(z, priority, codec);
	up_write(&z->dev_lock);
	return 0;
}

static ssize_t comp_algorithm_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zram *z = zram_of(dev);
	ssize_t n;

	down_read(&z->dev_lock);
	n = algorithm_list(z->algorithm[0].codec, buf, 0);
	up_read(&z->dev_lock);
	return n;
}

static ssize_t comp_algorithm_store(struct device *dev, struct device_attribute *attr,
				    const char *buf, size_t len)
{
	return choose_by_name(dev, "comp_algorithm", buf, buf, 0) ?: len;
}
DEVICE_ATTR_RW(comp_algorithm);

struct words {
	const char *algo, *dict;
	int priority, level, winbits;
	bool has_priority;
};

/* Unknown names are passed over, as in-tree does; without params, all but two are. */
static int algorithm_parse(char *text, struct words *w, bool params)
{
	char *name, *value;
	int err = 0;

	while (!err && zram_next_word(&text, &name, &value)) {
		if (!value)
			return -EINVAL;
		if (!strcmp(name, "algo")) {
			w->algo = value;
		} else if (!strcmp(name, "priority")) {
			w->has_priority = true;
			err = kstrtoint(value, 10, &w->priority);
		} else if (!params) {
			continue;
		} else if (!strcmp(name, "dict")) {
			w->dict = value;
		} else if (!strcmp(name, "level")) {
			err = kstrtoint(value, 10, &w->level);
		} else if (!strcmp(name, "deflate.winbits")) {
			err = kstrtoint(value, 10, &w->winbits);
		}
	}
	return err;
}

#if ZRAM_HAS(MULTI_COMP)
static ssize_t recomp_algorithm_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zram *z = zram_of(dev);
	unsigned int i;
	ssize_t n = 0;

	down_read(&z->dev_lock);
	for (i = 1; i < STORE_CODECS; i++) {
		if (!z->algorithm[i].codec)
			continue;
		n += sysfs_emit_at(buf, n, "#%u: ", i);
		n = algorithm_list(z->algorithm[i].codec, buf, n);
	}
	up_read(&z->dev_lock);
	return n;
}

static ssize_t recomp_algorithm_store(struct device *dev, struct device_attribute *attr,
				      const char *buf, size_t len)
{
	struct words w = { .priority = 1 };
	char *text = kstrdup(buf, GFP_KERNEL);
	ssize_t err;

	if (!text)
		return -ENOMEM;
	err = algorithm_parse(text, &w, false);
	if (err)
		zram_refuse(dev, "recomp_algorithm", buf, "not name=value with numbers in range", err);
	else if (!w.algo)
		err = zram_refuse(dev, "recomp_algorithm", buf, "no algo=", -EINVAL);
	else if (w.priority < 1 || w.priority >= STORE_CODECS)
		err = zram_refuse(dev, "recomp_algorithm", buf, "no such priority", -EINVAL);
	else
		err = choose_by_name(dev, "recomp_algorithm", buf, w.algo, w.priority);
	kfree(text);
	return err ?: len;
}
DEVICE_ATTR_RW(recomp_algorithm);
#endif

/*
 * Where the set of w goes: *set, with the codec that it waits for, or NULL if it does not wait.
 * dev_lock is held.
 */
static ssize_t algorithm_place(struct device *dev, const char *buf, const struct words *w,
			       struct zram_algorithm **set, const struct codec_ops **waits_for)
{
	const struct codec_ops *codec = w->algo ? codec_find(w->algo) : NULL;
	struct zram *z = zram_of(dev);
	unsigned int i = w->priority;

	if (z->disksize)
		return zram_refuse(dev, "algorithm_params", buf, "the device is in use, reset first",
				   -EBUSY);
	if (w->priority < 0 || w->priority >= STORE_CODECS)
		return zram_refuse(dev, "algorithm_params", buf, "no such priority", -EINVAL);
	if (w->algo && (!codec || strcmp(w->algo, codec->name)))
		return zram_refuse(dev, "algorithm_params", buf, "no such algorithm", -EINVAL);
	*waits_for = NULL;
	if (codec && !w->has_priority)
		for (i = 0; i < STORE_CODECS && z->algorithm[i].codec != codec;)
			i++;
	if (i == STORE_CODECS) {
		*set = &z->early[STORE_CODECS + codec_index(codec)];
		*waits_for = codec;
	} else if (codec && z->algorithm[i].codec != codec) {
		*set = &z->early[i];
		*waits_for = codec;
	} else {
		*set = &z->algorithm[i];
	}
	return 0;
}

/* Into set, which is the caller's.  What the kernel says of the file, -EINVAL if it is empty. */
static ssize_t read_dict(struct device *dev, const char *buf, const char *path,
			 struct zram_algorithm *set)
{
	ssize_t n = kernel_read_file_from_path(path, 0, &set->dict, INT_MAX, NULL, READING_POLICY);

	if (n == 0)
		n = -EINVAL;
	if (n < 0)
		return zram_refuse(dev, "algorithm_params", buf, "no dictionary to read there", n);
	set->dict_bytes = n;
	return 0;
}

/* A write is whole: each replaces the set that its priority had, and one that waited for it. */
static ssize_t set_params(struct device *dev, const char *buf, const struct words *w)
{
	struct zram_algorithm new = {
		.level = w->level, .winbits = w->winbits, .named = w->algo != NULL,
	}, *set;
	const struct codec_ops *waits_for;
	struct zram *z = zram_of(dev);
	ssize_t err;

	down_read(&z->dev_lock);
	err = algorithm_place(dev, buf, w, &set, &waits_for);
	up_read(&z->dev_lock);
	/* A file may take its time, and others want the lock. */
	if (!err && w->dict)
		err = read_dict(dev, buf, w->dict, &new);
	if (err)
		return err;
	err = down_write_killable(&z->dev_lock);
	if (!err) {
		err = algorithm_place(dev, buf, w, &set, &waits_for);
		if (!err) {
			new.codec = waits_for ?: set->codec;
			algorithm_move(set, &new);
			if (!waits_for)
				algorithm_drop(&z->early[set - z->algorithm]);
		}
		up_write(&z->dev_lock);
	}
	algorithm_drop(&new);
	return err;
}

static ssize_t algorithm_params_store(struct device *dev, struct device_attribute *attr,
				      const char *buf, size_t len)
{
	struct words w = { .level = ZRAM_UNSET, .winbits = ZRAM_UNSET };
	char *text = kstrdup(buf, GFP_KERNEL);
	ssize_t err;

	if (!text)
		return -ENOMEM;
	err = algorithm_parse(text, &w, true);
	if (err)
		zram_refuse(dev, "algorithm_params", buf, "not name=value with numbers in range", err);
	else
		err = set_params(dev, buf, &w);
	kfree(text);
	return err ?: len;
}
DEVICE_ATTR_WO(algorithm_params);
