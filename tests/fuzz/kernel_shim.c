// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* kernel_shim.c - see kernel_shim.h.  What breaks a rule of the kernel's aborts. */
#include "kernel_shim.h"

#include <stdarg.h>
#include <stdio.h>

static int held;                /* locks, bounce pages, noio scopes */
static unsigned int mutexes;    /* of them */

static void demand(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "kernel_shim: %s\n", what);
	abort();
}

bool shim_at_rest(void)
{
	return !held;
}

unsigned int shim_mutexes(void)
{
	return mutexes;
}

/* ---- locks ---- */

void down_read(struct rw_semaphore *s)
{
	demand(!s->writers && !s->readers, "a semaphore is taken twice");
	s->readers++;
	held++;
}

void up_read(struct rw_semaphore *s)
{
	demand(s->readers-- > 0, "up_read() without down_read()");
	held--;
}

void down_write(struct rw_semaphore *s)
{
	demand(!s->writers && !s->readers, "a semaphore is taken twice");
	s->writers++;
	held++;
}

void up_write(struct rw_semaphore *s)
{
	demand(s->writers-- > 0, "up_write() without down_write()");
	held--;
}

void shim_mutex_lock(struct mutex *m)
{
	demand(mutex_trylock(m), "a mutex is taken twice");
	mutexes++;
	held++;
}

void shim_mutex_unlock(struct mutex *m)
{
	demand(m->state & HOST_USER_HELD, "a mutex is unlocked that is not locked");
	mutex_init(m);  /* nobody waits */
	mutexes--;
	held--;
}

/* ---- numbers ---- */

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* Octal after 0, hexadecimal after 0x and a digit, as base 0 means in the kernel. */
static unsigned int base_of(const char **s)
{
	if ((*s)[0] != '0')
		return 10;
	if (tolower((unsigned char)(*s)[1]) == 'x' && digit((*s)[2]) < 16) {
		*s += 2;
		return 16;
	}
	return 8;
}

/* The whole of s, but for one newline at its end, is a number with at most a sign before it. */
static int whole_number(const char *s, unsigned int base, bool *negative, u64 *v)
{
	size_t n = 0;

	*negative = *s == '-';
	s += *s == '-' || *s == '+';
	for (*v = 0; digit(s[n]) < (int)base; n++)
		if (__builtin_mul_overflow(*v, base, v) ||
		    __builtin_add_overflow(*v, (u64)digit(s[n]), v))
			return -ERANGE;
	if (!n)
		return -EINVAL;
	s += n;
	s += *s == '\n';
	return *s ? -EINVAL : 0;
}

static int whole_unsigned(const char *s, unsigned int base, u64 max, u64 *v)
{
	bool negative;
	int err = *s == '-' ? -EINVAL : whole_number(s, base, &negative, v);

	if (!err && *v > max)
		err = -ERANGE;
	return err;
}

/* What follows the first letter, or the second of on and off, is no matter. */
int kstrtobool(const char *s, bool *v)
{
	int first = tolower((unsigned char)*s), second = first ? tolower((unsigned char)s[1]) : 0;

	if (first && (strchr("yte1", first) || (first == 'o' && second == 'n')))
		*v = true;
	else if (first && (strchr("nfd0", first) || (first == 'o' && second == 'f')))
		*v = false;
	else
		return -EINVAL;
	return 0;
}

int kstrtou16(const char *s, unsigned int base, u16 *v)
{
	u64 n;
	int err = whole_unsigned(s, base, UINT16_MAX, &n);

	if (!err)
		*v = (u16)n;
	return err;
}

int kstrtouint(const char *s, unsigned int base, unsigned int *v)
{
	u64 n;
	int err;

	if (!base)
		base = base_of(&s);
	err = whole_unsigned(s, base, UINT_MAX, &n);
	if (!err)
		*v = (unsigned int)n;
	return err;
}

int shim_kstrtoull(const char *s, unsigned int base, unsigned long long *v)
{
	u64 n;
	int err;

	if (!base)
		base = base_of(&s);
	err = whole_unsigned(s, base, ULLONG_MAX, &n);
	if (!err)
		*v = n;
	return err;
}

int kstrtoul(const char *s, unsigned int base, unsigned long *v)
{
	u64 n;
	int err = whole_unsigned(s, base, ULONG_MAX, &n);

	if (!err)
		*v = n;
	return err;
}

