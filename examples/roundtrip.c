/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stores a page, reads it back, lets it go.  cc roundtrip.c $(pkg-config --cflags --libs ebb) */
#include <ebb.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	static char in[65536], out[65536];
	size_t page = ebb_page_size();
	struct ebb_config cfg;
	struct ebb_store *store;
	struct ebb_stat stat = { .struct_size = sizeof(stat) };

	ebb_config_init(&cfg);
	cfg.slots = 1000;
	if (ebb_open(&store, &cfg) != 0)
		return 1;
	for (size_t i = 0; i < page; i++)
		in[i] = "a page that is worth keeping "[i % 29];
	if (ebb_write(store, 7, in, page) || ebb_read(store, 7, out, page) ||
	    ebb_stat(store, &stat))
		return 1;
	printf("%zu bytes stored as %llu, %s\n", page, (unsigned long long)stat.compr_data_size,
	       memcmp(in, out, page) ? "and read back wrong" : "and read back the same");
	ebb_free(store, 7, 1);
	ebb_close(store);
	return memcmp(in, out, page) != 0;
}
