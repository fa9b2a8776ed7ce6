// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * replay.c - fuzz.c for a machine whose compiler has no libFuzzer: runs the inputs in the files
 * named on standard input, a line each.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* fuzz.c tells AddressSanitizer what nobody may touch; here nobody looks. */
void __asan_poison_memory_region(void const volatile *at, size_t n);
void __asan_unpoison_memory_region(void const volatile *at, size_t n);

void __asan_poison_memory_region(void const volatile *at, size_t n)
{
	(void)at, (void)n;
}

void __asan_unpoison_memory_region(void const volatile *at, size_t n)
{
	(void)at, (void)n;
}

int main(int argc, char **argv)
{
	static unsigned char data[1 << 16];
	char name[4096];
	unsigned int runs = 0;

	setvbuf(stdout, NULL, _IONBF, 0);
	LLVMFuzzerInitialize(&argc, &argv);
	while (fgets(name, sizeof(name), stdin)) {
		size_t n;
		FILE *f;

		name[strcspn(name, "\n")] = 0;
		f = fopen(name, "rb");
		if (!f) {
			perror(name);
			return 1;
		}
		n = fread(data, 1, sizeof(data), f);
		fclose(f);
		/* An input that stops the program is the last one named. */
		fprintf(stderr, "%s\n", name);
		LLVMFuzzerTestOneInput(data, n);
		runs++;
	}
	printf("%u inputs\n", runs);
	return !runs;
}
