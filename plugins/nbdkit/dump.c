// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* dump.c - owns struct dump_writer; writes disks to files, and reads them.  See dump.h. */
#include "dump.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include <ebb_units.h>
#include "user/home/private_file.h"

#define VERSION 1u
#define RECORD_MOST ((size_t)1 << 20)
#define AT_END UINT64_MAX
#define ZSTD_LEVEL 1                    /* who ends a server waits for it */

static const char magic[8] = "ebb-disk";

struct head {
	char magic[8];
	uint32_t version, zero;
	uint64_t size, sum;
};

struct record {
	uint64_t offset;
	uint32_t bytes, packed;
	uint64_t content;       /* sum of the packed bytes; at the end: how many records */
	uint64_t sum;
};

_Static_assert(sizeof(struct head) == 32 && sizeof(struct record) == 32, "no holes");

/* Of a head or a record, whose last 8 bytes are its sum. */
static uint64_t sum_of(const void *it, uint64_t number)
{
	return XXH64(it, 24, number);
}

/* ---- reading ---- */

struct reader {
	FILE *file;
	const char *name;
	uint64_t at;            /* bytes read */
	uint64_t size;          /* of the disk */
	struct ebb_units *units; /* NULL: only look */
	ZSTD_DCtx *zstd;
	char *packed, *plain;   /* RECORD_MOST each */
};

static int damaged(const struct reader *r, uint64_t at, const char *what)
{
	nbdkit_error("%s is damaged at byte %" PRIu64 ": %s", r->name, at, what);
	return -1;
}

static int take(struct reader *r, void *to, size_t bytes)
{
	size_t n;

	errno = 0;
	n = fread(to, 1, bytes, r->file);
	r->at += n;
	if (n == bytes)
		return 0;
	if (ferror(r->file))
		nbdkit_error("%s: read: %m", r->name);
	else
		nbdkit_error("%s is cut off after %" PRIu64 " bytes", r->name, r->at);
	return -1;
}

static int read_head(struct reader *r)
{
	struct head head;

	if (take(r, &head, sizeof(head)))
		return -1;
	if (memcmp(head.magic, magic, sizeof(magic))) {
		nbdkit_error("%s is no disk that dump= wrote", r->name);
		return -1;
	}
	if (head.sum != sum_of(&head, 0))
		return damaged(r, 0, "its head");
	if (head.version != VERSION || head.zero) {
		nbdkit_error("%s is of version %" PRIu32 ", and this plugin reads version %u",
			     r->name, head.version, VERSION);
		return -1;
	}
	/* The sum was right, so this is not chance; but nbdkit's sizes are signed. */
	if (!head.size || head.size > INT64_MAX)
		return damaged(r, 16, "the size of the disk");
	r->size = head.size;
	return 0;
}

/* Whether a record can be what comes after those that end at done. */
static bool fits(const struct reader *r, const struct record *rec, uint64_t done)
{
	if (!rec->bytes || rec->bytes > RECORD_MOST || !rec->packed || rec->packed > rec->bytes)
		return false;
	return rec->offset >= done && rec->offset < r->size &&
	       rec->bytes <= r->size - rec->offset;
}

/* Puts what a record has into the units. */
static int store(struct reader *r, const struct record *rec, uint64_t at)
{
	const char *plain = r->packed;
	int err;

	if (rec->packed < rec->bytes) {
		size_t n = ZSTD_decompressDCtx(r->zstd, r->plain, RECORD_MOST, r->packed,
					       rec->packed);

		if (ZSTD_isError(n) || n != rec->bytes)
			return damaged(r, at, "a record does not decompress");
		plain = r->plain;
	}
	if (!r->units)
		return 0;
	err = ebb_units_write(r->units, rec->offset, plain, rec->bytes);
	if (!err)
		return 0;
	errno = -err;
	nbdkit_error("%s cannot be loaded: %m at %" PRIu64 " of %" PRIu64 " bytes%s", r->name,
		     rec->offset, r->size, err == -ENOMEM ? "; is mem-limit too low?" : "");
	return -1;
}

static int read_end(struct reader *r, const struct record *end, uint64_t at, uint64_t records)
{
	if (end->bytes || end->packed || end->content != records)
		return damaged(r, at, "its end");
	if (getc(r->file) != EOF)
		return damaged(r, r->at, "there is more after its end");
	return 0;
}

