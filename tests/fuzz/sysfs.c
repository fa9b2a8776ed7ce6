// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * sysfs.c - fuzzes the files of a device: those of kernel/zram/ and codecs.c as they are, with the
 * engine that writes pages back, on a small part of Linux (kernel_shim.h) and a disk of four pages.
 *
 *     input: a file, what may go wrong below it, a text that ends at 0xff; then the next
 *
 * A text is what the kernel passes on: up to a page of any bytes, a zero after them.  A write
 * that is refused has changed nothing; one that is taken has set what the text says; the
 * files can be read at any time, as whole lines.
 */
#include "fuzz.h"
#include "store_calls.h"
#include "../../kernel/zram/sysfs.h"
#include "../../kernel/zram/wb.h"
#include "../../kernel/zram/zram.h"
#include "../../kernel/codec/codecs.h"
#include "tier/tier_check.h"
#include "kernel_shim.h"

#define FILES_MAX 64
#define SLOTS 8
#define BLOCKS 4                /* fewer than there are slots */

/* Names are all that is asked of them here. */
const struct codec_ops codec_lzo = { .name = "lzo" };
const struct codec_ops codec_lzorle = { .name = "lzo-rle" };
const struct codec_ops codec_lz4 = {
	.name = "lz4", .min_level = 1, .max_level = 9, .default_level = 1, .min_dict = 3, .max_dict = 9,
};
const struct codec_ops codec_lz4hc = {
	.name = "lz4hc", .min_level = 1, .max_level = 9, .default_level = 1,
};
const struct codec_ops codec_zstd = {
	.name = "zstd", .min_level = -9, .max_level = 9, .min_dict = 1, .max_dict = 9,
};
const struct codec_ops codec_deflate = {
	.name = "deflate", .min_level = -1, .max_level = 9, .has_winbits = true,
};
const struct codec_ops codec_842 = { .name = "842" };

static void *none_create(const struct codec_params *p)
{
	(void)p;
	return (void *)&codec_zstd;
}

static void none_destroy(void *ctx)
{
	(void)ctx;
}

/* What slot i holds: its first byte says so.  The last one does not compress. */
static void make_page(unsigned char *page, unsigned char first)
{
	memset(page, 9, PAGE_SIZE);
	page[0] = first;
}

static int first_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	size_t bytes = *(const unsigned char *)src * 100u;

	(void)ctx;
	must(n == PAGE_SIZE);
	if (bytes >= SLOTS * 100 || bytes > cap)
		return -ENOSPC;
	memcpy(dst, src, bytes);
	return (int)bytes;
}

static int first_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	(void)ctx;
	must(cap == PAGE_SIZE && n == *(const unsigned char *)src * 100u);
	make_page(dst, *(const unsigned char *)src);
	return 0;
}

/* The store's. */
static const struct codec_ops codec_first = {
	.name = "first", .create = none_create, .destroy = none_destroy,
	.compress = first_compress, .decompress = first_decompress,
};

/* ---- the device: a store that is always there, and the rest of device.c played ---- */

static struct source source;
static struct zram zram;
static struct gendisk disk = { .disk_name = "zram0", .private_data = &zram };
static struct device device = { .name = "zram0", .disk = &disk };
static int below;               /* what the next function of device.c answers */
static int removed;             /* the number that it was called with */

#include "sysfs_disk.h"

/* ---- the pages ---- */

static void fill_slots(void)
{
	unsigned char page[PAGE_SIZE];

	for (u64 i = 0; i < SLOTS; i++) {
		make_page(page, (unsigned char)(i + 1));
		must_eq(store_write(&zram.store, i, page, NUMA_NO_NODE), 0);
	}
	release_flush(&zram.store.release);
}

/* Wherever they are; how many are on the disk. */
static u64 look_at_slots(void)
{
	unsigned char page[PAGE_SIZE], want[PAGE_SIZE];
	u64 word, backed = 0;

	for (u64 i = 0; i < SLOTS; i++) {
		make_page(want, (unsigned char)(i + 1));
		if (store_backed_begin(&zram.store, i, &word)) {
			must(slot_block(word) < BLOCKS);
			if (zram.backing.packed)
				must_eq(store_unpack_backed(&zram.store, word,
							    &block[slot_block(word)],
							    page), 0);
			else
				memcpy(page, &block[slot_block(word)], PAGE_SIZE);
			store_backed_end(&zram.store, word);
			backed++;
		} else {
			must_eq(store_read(&zram.store, i, page), 0);
		}
		must(!memcmp(page, want, PAGE_SIZE));
	}
	return backed;
}

