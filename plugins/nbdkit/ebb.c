// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb.c - the plugin `ebb` of nbdkit: a disk in compressed memory, by the units of libebb.
 *
 * nbdkit calls these functions from as many threads as it likes, and libebb takes no lock that two
 * clients would wait for.  There is one disk, which all connections share.  It is opened after
 * nbdkit has gone into the background by fork(), in which a store would end.  Before that, where
 * errors still meet who started nbdkit, everything is tried: parameters, files, and the disk.
 *
 * nbdkit has no status for a plugin that fails at the end, and ends with 0.  So exit() calls a
 * function that ends the process with another one, if the dump failed.  With --run the process that
 * runs the command gives the status, and waits for the one that serves: both see one word.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <ebb_units.h>

#include "dump.h"
#include "params.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

static struct params params;
static struct ebb_units *disk;          /* NULL: not opened, or closed */
static struct dump_writer *writer;      /* of dump= */
static int load_fd = -1;                /* of load= */
static atomic_bool told_full;
static atomic_bool *dump_failed;        /* shared with who forked; NULL: there is no dump */

static void ebb_load(void)
{
	params_init(&params);
}

static void ebb_unload(void)
{
	ebb_units_close(disk);
	dump_end(writer);
	if (load_fd >= 0)
		close(load_fd);
	params_free(&params);
}

static int ebb_plugin_config(const char *key, const char *value)
{
	return params_read(&params, key, value);
}

static int ebb_plugin_config_complete(void)
{
	return params_complete(&params);
}

static void ebb_dump_plugin(void)
{
	printf("libebb_version=%s\n", ebb_version());
	printf("ebb_codecs=%s\n", params_codecs());
	printf("ebb_units=4k, 8k, 16k, 32k, 64k\n");
}

/* ---- the disk ---- */

static int open_disk(struct ebb_units **units)
{
	struct ebb_units_config cfg;
	int err;

	ebb_units_config_init(&cfg);
	cfg.bytes = (params.size + params.unit - 1) / params.unit * params.unit;
	cfg.codec = params.codec;
	cfg.level = params.level;
	cfg.unit_bytes = params.unit;
	cfg.mem_limit = params.mem_limit;
	err = ebb_units_open(units, &cfg);
	if (!err)
		return 0;
	errno = -err;
	/* The parameters were checked one by one, so it is that there are too many units. */
	if (err == -EINVAL)
		nbdkit_error("size=%" PRIu64 " is too large for units of %" PRIu32 " bytes",
			     params.size, params.unit);
	else
		nbdkit_error("a disk of %" PRIu64 " bytes cannot be opened: %m", params.size);
	return -1;
}

static void end_with_failure(void)
{
	if (!atomic_load(dump_failed))
		return;
	fflush(NULL);
	_exit(EXIT_FAILURE);
}

static int prepare_dump(void)
{
	void *shared = mmap(NULL, sizeof(*dump_failed), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED) {
		nbdkit_error("dump=%s: there is no memory", params.dump);
		return -1;
	}
	dump_failed = shared;
	if (atexit(end_with_failure)) {
		nbdkit_error("dump=%s: there is no memory", params.dump);
		return -1;
	}
	writer = dump_create(params.dump);
	return writer ? 0 : -1;
}

static int ebb_get_ready(void)
{
	struct ebb_units *trial;
	uint64_t size = 0;

	if (params.load) {
		load_fd = dump_open(params.load, &size);
		if (load_fd < 0)
			return -1;
		if (!params.size)
			params.size = size;
		if (size > params.size) {
			nbdkit_error("load=%s has a disk of %" PRIu64 " bytes, more than size=%" PRIu64,
				     params.load, size, params.size);
			return -1;
		}
	}
	if (params.size > (uint64_t)INT64_MAX - params.unit) {
		nbdkit_error("size=%" PRIu64 " is too large", params.size);
		return -1;
	}
	if (open_disk(&trial))
		return -1;
	ebb_units_close(trial);
	return params.dump ? prepare_dump() : 0;
}

static int ebb_after_fork(void)
{
	int err;

	if (open_disk(&disk))
		return -1;
	if (load_fd < 0)
		return 0;
	err = dump_load(load_fd, params.load, disk);
	close(load_fd);
	load_fd = -1;
	return err;
}

/* What nbdkit -v shows at the end. */
static void tell_figures(void)
{
	struct ebb_units_stat units = { .struct_size = sizeof(units) };
	struct ebb_stat store = { .struct_size = sizeof(store) };

	if (ebb_units_stat(disk, &units) || ebb_stat(ebb_units_store(disk), &store))
		return;
	nbdkit_debug("ebb: %" PRIu64 " units of %" PRIu32 " bytes are %" PRIu64 " bytes, in pages of %"
		     PRIu64 " (at most %" PRIu64 ")", units.units, params.unit, units.packed_bytes,
		     store.mem_used_total, store.mem_used_max);
	nbdkit_debug("ebb: from the system %" PRIu64 ", of it free %" PRIu64 "; tables %" PRIu64
		     "; reads that began anew %" PRIu64, store.zone_bytes,
		     store.zone_free_bytes, store.meta_bytes + units.meta_bytes, units.rereads);
}

static void ebb_cleanup(void)
{
	if (!disk)
		return;
	tell_figures();
	if (writer && dump_write(writer, disk, params.size))
		atomic_store(dump_failed, true);
	ebb_units_close(disk);
	disk = NULL;
}

/* ---- connections ---- */