static int read_records(struct reader *r)
{
	uint64_t done = 0, number;
	struct record rec;

	for (number = 1; ; number++) {
		uint64_t at = r->at;

		if (take(r, &rec, sizeof(rec)))
			return -1;
		if (rec.sum != sum_of(&rec, number))
			return damaged(r, at, "the head of a record");
		if (rec.offset == AT_END)
			return read_end(r, &rec, at, number - 1);
		if (!fits(r, &rec, done))
			return damaged(r, at, "a record of bytes that the disk does not have");
		if (take(r, r->packed, rec.packed))
			return -1;
		if (XXH64(r->packed, rec.packed, number) != rec.content)
			return damaged(r, at, "the bytes of a record");
		if (store(r, &rec, at))
			return -1;
		done = rec.offset + rec.bytes;
	}
}

/* Reads the file from its begin; its descriptor stays open. */
static int read_all(int fd, struct reader *r)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0), err = -1;

	r->file = copy < 0 ? NULL : fdopen(copy, "r");
	if (!r->file && copy >= 0)
		close(copy);
	r->packed = malloc(RECORD_MOST);
	r->plain = malloc(RECORD_MOST);
	r->zstd = ZSTD_createDCtx();
	if (!r->file || !r->packed || !r->plain || !r->zstd)
		nbdkit_error("%s: %m", r->name);
	else if (fseeko(r->file, 0, SEEK_SET))
		nbdkit_error("%s: seek: %m", r->name);
	else
		err = read_head(r) ? -1 : read_records(r);
	ZSTD_freeDCtx(r->zstd);
	free(r->plain);
	free(r->packed);
	if (r->file)
		fclose(r->file);
	return err;
}

int dump_open(const char *name, uint64_t *size)
{
	struct reader r = { .name = name };
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		nbdkit_error("load=%s: %m", name);
		return -1;
	}
	if (read_all(fd, &r)) {
		close(fd);
		return -1;
	}
	*size = r.size;
	return fd;
}

int dump_load(int fd, const char *name, struct ebb_units *units)
{
	struct reader r = { .name = name, .units = units };

	return read_all(fd, &r);
}

/* ---- writing ---- */

struct dump_writer {
	FILE *file;             /* NULL: not opened */
	char *name, *tmp;
	uint64_t records;
	ZSTD_CCtx *zstd;
	char *packed, *plain;   /* RECORD_MOST each */
};

static int failed(const struct dump_writer *w, const char *what)
{
	nbdkit_error("dump=%s: %s: %m", w->name, what);
	return -1;
}

/* Whether a dump may take the place of what is there: a link or a device would be gone. */
static int look_at_place(const struct dump_writer *w)
{
	struct stat st;

	if (lstat(w->name, &st)) {
		if (errno == ENOENT)
			return 0;
		return failed(w, "it cannot be looked at");
	}
	if (S_ISREG(st.st_mode))
		return 0;
	nbdkit_error("dump=%s: it is %s; expected a regular file, or none yet", w->name,
		     S_ISLNK(st.st_mode) ? "a symbolic link" :
		     S_ISDIR(st.st_mode) ? "a folder" : "no regular file");
	return -1;
}

/* Opens name.tmp; a server that was killed may have left one. */
static int open_tmp(struct dump_writer *w)
{
	int fd = private_file_open(w->tmp, magic, sizeof(magic));

	switch (fd) {
	case -EBUSY:
		nbdkit_error("dump=%s: another server writes to it", w->name);
		return -1;
	case -ELOOP:
		nbdkit_error("dump=%s: %s is a symbolic link; expected a regular file, or none yet",
			     w->name, w->tmp);
		return -1;
	case -EEXIST:
		nbdkit_error("dump=%s: %s is something else than the begin of a dump, and was left "
			     "as it is", w->name, w->tmp);
		return -1;
	case -EPERM:
		nbdkit_error("dump=%s: %s cannot be kept from other users there", w->name, w->tmp);
		return -1;
	}
	w->file = fd < 0 ? NULL : fdopen(fd, "w");
	if (w->file)
		return 0;
	if (fd < 0)
		errno = -fd;
	failed(w, w->tmp);
	if (fd >= 0) {
		unlink(w->tmp);
		close(fd);
	}
	return -1;
}

struct dump_writer *dump_create(const char *name)
{
	struct dump_writer *w = calloc(1, sizeof(*w));
	char *tmp = NULL;

