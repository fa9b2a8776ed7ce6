// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One access to a file or a block device, its result as one line that can be compared.
 *
 *   poke m FILE                    mode            FILE mode 644
 *   poke r FILE                    read            FILE read "text"
 *   poke w FILE TEXT               write           FILE write "TEXT": ok
 *   poke pread DEV OFF LEN [d]     read bytes      DEV pread OFF LEN: N bytes, checksum
 *   poke pwrite DEV OFF LEN FILL [d]  write them   FILL: a byte, or r for noise
 *   poke discard|zero DEV OFF LEN  the ioctl
 *   poke hold FILE SECONDS         keep it open
 *
 * A failure is the errno's name: FILE write "TEXT": EINVAL. Long texts are cut. `d` is
 * direct I/O; OFF and LEN are decimal, - for the start counts from the end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static void quoted(const char *s, size_t n)
{
	size_t shown = n > 60 ? 60 : n;

	putchar('"');
	for (size_t i = 0; i < shown; i++)
		if (s[i] == '\n')
			fputs(i + 1 == n ? "" : "\\n", stdout);
		else if ((unsigned char)s[i] < ' ')
			printf("\\x%02x", s[i]);
		else
			putchar(s[i]);
	putchar('"');
	if (shown < n)
		printf(" (%zu bytes)", n);
}

static const char *name(int err)
{
	const char *s = strerrorname_np(err);

	return s ? s : "E?";
}

static const char *base(const char *path)
{
	const char *s = strrchr(path, '/');

	return s ? s + 1 : path;
}

static int sysfs(int argc, char **argv)
{
	static char buf[65536];
	struct stat st;
	ssize_t n;
	int fd;

	printf("%s ", base(argv[2]));
	if (argv[1][0] == 'm') {
		if (stat(argv[2], &st))
			printf("absent\n");
		else
			printf("mode %03o\n", st.st_mode & 0777);
		return 0;
	}
	if (argv[1][0] == 'r') {
		fd = open(argv[2], O_RDONLY);
		n = fd < 0 ? -1 : read(fd, buf, sizeof(buf));
		printf("read ");
		if (n < 0)
			printf("%s", name(errno));
		else
			quoted(buf, n);
		putchar('\n');
		return 0;
	}
	if (argc < 4)
		return 2;
	printf("write ");
	quoted(argv[3], strlen(argv[3]));
	fd = open(argv[2], O_WRONLY);
	n = fd < 0 ? -1 : write(fd, argv[3], strlen(argv[3]));
	printf(": %s\n", n < 0 ? name(errno) : n == (ssize_t)strlen(argv[3]) ? "ok" : "short");
	return 0;
}

static int block(int argc, char **argv)
{
	int direct = !strcmp(argv[argc - 1], "d"), rw = !strcmp(argv[1], "pwrite"), fd;
	uint64_t size = 0, range[2], off, len = strtoull(argv[4], NULL, 10);
	unsigned long sum = 5381;
	unsigned char *buf;
	ssize_t n;

	printf("%s %s %s %s%s%s: ", base(argv[2]), argv[1], argv[3], argv[4], rw ? " " : "", rw ? argv[5] : "");
	if (direct)
		printf("direct: ");
	fd = open(argv[2], (rw || argv[1][0] != 'p' ? O_RDWR : O_RDONLY) | (direct ? O_DIRECT : 0));
	if (fd < 0)
		return printf("open %s\n", name(errno)), 0;
	ioctl(fd, BLKGETSIZE64, &size);
	off = argv[3][0] == '-' ? size - strtoull(argv[3] + 1, NULL, 10)
				: strtoull(argv[3], NULL, 10);
	if (argv[1][0] != 'p') {
		range[0] = off, range[1] = len;
		n = ioctl(fd, argv[1][0] == 'd' ? BLKDISCARD : BLKZEROOUT, range);
		return printf("%s\n", n ? name(errno) : "ok"), 0;
	}
	if (len > 1 << 26 || posix_memalign((void **)&buf, 4096, len + 4096))
		return 2;
	if (!rw) {
		n = pread(fd, buf, len, off);
		for (ssize_t i = 0; i < n; i++)
			sum = sum * 33 + buf[i];
		if (n < 0)
			printf("%s\n", name(errno));
		else
			printf("%zd bytes, %08lx\n", n, sum & 0xffffffff);
		return 0;
	}
	for (uint64_t i = 0, s = off + 88172645463325252ULL; i < len; i++) {
		s ^= s << 13; s ^= s >> 7; s ^= s << 17;
		buf[i] = argv[5][0] == 'r' ? s >> 11 : strtoul(argv[5], NULL, 0);
	}
	n = pwrite(fd, buf, len, off);
	if (n >= 0 && fsync(fd))
		n = -1;
	if (n < 0)
		printf("%s\n", name(errno));
	else
		printf("%zd bytes\n", n);
	return 0;
}

int main(int argc, char **argv)
{
	const char *v = argc > 2 ? argv[1] : "";

	if (!strcmp(v, "m") || !strcmp(v, "r") || !strcmp(v, "w"))
		return sysfs(argc, argv);
	if (!strcmp(v, "hold") && argc == 4) {
		if (open(argv[2], O_RDONLY) < 0)
			return 1;
		puts("held");
		fflush(stdout);
		sleep(atoi(argv[3]));
		return 0;
	}
	if ((!strcmp(v, "pread") || !strcmp(v, "discard") || !strcmp(v, "zero")) && argc >= 5)
		return block(argc, argv);
	if (!strcmp(v, "pwrite") && argc >= 6)
		return block(argc, argv);
	fprintf(stderr, "usage: poke m|r|w|pread|pwrite|discard|zero|hold FILE ...\n");
	return 2;
}
