// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reads a device in pieces of any lengths into memory at any places, and compares with a file.
 *
 *   pieces DEVICE FILE
 *
 * Older kernels, 6.12 for one, refuse pieces that are not of whole blocks with EINVAL, so before
 * 7.0 the pieces are; the places are any of 512 bytes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#define MOST (1 << 20)

static unsigned long rnd = 12345;

static unsigned long dice(unsigned long n)
{
	rnd = rnd * 6364136223846793005UL + 1442695040888963407UL;
	return (rnd >> 33) % n;
}

static size_t step(void)
{
	struct utsname u;

	return uname(&u) || atoi(u.release) < 7 ? 4096 : 512;
}

int main(int argc, char **argv)
{
	int dev = open(argv[1], O_RDWR | O_DIRECT), file = open(argv[2], O_RDONLY), i, n, turn;
	static char want[MOST], back[MOST];
	const size_t unit = step();
	char *mem;
	struct iovec v[64];
	off_t end = lseek(file, 0, SEEK_END);

	if (argc != 3 || dev < 0 || file < 0 || posix_memalign((void **)&mem, 4096, 4 * MOST))
		return 2;
	for (turn = 0; turn < 400; turn++) {
		size_t len = 4096 * (1 + dice(turn % 4 ? 8 : 200)), left = len, at = 512 * dice(8),
		       got = 0;
		off_t from = 4096 * dice((end - len) / 4096);

		for (n = 0; left && n < 64; n++) {
			size_t l = turn % 2 || n == 63 ? left : unit * (1 + dice(10240 / unit));

			if (l > left)
				l = left;
			v[n].iov_base = mem + at;
			v[n].iov_len = l;
			at += l + 512 * dice(4);
			left -= l;
		}
		if (pread(file, want, len, from) != (ssize_t)len)
			return 2;
		memset(mem, 0x5a, 4 * MOST);
		if (preadv(dev, v, n, from) != (ssize_t)len) {
			printf("read of %zu at %ld: %s\n", len, (long)from, strerror(errno));
			return 1;
		}
		for (i = 0; i < n; i++) {
			memcpy(back + got, v[i].iov_base, v[i].iov_len);
			got += v[i].iov_len;
		}
		if (memcmp(back, want, len)) {
			for (i = 0; back[i] == want[i]; i++)
				;
			printf("turn %d: %zu at %ld: differs at %d\n", turn, len, (long)from, i);
			return 1;
		}
		/* The same, written back in pieces now and then, changes nothing. */
		if (turn % 5 == 0 && pwritev(dev, v, n, from) != (ssize_t)len)
			return 1;
	}
	return 0;
}