	if (w && asprintf(&tmp, "%s.tmp", name) >= 0) {
		w->tmp = tmp;
		w->name = strdup(name);
		w->packed = malloc(RECORD_MOST);
		w->plain = malloc(RECORD_MOST);
		w->zstd = ZSTD_createCCtx();
	}
	if (!w || !w->name || !w->packed || !w->plain || !w->zstd)
		nbdkit_error("dump=%s: there is no memory", name);
	else if (!look_at_place(w) && !open_tmp(w))
		return w;
	dump_end(w);
	return NULL;
}

void dump_end(struct dump_writer *w)
{
	if (!w)
		return;
	/* Who removed it by hand let another server make one. */
	if (w->file && private_file_is_at(fileno(w->file), w->tmp))
		unlink(w->tmp);
	if (w->file)
		fclose(w->file);
	ZSTD_freeCCtx(w->zstd);
	free(w->plain);
	free(w->packed);
	free(w->tmp);
	free(w->name);
	free(w);
}

static int put(struct dump_writer *w, const void *from, size_t bytes)
{
	return fwrite(from, 1, bytes, w->file) == bytes ? 0 : failed(w, "write");
}

/* The head is on the disk before all else: by it the next server knows what a power loss leaves. */
static int write_head(struct dump_writer *w, uint64_t size)
{
	struct head head = { .version = VERSION, .size = size };

	memcpy(head.magic, magic, sizeof(magic));
	head.sum = sum_of(&head, 0);
	if (put(w, &head, sizeof(head)))
		return -1;
	return fflush(w->file) || fdatasync(fileno(w->file)) ? failed(w, "write") : 0;
}

static int write_record(struct dump_writer *w, struct ebb_units *units, uint64_t offset,
			size_t bytes)
{
	struct record rec = { .offset = offset, .bytes = (uint32_t)bytes };
	const char *content = w->packed;
	size_t n;
	int err;

	err = ebb_units_read(units, offset, w->plain, bytes);
	if (err) {
		errno = -err;
		return failed(w, "what is stored cannot be read");
	}
	n = ZSTD_compressCCtx(w->zstd, w->packed, RECORD_MOST, w->plain, bytes, ZSTD_LEVEL);
	if (ZSTD_isError(n) || n >= bytes) {
		n = bytes;
		content = w->plain;
	}
	rec.packed = (uint32_t)n;
	rec.content = XXH64(content, n, ++w->records);
	rec.sum = sum_of(&rec, w->records);
	return put(w, &rec, sizeof(rec)) ? -1 : put(w, content, n);
}

static int write_records(struct dump_writer *w, struct ebb_units *units, uint64_t size)
{
	uint64_t at, run;
	int data, err = 0;

	for (at = 0; !err && at < size; at += run) {
		uint64_t end;

		err = ebb_units_extent(units, at, &run, &data);
		if (err) {
			errno = -err;
			return failed(w, "what is stored cannot be read");
		}
		if (run > size - at)
			run = size - at;
		for (end = at + run; data && !err && at < end; at += run) {
			run = end - at < RECORD_MOST ? end - at : RECORD_MOST;
			err = write_record(w, units, at, (size_t)run);
		}
		if (data)
			run = 0;
	}
	return err;
}

static int write_end(struct dump_writer *w)
{
	struct record end = { .offset = AT_END, .content = w->records };

	end.sum = sum_of(&end, w->records + 1);
	return put(w, &end, sizeof(end));
}

/* A rename lasts when the folder is on the disk, if it may be read and its file system can say. */
static int sync_folder(const struct dump_writer *w)
{
	char *folder = strdup(w->name), *slash = folder ? strrchr(folder, '/') : NULL;
	int fd = -1, err = 0;

	if (slash) {
		slash[slash == folder] = '\0';
		fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (!folder || (slash && fd < 0 && errno != EACCES))
		err = failed(w, "its folder");
	if (fd >= 0 && fsync(fd) && errno != EINVAL)
		err = failed(w, "its folder");
	if (fd >= 0)
		close(fd);
	free(folder);
	return err;
}

int dump_write(struct dump_writer *w, struct ebb_units *units, uint64_t size)
{
	if (write_head(w, size) || write_records(w, units, size) || write_end(w))
		return -1;
	if (fflush(w->file) || fsync(fileno(w->file)))
		return failed(w, "write");
	if (!private_file_is_at(fileno(w->file), w->tmp)) {
		nbdkit_error("dump=%s: %s was removed or replaced meanwhile", w->name, w->tmp);
		return -1;
	}
	if (rename(w->tmp, w->name))
		return failed(w, "rename");
	return sync_folder(w);
}
