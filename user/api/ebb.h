/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ebb.h - compressed pages in a process: the public interface of libebb.
 *
 * A store is an array of slots.  A slot is empty, holds one page (compressed, or as one
 * repeated word, or raw when it does not shrink), or holds one object of the caller's own
 * bytes.  Freeing a slot detaches what it held in a few nanoseconds; the memory behind it
 * is given back in batches by a worker thread, within a budget of bytes and of time.  Workers are
 * shared by the stores of a process, and made when there is something to do.
 *
 * Every function may be called by any thread at any time, but ebb_close(), which needs the store
 * to itself, and ebb_check() and ebb_reset(), which say what others may do meanwhile.  None may be
 * called from a signal handler.  None is a cancellation point; a thread that may be cancelled
 * asynchronously must not call any.  In a forked child a store of the parent is none (-EINVAL),
 * closing it does nothing, and it may open stores of its own.  libebb.so stays loaded after
 * dlclose(); what links libebb.a and may be unloaded is to be linked with -z nodelete.  Functions
 * that return int return 0, or a negative error number and then have changed nothing but what
 * their comment says.  -EINVAL: an argument that can be seen to be wrong (NULL, what is no store,
 * a size).  -ERANGE: a slot past the end.
 */
#ifndef EBB_H
#define EBB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EBB_VERSION_MAJOR 0
#define EBB_VERSION_MINOR 1

/* "MAJOR.MINOR.PATCH" of the library that runs. */
const char *ebb_version(void);

/*
 * Which argument or field the last call of this thread that returned -EINVAL did not take, with
 * its value and what was expected: a line without a newline, which stays until the next such call;
 * "" if there was none.  Calls that succeed leave it, and so do ebb_read() and ebb_get() of a slot
 * that has an object, or a page.
 */
const char *ebb_why(void);

/* Bytes of a page, the unit of ebb_write() and ebb_read(); 4096 unless built otherwise. */
size_t ebb_page_size(void);

struct ebb_store;

/* Stands for "the default" where 0 has a meaning of its own. */
#define EBB_DEFAULT UINT64_MAX
#define EBB_LEVEL_DEFAULT INT32_MIN

/*
 * The structs of this file begin with their size, so that program and library may be of different
 * versions: they only grow, and what one of the two does not know is 0.
 */
struct ebb_config {
	size_t struct_size;      /* sizeof(struct ebb_config); set by ebb_config_init() */
	uint64_t slots;          /* slots of the store, 1 to 2^32 - 1 */
	const char *codec;       /* a name of ebb_codec_name(); NULL: lz4 */
	int32_t level;           /* of the codec; more packs better, but lz4's 1 packs best, and
				    more is faster; EBB_LEVEL_DEFAULT: the codec's own */
	uint32_t chain_size;     /* most pages in a zspage, 4 to 16; 0: EBB_CHAIN_DEFAULT */
	uint64_t mem_limit;      /* bytes the pool may take; 0: no limit */
	uint64_t release_limit;  /* bytes held back after a free; 0: free at once
				    (synchronous); EBB_DEFAULT: 1/32 of the machine's memory, but
				    at most 256 MiB a CPU */
	uint32_t flags;          /* of EBB_NO_... */
	uint32_t reserved;       /* 0 */
};

#define EBB_CHAIN_DEFAULT 16u
#define EBB_NO_HUGEPAGE 1u       /* without effect: a store never has huge pages */
#define EBB_NO_COMPACT 2u        /* no compaction but by ebb_compact() */

/* Fills *cfg with the defaults; slots is 0 and must be set. */
void ebb_config_init(struct ebb_config *cfg);

/*
 * Makes an empty store.  -EINVAL: a field is out of its range; -ENOENT: no such codec; -ENOMEM.
 */
int ebb_open(struct ebb_store **store, const struct ebb_config *cfg);

/* Ends a store and returns all its memory.  NULL is allowed. */
void ebb_close(struct ebb_store *store);

/*
 * Stores bytes (a multiple of the page size, not 0) from buf in slots slot, slot + 1, ...
 * A page that fails leaves its slot as it was; pages before it are stored.  -ENOMEM: memory
 * or mem_limit is exhausted, also after what was held back is free; -ENOSPC: objects of
 * this size take 4 TiB, or there are 2^32 of them; -EIO: the codec failed.
 */
int ebb_write(struct ebb_store *store, uint64_t slot, const void *buf, size_t bytes);

/*
 * Reads bytes (a multiple of the page size, not 0) from slot, slot + 1, ... into buf.  An
 * empty slot reads as zeros.  -EINVAL: a slot holds an object of ebb_put(); -EIO: what is
 * stored does not decompress.  Pages before the slot that fails are read; after -EIO its own is
 * zeros; the rest of buf is as it was.
 */
int ebb_read(struct ebb_store *store, uint64_t slot, void *buf, size_t bytes);

/*
 * Stores one object of 1 to ebb_page_size() bytes as it is in a slot, without a codec: for
 * data that is compressed already.  Errors as ebb_write().
 */
int ebb_put(struct ebb_store *store, uint64_t slot, const void *data, size_t bytes);

/*
 * Reads an object of ebb_put().  *bytes is its length, 0 for an empty slot.  -ENOSPC: cap is
 * less than the length (*bytes tells it); -EINVAL: the slot holds a page.
 */
int ebb_get(struct ebb_store *store, uint64_t slot, void *buf, size_t cap, size_t *bytes);

/*
 * Empties slots first .. first + count - 1.  Empty slots are allowed.  Waits for no reader, no
 * memory and no file.  Most calls take no lock.  One that does, and finds it held by a thread that
 * lost its CPU, sleeps until that thread goes on.  Allocates nothing, but a call that finds no
 * worker thread (the first in ten idle seconds, or while all are at work) has one made, which takes
 * some 50 us.
 */
