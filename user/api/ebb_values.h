/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ebb_values.h - compressed values: bytes of any length under a 64-bit id or a key of bytes.
 *
 *     ebb_values_config_init(&cfg);
 *     ebb_values_open(&values, &cfg);
 *     ebb_values_add(values, text, strlen(text), &id);
 *     ebb_values_get(values, id, buf, sizeof(buf), &bytes);
 *     ebb_values_delete(values, id);
 *
 * A value has 0 to EBB_VALUES_MAX bytes.  It is compressed in blocks of unit_bytes at most, each
 * kept as it is where that does not pay.  Ids and keys are two name spaces in one table.
 *
 * A value is put, replaced and deleted in one step: who gets it meanwhile gets the old or the new
 * one, whole.  A get of up to unit_bytes waits for no writer, unless it lost to eight of them.
 * Memory of deleted values goes back to the system without a call.
 *
 * Threads, signals, cancellation, fork() and dlclose() are as ebb.h says, and so are errors.
 * -ENOENT: there is no such value.
 */
#ifndef EBB_VALUES_H
#define EBB_VALUES_H

#include "ebb.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EBB_VALUES_MAX ((uint64_t)1 << 40)      /* bytes of a value */
#define EBB_VALUES_KEY_MAX 1024                 /* bytes of a key; at least 1 */

struct ebb_values;

struct ebb_values_config {
	size_t struct_size;      /* sizeof(struct ebb_values_config); ebb_values_config_init() */
	const char *codec;       /* a name of ebb_codec_name(); NULL: lz4 */
	int32_t level;           /* of the codec; EBB_LEVEL_DEFAULT: the codec's own */
	uint32_t chain_size;     /* as in ebb_config */
	uint64_t slots;          /* of the store, 2^16 to 2^32 - 1; 0: enough to fill the machine's
				    memory.  An upper bound: tables grow with what is stored */
	uint64_t mem_limit;      /* bytes the pool may take by puts; 0: no limit.  Deletes of
				    values that were packed together write what stays anew, so
				    they may take it a few percent above, until a compaction */
	uint64_t release_limit;  /* as in ebb_config */
	uint32_t flags;          /* as in ebb_config */
	uint32_t unit_bytes;     /* of a value that are compressed together: 16384, 32768 or 65536;
				    0: 65536.  A smaller one makes reads of parts cheaper */
};

/* Fills *cfg with the defaults; nothing must be set. */
void ebb_values_config_init(struct ebb_values_config *cfg);

/* Opens an empty table.  -EINVAL: a field is out of its range; -ENOENT: no such codec; -ENOMEM. */
int ebb_values_open(struct ebb_values **values, const struct ebb_values_config *cfg);

/*
 * Ends it and returns all its memory.  Its readers (below) were closed before, and nobody else uses
 * it any more.  NULL is allowed.
 */
void ebb_values_close(struct ebb_values *values);

/*
 * Stores bytes under an id that was not in use, which *id becomes.  Ids begin at 1 and grow.  Those
 * that the caller chose are passed over, and free ones beside them may be, so that it costs what a
 * put costs beside any number of ids.  Errors as ebb_values_put().
 */
int ebb_values_add(struct ebb_values *values, const void *data, size_t bytes, uint64_t *id);

#define EBB_PUT_NEW 1u           /* only if there is none: else -EEXIST */
#define EBB_PUT_REPLACE 2u       /* only if there is one: else -ENOENT */

/*
 * Stores bytes under an id, in the place of what was there.  flags: 0 or one of EBB_PUT_..., whose
 * refusal costs a lookup and no compression.  When it fails, all is as it was.  -ENOMEM: memory or
 * mem_limit is exhausted, also after a compaction; -ENOSPC: the slots are; -EFBIG: more than
 * EBB_VALUES_MAX; -EIO: the codec failed.
 */
int ebb_values_put(struct ebb_values *values, uint64_t id, const void *data, size_t bytes,
		   unsigned int flags);

/*
 * Reads a value to buf[cap]; *bytes is its size.  -ENOSPC: cap is less, and nothing was read; -EIO:
 * what is stored does not decompress; -ENOMEM.
 */
int ebb_values_get(struct ebb_values *values, uint64_t id, void *buf, size_t cap, size_t *bytes);

/* The size of a value, without reading it. */
int ebb_values_size(struct ebb_values *values, uint64_t id, uint64_t *bytes);

/*
 * Deletes a value.  It may need memory, a page at most, which mem_limit does not deny.  -ENOMEM:
 * the system denied it, and the value is still there.
 */
int ebb_values_delete(struct ebb_values *values, uint64_t id);

/* The same under a key of key_bytes, 1 to EBB_VALUES_KEY_MAX (else -EINVAL). */
int ebb_values_put_key(struct ebb_values *values, const void *key, size_t key_bytes,
		       const void *data, size_t bytes, unsigned int flags);
int ebb_values_get_key(struct ebb_values *values, const void *key, size_t key_bytes, void *buf,
		       size_t cap, size_t *bytes);
int ebb_values_size_key(struct ebb_values *values, const void *key, size_t key_bytes,
			uint64_t *bytes);
int ebb_values_delete_key(struct ebb_values *values, const void *key, size_t key_bytes);

/*
 * A reader of one value: it reads the value that was there when it was opened, to the end, although
 * that is replaced or deleted meanwhile.  One thread at a time may use it.
 */
struct ebb_value_reader;

