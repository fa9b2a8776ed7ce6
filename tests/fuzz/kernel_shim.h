/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * kernel_shim.h - as much of Linux as some files of kernel/zram/ and codecs.c take (meson.build has
 * the list), for building those files as they are in user space.  linux/ holds the names they
 * include it by.
 *
 * Each name has the kernel's documented meaning; what a fuzzer needs to see or to steer is a
 * function of kernel_shim.c or of the fuzzer (at the end).  A name that a kernel file takes
 * newly is added here.
 */
#ifndef EBB_TESTS_KERNEL_SHIM_H
#define EBB_TESTS_KERNEL_SHIM_H

#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "host.h"
#include "shim_disk.h"

/* ---- words ---- */

#define PAGE_MASK (~(PAGE_SIZE - 1))
#define SECTOR_SHIFT 9
#define SZ_4K 0x1000
#define SZ_64K 0x10000
#define SHIM_UPTIME 1000        /* seconds */
#define ktime_get_boottime_seconds() SHIM_UPTIME
#define HZ 100
#define fatal_signal_pending(task) false
#define smp_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define U64_MAX UINT64_MAX
#define GFP_KERNEL 0
#define GFP_NOIO 0
#define THIS_MODULE NULL
#define kasan_reset_tag(address) (address)
#define IS_ENABLED(option) 1
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(7, 3, 4)
#ifndef pr_fmt
#define pr_fmt(fmt) fmt
#endif

typedef u64 sector_t;
typedef unsigned int blk_mode_t;
typedef unsigned int blk_opf_t;

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define round_up(x, to) ((((x) - 1) | ((__typeof__(x))(to) - 1)) + 1)
#define min_t(type, a, b) ((type)(a) < (type)(b) ? (type)(a) : (type)(b))
#define max_t(type, a, b) ((type)(a) > (type)(b) ? (type)(a) : (type)(b))
#define is_power_of_2(n) ((n) && !((n) & ((n) - 1)))
#define rounddown(x, to) ((x) - (x) % (to))
#define kzalloc(bytes, gfp) calloc(1, bytes)
#define __GFP_NORETRY 0
#define min(a, b) ((a) < (b) ? (a) : (b))
#define __ATTR(_name, _mode, _show, _store)                                                   \
	{                                                                                     \
		.attr = { .name = #_name, .mode = _mode }, .show = _show, .store = _store     \
	}

/* ---- locks, of which there is no contention here, but a balance ---- */

struct rw_semaphore {
	int readers, writers;
};

void down_read(struct rw_semaphore *s);
void up_read(struct rw_semaphore *s);
void down_write(struct rw_semaphore *s);
void up_write(struct rw_semaphore *s);

static inline int down_write_killable(struct rw_semaphore *s)
{
	down_write(s);
	return 0;
}

static inline int down_read_killable(struct rw_semaphore *s)
{
	down_read(s);
	return 0;
}

/* The home's, counted. */
void shim_mutex_lock(struct mutex *m);
void shim_mutex_unlock(struct mutex *m);
#define mutex_lock(m) shim_mutex_lock(m)
#define mutex_unlock(m) shim_mutex_unlock(m)

static inline int mutex_lock_killable(struct mutex *m)
{
	mutex_lock(m);
	return 0;
}

/* ---- text ---- */

int kstrtobool(const char *s, bool *v);
int kstrtou16(const char *s, unsigned int base, u16 *v);
int kstrtoint(const char *s, unsigned int base, int *v);
int kstrtouint(const char *s, unsigned int base, unsigned int *v);
/* Into a number of 64 bits, whatever its name. */
#define kstrtoull(s, base, v) shim_kstrtoull(s, base, (unsigned long long *)(v))
int shim_kstrtoull(const char *s, unsigned int base, unsigned long long *v);
int kstrtobool(const char *s, bool *v);
int kstrtoul(const char *s, unsigned int base, unsigned long *v);
unsigned long long memparse(const char *s, char **end);
bool sysfs_streq(const char *a, const char *b);
char *skip_spaces(const char *s);
char *next_arg(char *args, char **name, char **value);

#define kstrdup(s, gfp) strdup(s)
#define kfree(p) free(p)
#define vfree(p) free(p)
#define kvfree(p) free(p)
#define kvzalloc(bytes, gfp) calloc(1, bytes)
#define __GFP_NOWARN 0
#define __GFP_RETRY_MAYFAIL 0
/* So that a disk of any size can be asked for. */
#define __vmalloc(bytes, gfp) ((bytes) > 1 << 20 ? NULL : malloc(bytes))

/* Bytes that are escaped with these two are those that are not printable ASCII. */
#define ESCAPE_ANY 0x0f
#define ESCAPE_NAP 0x80
int string_escape_mem(const char *src, size_t n, char *dst, size_t room, unsigned int flags,
		      const char *only);

/*
 * Knows %s %d %u %lld %llu and %*pE, and aborts at any other %p: an address is nobody's business.
 */
void shim_printk(const char *fmt, ...);

#define pr_info(fmt, ...) shim_printk(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_notice_ratelimited(fmt, ...) shim_printk(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_err_ratelimited(fmt, ...) shim_printk(pr_fmt(fmt), ##__VA_ARGS__)

/* ---- devices and their files ---- */

struct gendisk {
	char disk_name[32];
	void *private_data;
};

struct device {
	const char *name;
	struct gendisk *disk;
};

static inline const char *dev_name(const struct device *dev)
{
	return dev->name;
}

static inline struct gendisk *dev_to_disk(const struct device *dev)
{
	return dev->disk;
}

struct attribute {
	const char *name;
	mode_t mode;
};

struct attribute_group {
	struct attribute **attrs;
};

struct device_attribute {
	struct attribute attr;
	ssize_t (*show)(struct device *dev, struct device_attribute *attr, char *buf);
	ssize_t (*store)(struct device *dev, struct device_attribute *attr, const char *buf,
			 size_t len);
};

struct class;
struct class_attribute {
	struct attribute attr;
	ssize_t (*show)(const struct class *class, const struct class_attribute *attr, char *buf);
	ssize_t (*store)(const struct class *class, const struct class_attribute *attr,
			 const char *buf, size_t len);
};

struct class {
	const char *name;
	const struct attribute_group **class_groups;
};

#define DEVICE_ATTR_RW(_name)                                                                 \
	struct device_attribute dev_attr_##_name = __ATTR(_name, 0644, _name##_show, _name##_store)
#define DEVICE_ATTR_RO(_name)                                                                 \
	struct device_attribute dev_attr_##_name = __ATTR(_name, 0444, _name##_show, NULL)
#define DEVICE_ATTR_WO(_name)                                                                 \
	struct device_attribute dev_attr_##_name = __ATTR(_name, 0200, NULL, _name##_store)
#define CLASS_ATTR_WO(_name)                                                                  \
	struct class_attribute class_attr_##_name = __ATTR(_name, 0200, NULL, _name##_store)
#define ATTRIBUTE_GROUPS(_name)                                                               \
	static const struct attribute_group _name##_group = { .attrs = _name##_attrs };       \
	static const struct attribute_group *_name##_groups[] = { &_name##_group, NULL }

/* Both abort if a page is not enough.  (Formats are for the kernel's build: its u64 is another.) */
int sysfs_emit(char *buf, const char *fmt, ...);
int sysfs_emit_at(char *buf, int at, const char *fmt, ...);

/* ---- bios ---- */

struct page {
	unsigned char byte[PAGE_SIZE];
};

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_len, bv_offset;         /* may reach past the page into those after it */
};