static void *ebb_plugin_open(int readonly)
{
	(void)readonly;
	return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t ebb_get_size(void *handle)
{
	(void)handle;
	return (int64_t)params.size;
}

static const char *ebb_export_description(void *handle)
{
	(void)handle;
	return nbdkit_printf_intern("%" PRIu64 " bytes in compressed memory, %s in units of %" PRIu32,
				    params.size, params.codec, params.unit);
}

static int ebb_block_size(void *handle, uint32_t *minimum, uint32_t *preferred, uint32_t *maximum)
{
	(void)handle;
	*minimum = 1;
	*preferred = params.unit;
	*maximum = UINT32_MAX;
	return 0;
}

static int yes(void *handle)
{
	(void)handle;
	return 1;
}

static int no(void *handle)
{
	(void)handle;
	return 0;
}

/* There is nothing that is more lasting than memory, so a write is done when it returns. */
static int fua_is_native(void *handle)
{
	(void)handle;
	return NBDKIT_FUA_NATIVE;
}

static int cache_is_native(void *handle)
{
	(void)handle;
	return NBDKIT_CACHE_NATIVE;
}

/*
 * Says why a request failed: 0, or -1 for nbdkit.  At mem-limit a client may send a great many
 * requests that fail, and who reads the log needs only one line of them.
 */
static int done(int err, const char *what, uint64_t offset)
{
	if (!err)
		return 0;
	if (err == -ENOMEM && params.mem_limit) {
		if (!atomic_exchange(&told_full, true))
			nbdkit_error("%s at %" PRIu64 ": no memory within mem-limit, %" PRIu64
				     " bytes; later ones are not told", what, offset, params.mem_limit);
		nbdkit_set_error(ENOSPC);
		return -1;
	}
	errno = -err;
	nbdkit_error("%s at %" PRIu64 ": %m", what, offset);
	nbdkit_set_error(-err);
	return -1;
}

static int ebb_pread(void *handle, void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
	(void)handle;
	(void)flags;
	return done(ebb_units_read(disk, offset, buf, count), "read", offset);
}

static int ebb_pwrite(void *handle, const void *buf, uint32_t count, uint64_t offset,
		      uint32_t flags)
{
	(void)handle;
	(void)flags;
	return done(ebb_units_write(disk, offset, buf, count), "write", offset);
}

/*
 * Makes bytes zeros: first the units that are covered whole, which gives back memory and cannot
 * fail, and then what is left at both ends, which needs some.
 */
static int make_zeros(uint64_t offset, uint64_t count)
{
	uint64_t unit = params.unit, end = offset + count;
	uint64_t first = (offset + unit - 1) / unit * unit, last = end / unit * unit;
	int err, err2;

	if (first >= last)
		return ebb_units_zero(disk, offset, count);
	err = ebb_units_zero(disk, first, last - first);
	if (err)
		return err;
	err = ebb_units_zero(disk, offset, first - offset);
	err2 = ebb_units_zero(disk, last, end - last);
	return err ? err : err2;
}

static int ebb_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	(void)handle;
	(void)flags;
	return done(make_zeros(offset, count), "zero", offset);
}

/* A trim is a wish: where there is no memory for what is left of a unit, that stays as it was. */
static int ebb_trim_disk(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	int err = make_zeros(offset, count);

	(void)handle;
	(void)flags;
	return done(err == -ENOMEM ? 0 : err, "trim", offset);
}

static int ebb_flush_disk(void *handle, uint32_t flags)
{
	(void)handle;
	(void)flags;
	return 0;
}

static int ebb_cache(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	(void)handle;
	(void)count;
	(void)offset;
	(void)flags;
	return 0;
}

static int ebb_extents(void *handle, uint32_t count, uint64_t offset, uint32_t flags,
		       struct nbdkit_extents *extents)
{
	const uint32_t hole = NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO;
	uint64_t end = offset + count, run;
	int err, data;

	(void)handle;
	do {
		err = ebb_units_extent(disk, offset, &run, &data);
		if (err)
			return done(err, "extents", offset);
		if (nbdkit_add_extent(extents, offset, run, data ? 0 : hole))
			return -1;
		offset += run;
	} while (offset < end && !(flags & NBDKIT_FLAG_REQ_ONE));
	return 0;
}

static struct nbdkit_plugin plugin = {
	.name = "ebb",
	.longname = "nbdkit ebb plugin",
	.version = EBB_VERSION,
	.description = "a disk in compressed memory",
	.load = ebb_load,
	.unload = ebb_unload,
	.dump_plugin = ebb_dump_plugin,
	.config = ebb_plugin_config,
	.config_complete = ebb_plugin_config_complete,
	.config_help = PARAMS_HELP,
	.magic_config_key = "size",
	.get_ready = ebb_get_ready,
	.after_fork = ebb_after_fork,
	.cleanup = ebb_cleanup,
	.open = ebb_plugin_open,
	.get_size = ebb_get_size,
	.export_description = ebb_export_description,
	.block_size = ebb_block_size,
	.is_rotational = no,
	.can_multi_conn = yes,
	.can_flush = yes,
	.can_trim = yes,
	.can_zero = yes,
	.can_fast_zero = yes,
	.can_extents = yes,
	.can_fua = fua_is_native,
	.can_cache = cache_is_native,
	.pread = ebb_pread,
	.pwrite = ebb_pwrite,
	.zero = ebb_zero,
	.trim = ebb_trim_disk,
	.flush = ebb_flush_disk,
	.cache = ebb_cache,
	.extents = ebb_extents,
};

NBDKIT_REGISTER_PLUGIN(plugin)