/* -ENOENT, -ENOMEM; -EIO. */
int ebb_values_read_open(struct ebb_values *values, uint64_t id, struct ebb_value_reader **reader);
int ebb_values_read_open_key(struct ebb_values *values, const void *key, size_t key_bytes,
			     struct ebb_value_reader **reader);

/* Bytes of its value; 0 if it is none. */
uint64_t ebb_value_reader_size(const struct ebb_value_reader *reader);

/*
 * Reads up to bytes from offset on; *got, if not NULL, is how many: fewer at the end, 0 past it.
 * -EIO: what is stored does not decompress; -ENOMEM.
 */
int ebb_value_read(struct ebb_value_reader *reader, uint64_t offset, void *buf, size_t bytes,
		   size_t *got);

/* NULL is allowed. */
void ebb_value_reader_close(struct ebb_value_reader *reader);

/*
 * A value in its packed form: as it is stored, after a head with its size, its codec and a sum.
 * So a value that is compressed already goes to a file and comes back without the codec's work.
 * The form is the same on all machines, and in later versions.
 */

/*
 * Reads the packed form to buf[cap]; *bytes is its size.  It is of one moment, whatever happens to
 * the name meanwhile.  -ENOSPC: cap is less, and *bytes tells the size; -EIO, -ENOMEM.
 */
int ebb_values_read_packed(struct ebb_values *values, uint64_t id, void *buf, size_t cap,
			   size_t *bytes);
int ebb_values_read_packed_key(struct ebb_values *values, const void *key, size_t key_bytes,
			       void *buf, size_t cap, size_t *bytes);

/*
 * Stores the value of a packed form.  Errors as ebb_values_put(), and -EUCLEAN: it is damaged, or
 * none; -ENOTSUP: another codec or unit made it, or a later version.  Bytes that no damage left so,
 * but somebody who knows the sum, may be stored and not decompress: a get is -EIO then.
 */
int ebb_values_put_packed(struct ebb_values *values, uint64_t id, const void *packed, size_t bytes,
			  unsigned int flags);
int ebb_values_put_packed_key(struct ebb_values *values, const void *key, size_t key_bytes,
			      const void *packed, size_t bytes, unsigned int flags);

/*
 * Reads the value of a packed form to buf[cap] without storing it; *got is its size.  -ENOSPC: cap
 * is less, and *got tells the size; -EUCLEAN, -ENOTSUP as above, but that the unit may be any;
 * -EIO: it does not decompress.
 */
int ebb_values_unpack(struct ebb_values *values, const void *packed, size_t bytes, void *buf,
		      size_t cap, size_t *got);

/*
 * The size of the value in a packed form, by its head; the sum is not looked at.  -EUCLEAN,
 * -ENOTSUP as above, but that codec and unit may be any.
 */
int ebb_packed_size(const void *packed, size_t bytes, uint64_t *value_bytes);

/*
 * Goes over all values, in no order that means anything.  A cursor of zeros is at the begin.  A
 * value that is there all the time comes exactly once; one that is put or deleted meanwhile may
 * come or not.
 */
struct ebb_values_cursor {
	uint64_t at;
	uint32_t nth, end;
};

/* What a cursor came to. */
struct ebb_values_entry {
	size_t struct_size;      /* sizeof(struct ebb_values_entry), set by the caller */
	uint64_t bytes;          /* of the value */
	uint64_t id;             /* 0 if it has a key */
	size_t key_bytes;        /* 0 if it has an id */
};

/*
 * The order is that of hashes with the table's secret: who sees it learns which of his keys are
 * near each other, so it is not for strangers who choose keys.
 *
 * Fills *entry with the next value's, and if it has a key, key[EBB_VALUES_KEY_MAX]; NULL: its bytes
 * are not wanted.  -ENOENT: that was all.
 */
int ebb_values_next(struct ebb_values *values, struct ebb_values_cursor *cursor,
		    struct ebb_values_entry *entry, void *key);

/* Changes mem_limit (bytes, 0: none).  Below what is used, puts that need memory fail. */
int ebb_values_set_mem_limit(struct ebb_values *values, uint64_t bytes);

struct ebb_values_stat {
	size_t struct_size;      /* sizeof(struct ebb_values_stat), set by the caller */
	uint64_t values;
	uint64_t value_bytes;    /* of all values */
	uint64_t packed_bytes;   /* what compression made of them */
	uint64_t object_bytes;   /* of the objects that they and their names are in */
	uint64_t buckets;        /* of the table; an object each, if it is not empty */
	uint64_t meta_bytes;     /* tables and buffers, beside those of the store */
	uint64_t rereads;        /* times a reader began anew, since what it read was replaced */
};

/* Fills *stat, but for struct_size, which the caller has set (-EINVAL: it has not). */
int ebb_values_stat(struct ebb_values *values, struct ebb_values_stat *stat);

/*
 * The store that has the objects, for ebb_stat(), ebb_flush(), ebb_compact(), ebb_trim() and
 * ebb_set_release_limit().  Its slots are not the caller's.  It ends with the values.  NULL: not
 * opened.
 */
struct ebb_store *ebb_values_store(struct ebb_values *values);

/*
 * Checks all that is stored; no other thread may use it meanwhile.  0, or -EUCLEAN with a sentence
 * in why[len] (cut to fit); -ENOMEM.
 */
int ebb_values_check(struct ebb_values *values, char *why, size_t len);

#ifdef __cplusplus
}
#endif
#endif