int kstrtoint(const char *s, unsigned int base, int *v)
{
	bool negative;
	u64 n;
	int err = whole_number(s, base, &negative, &n);

	if (!err && n > (u64)INT_MAX + negative)
		err = -ERANGE;
	if (!err)
		*v = negative ? (int)-(s64)n : (int)n;
	return err;
}

/* As from 7.0 on: what does not fit is the most there is.  (6.12 lost the high bits.) */
unsigned long long memparse(const char *s, char **end)
{
	const char *units = "KMGTPE", *unit = NULL, *first;
	unsigned int base = base_of(&s), shift;
	unsigned long long v = 0;

	for (first = s; digit(*s) < (int)base; s++)
		if (__builtin_mul_overflow(v, base, &v) ||
		    __builtin_add_overflow(v, (unsigned int)digit(*s), &v))
			v = U64_MAX;
	if (*s && s > first)
		unit = strchr(units, toupper((unsigned char)*s));
	if (unit) {
		shift = 10 * (unsigned int)(unit - units + 1);
		v = v << shift >> shift == v ? v << shift : U64_MAX;
		s++;
	}
	if (end)
		*end = (char *)s;
	return v;
}

/* ---- words ---- */

/* Equal, but for a newline at the end of either. */
bool sysfs_streq(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	if (n == m + 1 && a[m] == '\n')
		n--;
	else if (m == n + 1 && b[n] == '\n')
		m--;
	return n == m && !memcmp(a, b, n);
}

char *skip_spaces(const char *s)
{
	while (isspace((unsigned char)*s))
		s++;
	return (char *)s;
}

/*
 * Cuts the first word off args: name[=value], where quotes keep spaces and are dropped at the
 * start and end of the value, or of the whole.  Returns what follows.
 */
char *next_arg(char *args, char **name, char **value)
{
	bool whole = *args == '"', quoted = whole;
	char *at, *sign = NULL;

	*name = args += whole;
	for (at = args; *at && (quoted || !isspace((unsigned char)*at)); at++) {
		if (*at == '=' && !sign && at > args)
			sign = at;
		quoted ^= *at == '"';
	}
	*value = NULL;
	if (sign) {
		*sign = 0;
		*value = sign + 1;
		if (**value == '"') {
			++*value;
			if (at[-1] == '"')
				at[-1] = 0;
		}
	}
	if (whole && at > args && at[-1] == '"')
		at[-1] = 0;
	if (*at)
		*at++ = 0;
	return skip_spaces(at);
}

/* ---- printing ---- */

int string_escape_mem(const char *src, size_t n, char *dst, size_t room, unsigned int flags,
		      const char *only)
{
	char *at = dst;

	demand(flags == (ESCAPE_ANY | ESCAPE_NAP) && !only, "an escape that is not ASCII");
	demand(room >= 4 * n, "an escaped text is cut off");
	for (; n--; src++) {
		unsigned char c = (unsigned char)*src;

		if (c >= ' ' && c < 0x7f) {
			*at++ = (char)c;
		} else {
			*at++ = '\\';
			*at++ = (char)('0' + (c >> 6));
			*at++ = (char)('0' + (c >> 3 & 7));
			*at++ = (char)('0' + (c & 7));
		}
	}
	return (int)(at - dst);
}

/* Reads n bytes as %pE does. */
static void look_at(const unsigned char *p, int n)
{
	for (; n > 0; n--, p++)
		__asm__ volatile("" :: "r"(*p));
}

void shim_printk(const char *fmt, ...)
{
	va_list ap;
	const char *s;
	int width;

	va_start(ap, fmt);
	for (; *fmt; fmt++) {
		if (*fmt != '%')
			continue;
		fmt++;
		if (*fmt == 's') {
			s = va_arg(ap, const char *);
			look_at((const unsigned char *)s, (int)strlen(s));
		} else if (*fmt == 'd' || *fmt == 'u') {
			(void)va_arg(ap, int);
		} else if (!strncmp(fmt, "llu", 3) || !strncmp(fmt, "lld", 3)) {
			(void)va_arg(ap, unsigned long long);
			fmt += 2;
		} else if (!strncmp(fmt, "*pE", 3)) {
			width = va_arg(ap, int);
			look_at(va_arg(ap, const unsigned char *), width);
			fmt += 2;
		} else if (!strncmp(fmt, "pg", 2)) {
			(void)va_arg(ap, const struct block_device *);
			fmt++;
		} else {
			demand(false, "a conversion that shim_printk() does not know");
		}
	}
	va_end(ap);
}