static void defaults(struct zram *z)
{
	zram_backing_drop(z);
	z->store.pool.limit = 0;
	if (store_blocks(&z->store))
		fill_slots();
	free(z->ages);
	z->ages = NULL;
	z->disksize = 0;
	zram_algorithms_default(z);
	z->mem_limit = 0;
	z->comp_unit = PAGE_SIZE;
	z->release_limit = 1 << 20;
}

/* A file is as long as its name. */
ssize_t kernel_read_file_from_path(const char *path, long long offset, void **buf, size_t room,
				   size_t *size, enum kernel_read_file_id id)
{
	must(!offset && !*buf && room == INT_MAX && !size && id == READING_POLICY);
	must(shim_at_rest());
	if (below)
		return below;
	*buf = exactly(path, strlen(path));
	return (ssize_t)strlen(path);
}

int zram_start(struct zram *z, u64 disksize)
{
	struct store_config cfg = { 0 };

	must_eq(z->dev_lock.writers, 1);
	must(disksize && !offset_in_page(disksize));
	must_eq(z->disksize, 0);
	/* What is wrong with a set has no part in it here, but is looked at. */
	if (!zram_algorithms_judge(z)) {
		const struct store_codec *c = &cfg.codec[0];

		zram_algorithms_config(z, &cfg);
		must(c->ops == z->algorithm[0].codec && c->level >= c->ops->min_level &&
		     c->level <= c->ops->max_level && c->dict_bytes <= c->ops->max_dict);
	}
	if (!below)
		z->disksize = disksize;
	return below;
}

