# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the package uses of libebb."""
from libc.stdint cimport int32_t, uint32_t, uint64_t


cdef extern from "ebb.h" nogil:
    const char *ebb_version()
    const char *ebb_codec_name(unsigned int i)
    int ebb_codec_levels(const char *name, int32_t *least, int32_t *most, int32_t *default_)
    enum:
        EBB_LEVEL_DEFAULT
    struct ebb_store:
        pass
    struct ebb_stat:
        size_t struct_size
        uint64_t compr_data_size
        uint64_t mem_used_total
        uint64_t mem_used_max
        uint64_t meta_bytes
        uint64_t zone_bytes
        uint64_t zone_free_bytes
        uint64_t held_back_bytes
        uint64_t pages_compacted
    int c_ebb_stat "ebb_stat"(ebb_store *store, ebb_stat *stat)
    int ebb_flush(ebb_store *store)
    int ebb_compact(ebb_store *store, uint64_t *pages)
    int ebb_trim(ebb_store *store, uint64_t *bytes)
    size_t ebb_page_size()


cdef extern from "ebb_values.h" nogil:
    enum:
        EBB_VALUES_KEY_MAX
        EBB_PUT_NEW
        EBB_PUT_REPLACE
    struct ebb_values:
        pass
    struct ebb_values_config:
        const char *codec
        int32_t level
        uint64_t mem_limit
        uint32_t unit_bytes
    struct ebb_values_cursor:
        uint64_t at
        uint32_t nth
        uint32_t end
    struct ebb_values_entry:
        size_t struct_size
        uint64_t bytes
        uint64_t id
        size_t key_bytes
    struct ebb_values_stat:
        size_t struct_size
        uint64_t values
        uint64_t value_bytes
        uint64_t packed_bytes
        uint64_t object_bytes
        uint64_t meta_bytes
    struct ebb_value_reader:
        pass
    void ebb_values_config_init(ebb_values_config *cfg)
    int ebb_values_open(ebb_values **values, const ebb_values_config *cfg)
    void ebb_values_close(ebb_values *values)
    int ebb_values_put(ebb_values *v, uint64_t id, const void *data, size_t bytes,
                       unsigned int flags)
    int ebb_values_get(ebb_values *v, uint64_t id, void *buf, size_t cap, size_t *bytes)
    int ebb_values_size(ebb_values *v, uint64_t id, uint64_t *bytes)
    int ebb_values_delete(ebb_values *v, uint64_t id)
    int ebb_values_put_key(ebb_values *v, const void *key, size_t key_bytes, const void *data,
                           size_t bytes, unsigned int flags)
    int ebb_values_get_key(ebb_values *v, const void *key, size_t key_bytes, void *buf,
                           size_t cap, size_t *bytes)
    int ebb_values_size_key(ebb_values *v, const void *key, size_t key_bytes, uint64_t *bytes)
    int ebb_values_delete_key(ebb_values *v, const void *key, size_t key_bytes)
    int ebb_values_read_open(ebb_values *v, uint64_t id, ebb_value_reader **reader)
    int ebb_values_read_open_key(ebb_values *v, const void *key, size_t key_bytes,
                                 ebb_value_reader **reader)
    uint64_t ebb_value_reader_size(const ebb_value_reader *reader)
    int ebb_value_read(ebb_value_reader *reader, uint64_t offset, void *buf, size_t bytes,
                       size_t *got)
    void ebb_value_reader_close(ebb_value_reader *reader)
    int ebb_values_read_packed(ebb_values *v, uint64_t id, void *buf, size_t cap, size_t *bytes)
    int ebb_values_read_packed_key(ebb_values *v, const void *key, size_t key_bytes, void *buf,
                                   size_t cap, size_t *bytes)
    int ebb_values_put_packed(ebb_values *v, uint64_t id, const void *packed, size_t bytes,
                              unsigned int flags)
    int ebb_values_put_packed_key(ebb_values *v, const void *key, size_t key_bytes,
                                  const void *packed, size_t bytes, unsigned int flags)
    int ebb_values_unpack(ebb_values *v, const void *packed, size_t bytes, void *buf, size_t cap,
                          size_t *got)
    int ebb_packed_size(const void *packed, size_t bytes, uint64_t *value_bytes)
    int ebb_values_next(ebb_values *v, ebb_values_cursor *cursor, ebb_values_entry *entry,
                        void *key)
    int ebb_values_set_mem_limit(ebb_values *v, uint64_t bytes)
    int c_ebb_values_stat "ebb_values_stat"(ebb_values *v, ebb_values_stat *stat)
    ebb_store *ebb_values_store(ebb_values *v)
    int ebb_values_check(ebb_values *v, char *why, size_t len)