int ebb_free(struct ebb_store *store, uint64_t first, uint64_t count);

/* Empties all slots and returns the memory. Callers must not use the slots meanwhile. */
int ebb_reset(struct ebb_store *store);

/*
 * Returns when everything that was freed before the call is no longer held back: its pages, where
 * they are empty, are in the per-CPU lists (pcp_pages) or the zone.
 */
int ebb_flush(struct ebb_store *store);

/*
 * Moves objects out of sparse zspages while other threads go on.  *pages, if not NULL, is
 * the number of pages this freed.  Flushes first.
 */
int ebb_compact(struct ebb_store *store, uint64_t *pages);

/*
 * Gives the zone's free memory on to the operating system now, instead of when it has been
 * idle for a while.  *bytes, if not NULL, is how much the system took.  Flushes first; does not
 * compact.
 */
int ebb_trim(struct ebb_store *store, uint64_t *bytes);

/* Changes mem_limit (bytes, 0: none).  Below what is used, writes that need memory fail. */
int ebb_set_mem_limit(struct ebb_store *store, uint64_t bytes);

/*
 * Changes release_limit (as in ebb_config).  What is held back past it is released now.
 * -ENOMEM: there is no memory for what a larger one needs, and it is what it was.
 */
int ebb_set_release_limit(struct ebb_store *store, uint64_t bytes);

/* Makes mem_used_max start again from what is used now. */
int ebb_reset_peak(struct ebb_store *store);

struct ebb_stat {
	size_t struct_size;         /* sizeof(struct ebb_stat), set by the caller */
	/* the fields of zram's mm_stat, same meaning; bytes unless named pages */
	uint64_t orig_data_size;    /* of the pages and objects stored */
	uint64_t compr_data_size;   /* after compression */
	uint64_t mem_used_total;    /* pages of zspages */
	uint64_t mem_limit;
	uint64_t mem_used_max;
	uint64_t same_pages;        /* slots that are one repeated word */
	uint64_t pages_compacted;   /* pages freed by compaction, ever */
	uint64_t huge_pages;        /* slots stored raw */
	uint64_t huge_pages_since;  /* the same, ever */
	/* of io_stat */
	uint64_t failed_reads, failed_writes, notify_free;
	/* of ours */
	uint64_t meta_bytes;        /* descriptors, slot table, release buffers */
	uint64_t pcp_pages;         /* free pages in per-CPU lists */
	uint64_t zone_bytes;        /* memory the zone has from the system */
	uint64_t zone_free_bytes;   /* of it, free */
	uint64_t held_back_bytes;   /* freed by the caller, not yet in the pool */
	uint64_t held_back_peak;
	uint64_t released_deferred; /* objects freed by the worker or a flush */
	uint64_t released_in_place; /* freed by the caller: the budget or the buffers were spent */
	uint64_t released_sync;     /* objects freed by the caller, synchronous mode */
	uint64_t release_limit;
};

/*
 * Fills *stat, but for struct_size, which the caller has set (-EINVAL: it has not).  Counters that
 * change meanwhile are each right at some moment of the call.
 */
int ebb_stat(struct ebb_store *store, struct ebb_stat *stat);

/* Starts held_back_peak again from what is held back now. */
int ebb_reset_held_back_peak(struct ebb_store *store);

#define EBB_FULLNESS 11             /* up to 10 %, 20 %, ... 90 %, under 100 %, 100 % */

/* A row of the class table; the columns of zsmalloc's "classes" file. */
struct ebb_class {
	size_t struct_size;	/* sizeof(struct ebb_class), set by the caller in the first row */
	uint32_t index;             /* of the size class, 0 to 256 */
	uint32_t size;              /* bytes of an object, its header included */
	uint32_t pages_per_zspage;
	uint32_t objs_per_zspage;
	uint64_t zspages[EBB_FULLNESS];
	uint64_t obj_allocated;     /* room in all zspages */
	uint64_t obj_used;
	uint64_t pages_used;
	uint64_t freeable;          /* pages that compaction could free */
};

#define EBB_CLASSES_MAX 257

/*
 * Fills rows[EBB_CLASSES_MAX] with the store's classes, smallest first; *n tells how many.
 * -EINVAL: rows[0].struct_size is not set; -ENOMEM.
 */
int ebb_classes(struct ebb_store *store, struct ebb_class *rows, unsigned int *n);

/*
 * The class table of the zsmalloc documentation for a page size (4096 to 65536, a power of two) and
 * a chain size (4 to 16); the counts are 0.  *largest is the size of the largest class that is not
 * huge.
 */
int ebb_class_table(size_t page_size, unsigned int chain_size, struct ebb_class *rows,
		    unsigned int *n, unsigned int *largest);

/* The same by the rule that stores use, which is that of Linux 7.3 but for pages of 64 KiB. */
int ebb_store_class_table(size_t page_size, unsigned int chain_size, struct ebb_class *rows,
			  unsigned int *n, unsigned int *largest);

/*
 * Checks every invariant of the store; no other thread may use it meanwhile.  What is held back
 * is freed first, as by ebb_flush().  0, or -EUCLEAN with a sentence in why[len] (cut to fit).
 */
int ebb_check(struct ebb_store *store, char *why, size_t len);

/* The name of codec i, or NULL past the last. */
const char *ebb_codec_name(unsigned int i);

/* The levels of a codec; min == max == 0: it has none.  -ENOENT: no such codec. */
int ebb_codec_levels(const char *name, int32_t *min, int32_t *max, int32_t *def);

#ifdef __cplusplus
}
#endif
#endif
