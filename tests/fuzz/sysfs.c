// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * sysfs.c - fuzzes the files of a device: kernel/zram/sysfs.c and codecs.c as they are, on a small
 * part of Linux (kernel_shim.h).
 *
 *     input: a file, what may go wrong below it, a text that ends at 0xff; then the next
 *
 * A text is what the kernel passes on: up to a page of any bytes, a zero after them.  A write
 * that is refused has changed nothing; one that is taken has set what the text says; the
 * files can be read at any time, as whole lines.
 */
#include "fuzz.h"
#include "../../kernel/zram/sysfs.h"
#include "../../kernel/zram/zram.h"
#include "../../kernel/codec/codecs.h"
#include "kernel_shim.h"

#define FILES_MAX 64

/* Names are all that is asked of them here. */
const struct codec_ops codec_lzo = { .name = "lzo" };
const struct codec_ops codec_lzorle = { .name = "lzo-rle" };
const struct codec_ops codec_lz4 = { .name = "lz4", .min_level = 1, .max_level = 9 };
const struct codec_ops codec_lz4hc = { .name = "lz4hc", .min_level = 1, .max_level = 9 };
const struct codec_ops codec_zstd = { .name = "zstd", .min_level = -9, .max_level = 9 };

static void *none_create(const struct codec_params *p)
{
	(void)p;
	return (void *)&codec_zstd;
}

static void none_destroy(void *ctx)
{
	(void)ctx;
}

/* The store's: it holds objects that were put. */
static const struct codec_ops codec_none = {
	.name = "none", .create = none_create, .destroy = none_destroy,
};

/* ---- the device: a store that is always there, and the rest of device.c played ---- */

static struct source source;
static struct zram zram;
static struct gendisk disk = { .disk_name = "zram0", .private_data = &zram };
static struct device device = { .name = "zram0", .disk = &disk };
static int below;               /* what the next function of device.c answers */
static int removed;             /* the number that it was called with */

static void defaults(struct zram *z)
{
	z->disksize = 0;
	z->codec = codec_default();
	z->level = ZRAM_LEVEL_UNSET;
	z->mem_limit = 0;
	z->release_limit = 1 << 20;
}

int zram_start(struct zram *z, u64 disksize)
{
	must_eq(z->dev_lock.writers, 1);
	must(disksize && !(disksize & HOST_PAGE_MASK));
	must_eq(z->disksize, 0);
	if (!below)
		z->disksize = disksize;
	return below;
}

int zram_reset(struct zram *z)
{
	must(shim_at_rest());
	if (!below)
		defaults(z);
	return below;
}

int zram_add(void)
{
	return below ? below : 7;
}

int zram_remove_nr(int nr)
{
	must(nr >= 0);
	removed = nr;
	return below;
}

/* ---- its files ---- */

static struct attribute *file[FILES_MAX];
static unsigned int disk_files, files;
static const struct class *control;

static void add_files(const struct attribute_group **groups)
{
	for (; *groups; groups++)
		for (struct attribute **a = (*groups)->attrs; *a; a++) {
			must(files < FILES_MAX);
			file[files++] = *a;
		}
}

int class_register(struct class *class)
{
	control = class;
	add_files(class->class_groups);
	return 0;
}

void class_unregister(struct class *class)
{
	must(class == control);
}

static struct device_attribute *of_disk(unsigned int i)
{
	return (struct device_attribute *)((char *)file[i] - offsetof(struct device_attribute, attr));
}

static struct class_attribute *of_class(unsigned int i)
{
	return (struct class_attribute *)((char *)file[i] - offsetof(struct class_attribute, attr));
}

static bool is(unsigned int i, const char *name)
{
	return !strcmp(file[i]->name, name);
}

