/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* strings.c - keeps 100,000 JSON strings of any length, compressed, under ids. */
#include <ebb_values.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRINGS 100000u
#define LONGEST 6000

/* A string of 80 to some 5,000 bytes, as a service might keep for each of its users. */
static size_t make(unsigned int i, char *text)
{
	size_t n = (size_t)sprintf(text, "{\"user\":%u,\"visits\":[", i);

	for (unsigned int k = 0; k <= i % 97; k++)
		n += (size_t)sprintf(text + n, "{\"page\":\"/shop/%u\",\"seconds\":%u},",
				     i * 7919 % 1000 + k, (i + k * k) % 300);
	return n - 1 + (size_t)sprintf(text + n - 1, "]}");
}

static void fail(const char *what, int err)
{
	fprintf(stderr, "%s: %s\n", what, strerror(-err));
	exit(1);
}

int main(void)
{
	static uint64_t id[STRINGS];
	struct ebb_values_stat stat = { .struct_size = sizeof(stat) };
	char text[LONGEST], got[LONGEST];
	struct ebb_values_config cfg;
	struct ebb_values *values;
	size_t n, bytes;
	unsigned int i;
	int err;

	ebb_values_config_init(&cfg);
	err = ebb_values_open(&values, &cfg);
	if (err)
		fail("ebb_values_open", err);
	for (i = 0; i < STRINGS; i++) {
		err = ebb_values_add(values, text, make(i, text), &id[i]);
		if (err)
			fail("ebb_values_add", err);
	}
	for (i = 0; i < STRINGS; i++) {
		n = make(i, text);
		err = ebb_values_get(values, id[i], got, sizeof(got), &bytes);
		if (err || bytes != n || memcmp(got, text, n))
			fail("ebb_values_get", err ? err : -1);
	}
	ebb_values_stat(values, &stat);
	printf("%u strings of %.1f MB, %.1f MB compressed, in objects of %.1f MB\n", STRINGS,
	       (double)stat.value_bytes / 1e6, (double)stat.packed_bytes / 1e6,
	       (double)stat.object_bytes / 1e6);
	ebb_values_close(values);
	return 0;
}