int zram_reset(struct zram *z)
{
	must(shim_at_rest());
	if (!below) {
		down_write(&z->dev_lock);
		defaults(z);
		up_write(&z->dev_lock);
	}
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

/* backing.c */
static struct zram_reads reads_of_disk;

struct zram_reads *zram_reads_make(const struct zram *z)
{
	must(z == &zram && shim_at_rest() && reads <= 1);
	reads++;
	return &reads_of_disk;
}

void zram_reads_drop(struct zram_reads *t)
{
	must(!t || (t == &reads_of_disk && reads-- > 0));
}

void zram_incoming_look(struct zram *z)
{
	must(z->disksize);
}

/* Of a device, with nothing of the engine's in anybody's hand. */
void queue_work(struct workqueue_struct *queue, struct work_struct *work)
{
	must(zram.disksize && zram.backing.reads && !queue && shim_mutexes() == 1);
	work->fn(work);
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

int class_register(const struct class *class)
{
	control = class;
	add_files(class->class_groups);
	return 0;
}

void class_unregister(const struct class *class)
{
	must(class == control);
}

static struct device_attribute *of_disk(unsigned int i)
{
	return (struct device_attribute *)((char *)file[i] - offsetof(struct device_attribute,
								      attr));
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

	memset(page, 0, PAGE_SIZE);
	n = i < disk_files ? of_disk(i)->show(&device, of_disk(i), page)
			   : of_class(i)->show(control, of_class(i), page);
	if (n < 0) {
		must(is(i, "hot_add"));
		must_eq(n, below);
		free(page);
		return;
	}
	must(n < (ssize_t)PAGE_SIZE && (n > 0 || is(i, "recomp_algorithm")));
	must_eq(strlen(page), n);
	must(!n || page[n - 1] == '\n');
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

/* ---- the codecs and their sets, by a second mind; of a dictionary the length alone ---- */

static struct zram_algorithm nothing(void)
{
	return (struct zram_algorithm) { .level = ZRAM_UNSET, .winbits = ZRAM_UNSET };
}

static struct zram_algorithm *early_of(struct zram *z, const struct codec_ops *codec)
{
	unsigned int k = 0;

	while (kernel_codecs[k] != codec)
		k++;
	return &z->early[STORE_CODECS + k];
}

static void chosen(struct zram *z, unsigned int priority, const struct codec_ops *codec)
{
	struct zram_algorithm *from[] = { &z->early[priority], early_of(z, codec) };

	if (z->algorithm[priority].codec == codec && z->algorithm[priority].named)
		return;
	z->algorithm[priority] = nothing();
	for (unsigned int k = 0; k < 2; k++)
		if (from[k]->codec == codec) {
			z->algorithm[priority] = *from[k];
			*from[k] = nothing();
			break;
		}
	z->algorithm[priority].codec = codec;
}

struct said {
	char algo[PAGE_SIZE], dict[PAGE_SIZE];
	int priority, level, winbits;
	bool bad, has_priority;
};

/* The words of a text without quotes. */
static struct said *read_words(const char *text, bool params)
{
	static struct said s;
	char *copy = strdup(text), *rest = copy, *word, *value;

	must(copy);
	memset(&s, 0, sizeof(s));
	s.level = s.winbits = ZRAM_UNSET;
	s.priority = !params;
	while ((word = strsep(&rest, " \t\n\v\f\r")) && !s.bad) {
		if (!*word)
			continue;
		value = strchr(word + 1, '=');
		if (!value || !value[1]) {
			s.bad = true;
			break;
		}
		*value++ = 0;
		if (!strcmp(word, "algo")) {
			strcpy(s.algo, value);
		} else if (!strcmp(word, "priority")) {
			s.has_priority = true;
			s.bad = kstrtoint(value, 10, &s.priority);
		} else if (params && !strcmp(word, "dict")) {
			strcpy(s.dict, value);
		} else if (params && !strcmp(word, "level")) {
			s.bad = kstrtoint(value, 10, &s.level);
		} else if (params && !strcmp(word, "deflate.winbits")) {
			s.bad = kstrtoint(value, 10, &s.winbits);
		}
	}
	free(copy);
	return &s;
}

static bool params_taken(const char *text, struct zram *z)
{
	const struct said *s = read_words(text, true);
	const struct codec_ops *codec = *s->algo ? codec_of(s->algo) : NULL;
	struct zram_algorithm set = nothing(), *at = NULL;
	int p = s->priority;

	if (s->bad || z->disksize || p < 0 || p >= STORE_CODECS || (*s->algo && !codec) ||
	    (*s->dict && below))
		return false;
	set.level = s->level;
	set.winbits = s->winbits;
	set.dict_bytes = strlen(s->dict);
	set.named = codec;
	if (codec && !s->has_priority) {
		for (p = 0; p < STORE_CODECS && z->algorithm[p].codec != codec;)
			p++;
		if (p == STORE_CODECS)
			at = early_of(z, codec);
	}
	if (!at && codec && z->algorithm[p].codec != codec)
		at = &z->early[p];
	if (at) {
		set.codec = codec;
		*at = set;
	} else {
		set.codec = z->algorithm[p].codec;
		z->algorithm[p] = set;
		z->early[p] = nothing();
	}
	return true;
}

static bool recomp_taken(const char *text, struct zram *z)
{
	const struct said *s = read_words(text, false);

	if (s->bad || !*s->algo || s->priority < 1 || s->priority >= STORE_CODECS ||
	    strlen(s->algo) >= 128 || !codec_of(s->algo) || z->disksize)
		return false;
	chosen(z, (unsigned int)s->priority, codec_of(s->algo));
	return true;
}

static void must_be_same_set(const struct zram_algorithm *a, const struct zram_algorithm *want)
{
	must(a->codec == want->codec);
	must_eq(a->level, want->level);
	must_eq(a->winbits, want->winbits);
	must_eq(a->dict_bytes, want->dict_bytes);
	must_eq(a->named, want->named);
	must_eq(a->dict != NULL, a->dict_bytes != 0);
}

static void must_be_same_sets(const struct zram *want)
{
	for (unsigned int k = 0; k < ARRAY_LEN(zram.algorithm); k++)
		must_be_same_set(&zram.algorithm[k], &want->algorithm[k]);
	for (unsigned int k = 0; k < ARRAY_LEN(zram.early); k++)
		must_be_same_set(&zram.early[k], &want->early[k]);
}

/* Ages are those of the store that there is. */
static bool idle_taken(const char *text, const struct zram *z)
{
	unsigned int age;

	if (sysfs_streq(text, "all"))
		return z->disksize != 0;
	if (kstrtouint(text, 0, &age))
		return false;
	/* There is memory for the ages of so many. */
	return z->disksize >> PAGE_SHIFT == z->store.slots ||
	       (age >= SHIM_UPTIME && z->disksize >> PAGE_SHIFT <= (1 << 20) / sizeof(*z->ages));
}

/* A path is all but one newline at its end. */
static bool backing_taken(const char *text, struct zram *z)
{
	size_t n = strlen(text);
	char path[PAGE_SIZE + 1];

	strcpy(path, text);
	if (n && path[n - 1] == '\n')
		path[--n] = 0;
	if (z->disksize || below || n >= PAGE_SIZE - 1 || !is_disk(path) || n == 2 ||
	    has_large_blocks(path))
		return false;
	z->backing.blocks = n - 2;
	z->backing.file = &opened;
	return true;
}

static void must_be_same_device(const struct zram *want)
{
	must(zram.backing.file == want->backing.file);
	must_eq(zram.backing.blocks, want->backing.blocks);
	must_eq(zram.backing.packed, want->backing.packed);
	must_eq(zram.backing.batch, want->backing.batch);
	must_eq(zram.backing.is_auto, want->backing.is_auto);
	must_eq(zram.wear.limit_on, want->wear.limit_on);
	must_eq(zram.wear.limit, want->wear.limit);
	must_eq(opens, zram.backing.file != NULL);
	must_eq(reads, opens);
}

/*
 * What went is said in three places: the slots, the disk's blocks and, if there is one, the limit.
 * Whether the words were right is left to the guests; a refusal may come after some have gone.
 */
static void must_have_gone(const struct zram *was, u64 before, struct zram *want)
{
	u64 now = look_at_slots();

	must(now >= before && now <= BLOCKS);
	must(now == before || (was->disksize && was->backing.file));
	if (was->wear.limit_on)
		want->wear.limit -= (now - before) * WB_UNITS;
	must(was->wear.limit >= want->wear.limit);
	must_eq(now, store_blocks(&zram.store));
}

/* What zram_parse_size() takes, in numbers that hold all that 31 characters can say. */
static bool size_taken(const char *text, u64 *bytes)
{
	const char *digits = "0123456789abcdef", *suffixes = "kmgtpe", *s = text, *d;
	size_t len = strcspn(text, "\n");
	unsigned __int128 v = 0;
	unsigned int base = 10;

	if (*s < '0' || *s > '9' || len > 31 || (text[len] && text[len + 1]))
		return false;
	if (*s == '0')
		base = 8;
	if (*s == '0' && tolower((unsigned char)s[1]) == 'x' && isxdigit((unsigned char)s[2])) {
		base = 16;
		s += 2;
	}
	while (s < text + len && (d = strchr(digits, tolower((unsigned char)*s))) &&
	       d < digits + base) {
		v = v * base + (unsigned int)(d - digits);
		s++;
	}
	d = s < text + len && v <= U64_MAX ? strchr(suffixes, tolower((unsigned char)*s)) : NULL;
	if (d) {
		v <<= 10 * (d - suffixes + 1);
		s++;
	}
	*bytes = (u64)v;
	return s == text + len && v <= U64_MAX;
}

/* Whether a write of text to a file would be taken, and what the device then is. */
static bool taken(unsigned int i, const char *text, struct zram *z)
{
	char *end;
	u64 bytes = memparse(text, &end);
	unsigned int n;

	if (is(i, "disksize")) {
		if (!bytes || z->disksize || bytes > U64_MAX - PAGE_SIZE + 1 || below)
			return false;
		z->disksize = (bytes + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
		return true;
	}
	if (is(i, "reset")) {
		if (number(text, UINT16_MAX, false) <= 0 || below)
			return false;
		for (unsigned int k = 0; k < ARRAY_LEN(z->early); k++)
			z->early[k] = nothing();
		for (unsigned int k = 0; k < STORE_CODECS; k++)
			z->algorithm[k] = nothing();
		z->algorithm[0].codec = codec_default();
		z->disksize = z->mem_limit = 0;
		z->comp_unit = PAGE_SIZE;
		z->release_limit = 1 << 20;
		z->backing.file = NULL;
		z->backing.blocks = 0;
		z->backing.is_auto = false;
		/* What may be written to a device stays. */
		return true;
	}
	if (is(i, "backing_dev"))
		return backing_taken(text, z);
	if (is(i, "compressed_writeback"))
		return !z->disksize && !kstrtobool(text, &z->backing.packed);
	if (is(i, "writeback_batch_size"))
		return !kstrtouint(text, 10, &n) && n && (z->backing.batch = n);
	if (is(i, "writeback_limit") || is(i, "writeback_limit_enable")) {
		if (kstrtoull(text, 10, &bytes))
			return false;
		if (is(i, "writeback_limit"))
			z->wear.limit = bytes / WB_UNITS * WB_UNITS;
		else
			z->wear.limit_on = bytes != 0;
		return true;
	}
	if (is(i, "comp_algorithm")) {
		if (strlen(text) >= 128 || !codec_of(text) || z->disksize)
			return false;
		chosen(z, 0, codec_of(text));
		return true;
	}
	if (is(i, "recomp_algorithm"))
		return recomp_taken(text, z);
	if (is(i, "algorithm_params"))
		return params_taken(text, z);
	if (is(i, "mem_limit")) {
		z->mem_limit = (bytes + PAGE_SIZE - 1) & ~(u64)(PAGE_SIZE - 1);
		return end != text;
	}
	if (is(i, "comp_unit")) {
		if (!size_taken(text, &bytes) || z->disksize || bytes & (bytes - 1) ||
		    bytes < PAGE_SIZE || bytes > 65536)
			return false;
		z->comp_unit = (u32)bytes;
		return true;
	}
	if (is(i, "release_limit"))
		return size_taken(text, &z->release_limit);
	if (is(i, "mem_used_max"))
		return number(text, LLONG_MAX / 16, false) == 0;
	if (is(i, "compact"))
		return z->disksize != 0;
	if (is(i, "idle"))
		return idle_taken(text, z);
	/*
	 * There is no codec for it here, so every text ends in a refusal; must_have_gone() is the
	 * other's.
	 */
	if (is(i, "recompress") || is(i, "writeback"))
		return false;
	if (is(i, "writeback_auto"))
		return !kstrtobool(text, &z->backing.is_auto);
	must(is(i, "hot_remove"));
	return number(text, INT_MAX, true) >= 0 && !below;
}

static void write_text(unsigned int i, const char *text, size_t len)
{
	struct zram was = zram, want = zram;
	/* What quotes do is left to the fuzzer's luck. */
	bool quoted = strchr(text, '"') && (is(i, "algorithm_params") || is(i, "recomp_algorithm"));
	bool good = taken(i, text, &want);
	u64 backed = store_blocks(&zram.store);
	ssize_t ret;

	removed = -1;
	ret = i < disk_files ? of_disk(i)->store(&device, of_disk(i), text, len)
			     : of_class(i)->store(control, of_class(i), text, len);
	must(shim_at_rest());
	must(ret == (ssize_t)len || (ret < 0 && ret >= -4095));
	if (is(i, "writeback")) {
		good = ret > 0;
		must(!good || (was.disksize && was.backing.file));
		must_have_gone(&was, backed, &want);
		was.wear = want.wear;
	}
	if (quoted) {
		good = ret > 0;
		must(!good || !was.disksize);
	}
	must_eq(ret == (ssize_t)len, good);
	if (!good)
		want = was;
	must_eq(zram.disksize, want.disksize);
	must_eq(zram.mem_limit, want.mem_limit);
	must_eq(zram.comp_unit, want.comp_unit);
	must_eq(zram.release_limit, want.release_limit);
	must_be_same_device(&want);
	if (!quoted || !good)
		must_be_same_sets(&want);
	if (zram.disksize && good && is(i, "mem_limit"))
		must_eq(zram.store.pool.limit, zram.mem_limit);
	if (good && is(i, "hot_remove"))
		must_eq(removed, number(text, INT_MAX, true));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const int errors[] = { 0, 0, 0, 0, -EBUSY, -ENOMEM, -ENODEV, -EINVAL };
	struct choices c = { data, data + n };

	defaults(&zram);
	zram.backing.packed = false;
	zram.backing.batch = ZRAM_BATCH;
	zram.wear.limit_on = false;
	zram.wear.limit = 0;
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
	release_flush(&zram.store.release);
	must(!tier_check(&zram.store));
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct store_config cfg = {
		.codec[0] = { .ops = &codec_first },
		.slots = SLOTS, .chain = 4, .release_limit = 1 << 20,
	};

	(void)argc;
	(void)argv;
	fuzz_init();
	host_user_set_nr_cpus(2);
	source_open(&source);
	zram.disk = &disk;
	must_eq(store_init(&zram.store, &source.pages, &cfg), 0);
	must_eq(store_back(&zram.store, &zram.backed, BLOCKS), 0);
	spin_lock_init(&zram.wear.lock);
	zram.wear.set = 1;
	fill_slots();
	add_files(zram_disk_groups);
	disk_files = files;
	class_register(&zram_control);
	for (unsigned int i = 0; i < files; i++)
		must_have_its_mode(i);
	return 0;
}