struct bvec_iter {
	sector_t bi_sector;
	unsigned int bi_size, bi_idx, bi_bvec_done;
};

struct block_device {
	struct gendisk *bd_disk;
};

enum req_op { REQ_OP_READ, REQ_OP_WRITE, REQ_OP_DISCARD, REQ_OP_WRITE_ZEROES, REQ_OP_FLUSH };
#define REQ_SYNC (1u << 11)
enum { BLK_STS_OK, BLK_STS_NOTSUPP, BLK_STS_IOERR = 10 };

struct bio;
typedef void bio_end_io_t(struct bio *bio);

struct bio {
	enum req_op op;
	u8 bi_status;
	struct block_device *bi_bdev;
	struct bvec_iter bi_iter;
	struct bio_vec *bi_io_vec;
	bio_end_io_t *bi_end_io;
};

#define bio_op(bio) ((bio)->op)

/* The next piece of memory that is within one page. */
struct bio_vec bio_iter_iovec(const struct bio *bio, struct bvec_iter iter);
/* By at most that piece. */
void bio_advance_iter_single(const struct bio *bio, struct bvec_iter *iter, unsigned int bytes);
void bio_advance_iter(const struct bio *bio, struct bvec_iter *iter, unsigned int bytes);

/* What is in a row from there on. */
struct bio_vec mp_bvec_iter_bvec(const struct bio_vec *bvec, struct bvec_iter iter);

#define virt_to_page(mem) ((struct page *)(mem))
#define kmap_local_page(page) ((void *)(page)->byte)
#define kunmap_local(mem) ((void)(mem))
#define flush_dcache_page(page) ((void)(page))
#define page_address(page) ((void *)(page)->byte)
#define page_to_nid(page) ((void)(page), 0u)
#define memcpy_to_bvec(bv, from)                                                              \
	memcpy((bv)->bv_page->byte + (bv)->bv_offset, from, (bv)->bv_len)
#define memcpy_from_bvec(to, bv)                                                              \
	memcpy(to, (bv)->bv_page->byte + (bv)->bv_offset, (bv)->bv_len)
#define cond_resched() ((void)0)
#define hash_64(v, bits) ((u64)(v) * 0x61c8864680b583ebu >> (64 - (bits)))

typedef struct mempool mempool_t;
mempool_t *mempool_create_page_pool(int pages, int order);
void mempool_destroy(mempool_t *pool);
struct page *mempool_alloc(mempool_t *pool, int gfp);
void mempool_free(struct page *page, mempool_t *pool);

/* Must be paired, and nothing may allocate by doing I/O between them (is_noio()). */
unsigned int memalloc_noio_save(void);
void memalloc_noio_restore(unsigned int was);
bool is_noio(void);

struct queue_limits {
	unsigned int logical_block_size, physical_block_size, io_min, io_opt;
	unsigned int max_hw_discard_sectors, max_write_zeroes_sectors, features;
};

struct block_device_operations {
	void *owner;
	int (*open)(struct gendisk *disk, blk_mode_t mode);
	void (*submit_bio)(struct bio *bio);
	void (*swap_slot_free_notify)(struct block_device *bdev, unsigned long index);
};

struct completion {
	int done;
};

/* ---- the fuzzers' ---- */

enum kernel_read_file_id { READING_POLICY };
ssize_t kernel_read_file_from_path(const char *path, long long offset, void **buf, size_t room,
				   size_t *size, enum kernel_read_file_id id);
int class_register(const struct class *class);
void class_unregister(const struct class *class);
unsigned long bio_start_io_acct(struct bio *bio);
void bio_end_io_acct(struct bio *bio, unsigned long start);
void bio_endio(struct bio *bio);

/* Every lock is free, nothing is noio. */
bool shim_at_rest(void);
/* How many mutexes are held. */
unsigned int shim_mutexes(void);

#endif
