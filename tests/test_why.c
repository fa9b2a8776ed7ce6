// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_why.c - what an -EINVAL of the library says: the argument, its value, what was expected. */
#include "support.h"

#include <errno.h>
#include <pthread.h>

#include "api/ebb.h"
#include "api/ebb_cache.h"
#include "api/ebb_units.h"
#include "api/ebb_values.h"

static char page[PAGE_SIZE];

static void must_say(int err, const char *reason)
{
	must_eq(err, -EINVAL);
	assert_string_equal(ebb_why(), reason);
}

#define WRONG must_say
/* A configuration with one field that is wrong. */
#define WRONG_FIELD(kind, field, value, reason)                                \
	do {                                                                   \
		struct ebb_##kind##config cfg;                                 \
		struct ebb_##kind##handle *h;                                  \
		kind##init(&cfg);                                              \
		cfg.field = (value);                                           \
		must_say(kind##open(&h, &cfg), (reason));                      \
	} while (0)

#define ebb_store_config ebb_config
#define ebb_store_handle ebb_store
#define ebb_units_handle ebb_units
#define ebb_values_handle ebb_values
#define ebb_cache_handle ebb_cache
#define store_open ebb_open
#define units_open ebb_units_open
#define values_open ebb_values_open
#define cache_open ebb_cache_open

static void store_init(struct ebb_config *cfg)
{
	ebb_config_init(cfg);
	cfg->slots = 16;
}

static void units_init(struct ebb_units_config *cfg)
{
	ebb_units_config_init(cfg);
	cfg->bytes = 1 << 20;
}

#define values_init ebb_values_config_init

static void cache_init(struct ebb_cache_config *cfg)
{
	ebb_cache_config_init(cfg);
	cfg->capacity = 64 << 20;
}

CASE(a_configuration_with_a_wrong_field_names_it)
{
	WRONG_FIELD(store_, slots, 0, "slots 0: expected 1 to 2^32 - 1");
	WRONG_FIELD(store_, slots, (u64)1 << 32, "slots 4294967296: expected 1 to 2^32 - 1");
	WRONG_FIELD(store_, level, 100000, "level 100000 of lz4: expected 1 to 65537");
	WRONG_FIELD(store_, chain_size, 17, "chain_size 17: expected 4 to 16, or 0");
	WRONG_FIELD(store_, flags, 0x80, "flags 0x80: expected EBB_NO_HUGEPAGE and EBB_NO_COMPACT alone");
	WRONG_FIELD(store_, reserved, 1, "reserved is not 0");
	WRONG_FIELD(store_, struct_size, 8, "struct_size 8: expected sizeof of the struct, 56 at least");
	WRONG_FIELD(units_, bytes, 5, "bytes 5: expected 1 to 2^38 units of unit_bytes");
	WRONG_FIELD(units_, unit_bytes, 5000, "unit_bytes 5000: expected a power of two, 4096 to 65536");
	WRONG_FIELD(values_, unit_bytes, 4096, "unit_bytes 4096: expected a power of two, 16384 to 65536");
	WRONG_FIELD(values_, slots, 1, "slots 1: expected 2^16 to 2^32 - 1");
	WRONG_FIELD(cache_, capacity, 1, "capacity 1: expected 8388608 at least, or 0");
	WRONG_FIELD(cache_, flags, 0x80, "flags 0x80: has bits that this version does not know");
}

CASE(a_call_with_a_wrong_argument_names_it)
{
	struct ebb_cache_config cache_cfg;
	struct ebb_values_config values_cfg;
	struct ebb_config cfg;
	struct ebb_values *v;
	struct ebb_cache *c;
	struct ebb_store *s;
	size_t bytes;

	store_init(&cfg);
	must_eq(ebb_open(&s, &cfg), 0);
	WRONG(ebb_open(NULL, &cfg), "the place for the handle is NULL");
	WRONG(ebb_open(&s, NULL), "the configuration is NULL");
	WRONG(ebb_flush(NULL), "this is no open store");
	WRONG(ebb_write(s, 0, page, 5), PAGE_SIZE == 4096 ? "bytes 5: expected whole pages of 4096" :
	      PAGE_SIZE == 16384 ? "bytes 5: expected whole pages of 16384" :
	      "bytes 5: expected whole pages of 65536");
	WRONG(ebb_write(s, 0, NULL, PAGE_SIZE), "buf is NULL");
	WRONG(ebb_put(s, 0, NULL, 5), "data is NULL");
	WRONG(ebb_get(s, 4, NULL, 5, &bytes), "buf is NULL, and cap is not 0");
	/* What succeeds, or fails for another reason, says nothing. */
	must_eq(ebb_get(s, 99, page, sizeof(page), &bytes), -ERANGE);
	assert_string_equal(ebb_why(), "buf is NULL, and cap is not 0");
	ebb_close(s);

	ebb_values_config_init(&values_cfg);
	must_eq(ebb_values_open(&v, &values_cfg), 0);
	WRONG(ebb_values_put(v, 1, "five", 5, 77), "flags 0x4d: expected 0 or an EBB_PUT_... alone");
	WRONG(ebb_values_put_key(v, "k", 0, "five", 5, 0), "key_bytes 0: expected 1 to 1024");
	ebb_values_close(v);

	cache_init(&cache_cfg);
	must_eq(ebb_cache_open(&c, &cache_cfg), 0);
	WRONG(ebb_cache_put(c, "k", 100000, "five", 5, 5, 0), "key_bytes 100000: expected 1 to 1024");
	WRONG(ebb_cache_put(c, "k", 1, "five", 5, 5, 8), "flags 0x8: expected EBB_CACHE_ADMIT or 0");
	ebb_cache_close(c);
}

static void *says_nothing(void *arg)
{
	must(!*ebb_why());
	return NULL;
}

CASE(a_reason_is_its_threads)
{
	pthread_t t;

	WRONG(ebb_flush(NULL), "this is no open store");
	must_eq(pthread_create(&t, NULL, says_nothing, NULL), 0);
	must_eq(pthread_join(t, NULL), 0);
	assert_string_equal(ebb_why(), "this is no open store");
}
