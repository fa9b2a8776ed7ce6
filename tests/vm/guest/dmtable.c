// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * dmtable.c - targets of the device mapper, one behind the other, under a name.
 *
 *     dmtable NAME SECTORS TARGET [WORD...] [, SECTORS TARGET [WORD...]]...
 *                     makes /dev/dm-N, or gives it another table; prints N
 *     dmtable NAME    takes it away
 */
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#define ROOM 4096

static union {
	struct dm_ioctl io;
	char room[ROOM];
} u;

static int ask(int fd, unsigned long what, const char *name, unsigned int flags)
{
	memset(&u.io, 0, sizeof(u.io));
	u.io.version[0] = DM_VERSION_MAJOR;
	u.io.data_size = sizeof(u);
	u.io.data_start = sizeof(u.io);
	u.io.flags = flags;
	snprintf(u.io.name, sizeof(u.io.name), "%s", name);
	return ioctl(fd, what, &u);
}

/* Puts the targets into u, from word 2 on; how many. */
static unsigned int put_targets(int argc, char **argv)
{
	size_t at = sizeof(u.io), begin = at;
	unsigned long long sector = 0;
	unsigned int n = 0;
	int i = 2;

	while (i + 1 < argc) {
		struct dm_target_spec *t = (void *)(u.room + at);
		char *words = (char *)(t + 1);

		begin = at;
		t->sector_start = sector;
		t->length = strtoull(argv[i++], NULL, 10);
		sector += t->length;
		snprintf(t->target_type, sizeof(t->target_type), "%s", argv[i++]);
		while (i < argc && strcmp(argv[i], ",")) {
			strcat(words, argv[i++]);
			strcat(words, " ");
		}
		i++;
		at += (sizeof(*t) + strlen(words) + 8) / 8 * 8;
		/* From this one, not from the first. */
		t->next = (unsigned int)(at - begin);
		n++;
	}
	return n;
}

int main(int argc, char **argv)
{
	int fd = open("/dev/mapper/control", O_RDWR);
	unsigned int n;

	if (fd < 0 || argc == 1 || argc == 3) {
		perror("dmtable: /dev/mapper/control");
		return 2;
	}
	if (argc == 2) {
		if (!ask(fd, DM_DEV_REMOVE, argv[1], 0))
			return 0;
		perror("dmtable: remove");
		return 1;
	}
	if (ask(fd, DM_DEV_STATUS, argv[1], 0) && ask(fd, DM_DEV_CREATE, argv[1], 0)) {
		perror("dmtable: create");
		return 1;
	}
	memset(&u, 0, sizeof(u));
	n = put_targets(argc, argv);
	u.io.version[0] = DM_VERSION_MAJOR;
	u.io.data_size = sizeof(u);
	u.io.data_start = sizeof(u.io);
	u.io.target_count = n;
	snprintf(u.io.name, sizeof(u.io.name), "%s", argv[1]);
	if (ioctl(fd, DM_TABLE_LOAD, &u)) {
		perror("dmtable: load");
		return 1;
	}
	/* Without the flag that suspends it, it is resumed, with the new table. */
	if (ask(fd, DM_DEV_SUSPEND, argv[1], 0)) {
		perror("dmtable: resume");
		return 1;
	}
	printf("%u\n", minor(u.io.dev));
	return 0;
}