static int emit(char *buf, int at, const char *fmt, va_list ap)
{
	int n;

	demand(at >= 0 && at < (int)PAGE_SIZE, "sysfs_emit_at() past the page");
	n = vsnprintf(buf + at, PAGE_SIZE - (size_t)at, fmt, ap);
	demand(n >= 0 && n < (int)PAGE_SIZE - at, "sysfs output was cut off");
	return n;
}

int sysfs_emit(char *buf, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = emit(buf, 0, fmt, ap);
	va_end(ap);
	return n;
}

int sysfs_emit_at(char *buf, int at, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = emit(buf, at, fmt, ap);
	va_end(ap);
	return n;
}

/* ---- bios ---- */

struct bio_vec bio_iter_iovec(const struct bio *bio, struct bvec_iter iter)
{
	const struct bio_vec *whole = &bio->bi_io_vec[iter.bi_idx];
	unsigned int at = whole->bv_offset + iter.bi_bvec_done;
	struct bio_vec bv = {
		.bv_page = whole->bv_page + at / PAGE_SIZE,
		.bv_offset = at % PAGE_SIZE,
		.bv_len = whole->bv_len - iter.bi_bvec_done,
	};

	demand(iter.bi_size != 0, "a look past the end of a bio");
	if (bv.bv_len > iter.bi_size)
		bv.bv_len = iter.bi_size;
	if (bv.bv_len > PAGE_SIZE - bv.bv_offset)
		bv.bv_len = (unsigned int)PAGE_SIZE - bv.bv_offset;
	return bv;
}

struct bio_vec mp_bvec_iter_bvec(const struct bio_vec *bvec, struct bvec_iter iter)
{
	struct bio_vec bv = bvec[iter.bi_idx];

	demand(iter.bi_size != 0, "a look past the end of a bio");
	bv.bv_offset += iter.bi_bvec_done;
	bv.bv_len -= iter.bi_bvec_done;
	if (bv.bv_len > iter.bi_size)
		bv.bv_len = iter.bi_size;
	return bv;
}

void bio_advance_iter_single(const struct bio *bio, struct bvec_iter *iter, unsigned int bytes)
{
	demand(bytes <= bio_iter_iovec(bio, *iter).bv_len, "a step past a piece of a bio");
	iter->bi_sector += bytes >> SECTOR_SHIFT;
	iter->bi_size -= bytes;
	iter->bi_bvec_done += bytes;
	if (iter->bi_bvec_done == bio->bi_io_vec[iter->bi_idx].bv_len) {
		iter->bi_bvec_done = 0;
		iter->bi_idx++;
	}
}

void bio_advance_iter(const struct bio *bio, struct bvec_iter *iter, unsigned int bytes)
{
	sector_t end = iter->bi_sector + (bytes >> SECTOR_SHIFT);

	while (bytes) {
		unsigned int n = bio_iter_iovec(bio, *iter).bv_len;

		n = n < bytes ? n : bytes;
		bio_advance_iter_single(bio, iter, n);
		bytes -= n;
	}
	iter->bi_sector = end;
}

struct mempool {
	int pages;
};

mempool_t *mempool_create_page_pool(int pages, int order)
{
	mempool_t *pool = malloc(sizeof(*pool));

	demand(pool && !order, "a pool of single pages");
	pool->pages = pages;
	return pool;
}

void mempool_destroy(mempool_t *pool)
{
	free(pool);
}

/* What it held before is another's: it must not come out. */
struct page *mempool_alloc(mempool_t *pool, int gfp)
{
	struct page *page = malloc(sizeof(*page));

	(void)gfp;
	demand(page && pool->pages-- > 0, "the reserve of bounce pages is empty");
	memset(page, 0xbb, sizeof(*page));
	held++;
	return page;
}

void mempool_free(struct page *page, mempool_t *pool)
{
	pool->pages++;
	held--;
	free(page);
}

static unsigned int noio;

unsigned int memalloc_noio_save(void)
{
	held++;
	return noio++;
}

void memalloc_noio_restore(unsigned int was)
{
	demand(noio == was + 1, "memalloc_noio_restore() does not fit");
	noio = was;
	held--;
}

bool is_noio(void)
{
	return noio != 0;
}