/* As in-tree: nobody but root writes; the two of zram-control are root's alone. */
static void must_have_its_mode(unsigned int i)
{
	bool shown = i < disk_files ? of_disk(i)->show != NULL : of_class(i)->show != NULL;
	bool stored = i < disk_files ? of_disk(i)->store != NULL : of_class(i)->store != NULL;
	mode_t mode = file[i]->mode;

	must(shown || stored);
	must_eq(mode & 0200, stored ? 0200 : 0);
	must_eq(mode & 0400, shown ? 0400 : 0);
	must_eq(mode & ~0644u, 0);
	must(i < disk_files || !(mode & 044));
}

static void show(unsigned int i)
{
	char *page = exactly(NULL, PAGE_SIZE), want[32];
	ssize_t n;

	n = i < disk_files ? of_disk(i)->show(&device, of_disk(i), page)
			   : of_class(i)->show(control, of_class(i), page);
	if (n < 0) {
		must(is(i, "hot_add"));
		must_eq(n, below);
		free(page);
		return;
	}
	must(n > 0 && n < (ssize_t)PAGE_SIZE);
	must_eq(strlen(page), n);
	must_eq(page[n - 1], '\n');
	snprintf(want, sizeof(want), "%" PRIu64 "\n",
		 is(i, "disksize") ? zram.disksize :
		 is(i, "initstate") ? zram.disksize != 0 : zram.release_limit);
	if (is(i, "disksize") || is(i, "initstate") || is(i, "release_limit"))
		must(!strcmp(page, want));
	must(shim_at_rest());
	free(page);
}

/* ---- what a text says ---- */

/*
 * A decimal number, one sign allowed, one newline after it; -1: it is not one of 0 .. max.
 * Where negative ones are numbers, too, -0 is 0.
 */
static long long number(const char *text, long long max, bool minus)
{
	bool below_zero = minus && *text == '-';
	size_t n = strlen(text), i = *text == '+' || below_zero;
	long long v = 0;

	if (n && text[n - 1] == '\n')
		n--;
	if (i == n)
		return -1;
	for (; i < n; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		v = v * 10 + text[i] - '0';
		if (v > max)
			return -1;
	}
	return below_zero && v ? -1 : v;
}

static const struct codec_ops *codec_of(const char *text)
{
	for (unsigned int k = 0; kernel_codecs[k]; k++) {
		size_t n = strlen(kernel_codecs[k]->name);

		if (!strncmp(text, kernel_codecs[k]->name, n) &&
		    (!text[n] || !strcmp(text + n, "\n")))
			return kernel_codecs[k];
	}
	return NULL;
}

/* Whether a write of text to a file would be taken, and what the device then is. */
static bool taken(unsigned int i, const char *text, struct zram *z)
{
	char *end;
	u64 bytes = memparse(text, &end);

	if (is(i, "disksize")) {
		if (!bytes || z->disksize || bytes > U64_MAX - PAGE_SIZE + 1 || below)
			return false;
		z->disksize = (bytes + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
		return true;
	}
	if (is(i, "reset")) {
		if (number(text, UINT16_MAX, false) <= 0 || below)
			return false;
		defaults(z);
		return true;
	}
	if (is(i, "comp_algorithm")) {
		if (strlen(text) >= 128 || !codec_of(text) || z->disksize)
			return false;
		z->codec = codec_of(text);
		z->level = ZRAM_LEVEL_UNSET;
		return true;
	}
	if (is(i, "mem_limit")) {
		z->mem_limit = (bytes + PAGE_SIZE - 1) & ~(u64)(PAGE_SIZE - 1);
		return end != text;
	}
	if (is(i, "release_limit")) {
		z->release_limit = bytes;
		return end != text && (!*end || *end == '\n');
	}
	if (is(i, "mem_used_max"))
		return number(text, LLONG_MAX / 16, false) == 0;
	if (is(i, "compact"))
		return z->disksize != 0;
	must(is(i, "hot_remove"));
	return number(text, INT_MAX, true) >= 0 && !below;
}

/* The words of algorithm_params by themselves: quotes are left to the fuzzer's luck. */
static void must_be_right_params(const char *text, const struct zram *was, ssize_t ret)
{
	char *copy = strdup(text), *rest = copy, *word, *value, *end;
	int level = ZRAM_LEVEL_UNSET;
	bool bad = was->disksize != 0;

	must(copy);
	while ((word = strsep(&rest, " \t\n\v\f\r"))) {
		if (!*word)
			continue;
		value = strchr(word + 1, '=');
		if (!value || !value[1]) {
			bad = true;
			break;
		}
		*value++ = 0;
		if (!strcmp(word, "level"))
			level = (int)strtol(value, &end, 10);
	}
	if (!strchr(text, '"')) {
		must(!bad || ret < 0);
		must(ret < 0 || zram.level == level);
	}
	free(copy);
}

static void write_text(unsigned int i, const char *text, size_t len)
{
	struct zram was = zram, want = zram;
	bool good, params = is(i, "algorithm_params");
	ssize_t ret;

	removed = -1;
	good = !params && taken(i, text, &want);
	ret = i < disk_files ? of_disk(i)->store(&device, of_disk(i), text, len)
			     : of_class(i)->store(control, of_class(i), text, len);
	must(shim_at_rest());
	must(ret == (ssize_t)len || (ret < 0 && ret >= -4095));
	if (params) {
		must_be_right_params(text, &was, ret);
		want.level = zram.level;
		good = ret > 0;
		must(!good || zram.level == ZRAM_LEVEL_UNSET || was.disksize == 0);
	}
	must_eq(ret == (ssize_t)len, good);
	if (!good)
		want = was;
	must_eq(zram.disksize, want.disksize);
	must_eq(zram.mem_limit, want.mem_limit);
	must_eq(zram.release_limit, want.release_limit);
	must(zram.codec == want.codec);
	must(good || zram.level == was.level);
	must(params || zram.level == want.level);
	if (zram.disksize && good && is(i, "mem_limit"))
		must_eq(zram.store.mem_limit, zram.mem_limit);
	if (good && is(i, "hot_remove"))
		must_eq(removed, number(text, INT_MAX, true));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const int errors[] = { 0, 0, 0, 0, -EBUSY, -ENOMEM, -ENODEV, -EINVAL };
	struct choices c = { data, data + n };

	defaults(&zram);
	while (left(&c)) {
		unsigned int i = take_below(&c, files);
		const uint8_t *from, *end;
		size_t len;
		char *text;

		below = errors[take_below(&c, ARRAY_LEN(errors))];
		from = c.at;
		end = left(&c) ? memchr(from, 0xff, left(&c)) : NULL;
		len = end ? (size_t)(end - from) : left(&c);
		c.at = end ? end + 1 : c.end;
		if (len > PAGE_SIZE)
			len = PAGE_SIZE;
		if (file[i]->mode & 0400)
			show(i);
		/* An empty write does not get as far as the file. */
		if (!(file[i]->mode & 0200) || !len)
			continue;
		text = exactly(NULL, len + 1);
		memcpy(text, from, len);
		text[len] = 0;
		write_text(i, text, len);
		free(text);
	}
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct store_config cfg = { .slots = 8, .codec = &codec_none, .chain = 4, .release_limit = 1 << 20 };

	(void)argc;
	(void)argv;
	fuzz_init();
	host_user_set_nr_cpus(2);
	source_open(&source);
	zram.disk = &disk;
	must_eq(pcp_init(&zram.pcp, source.zone, 16, 64, 0), 0);
	must_eq(store_init(&zram.store, &zram.pcp, &cfg), 0);
	for (u64 i = 0; i < cfg.slots; i++)
		must_eq(store_put(&zram.store, i, "a few bytes", 1 + i, HOST_ANY_NODE), 0);
	add_files(zram_disk_groups);
	disk_files = files;
	zram_control_register();
	for (unsigned int i = 0; i < files; i++)
		must_have_its_mode(i);
	return 0;
}
