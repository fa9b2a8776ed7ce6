/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zram_dev.h - a fresh zram device of the host's kernel, which is gone afterwards.
 *
 * The device is made and removed by a keeper, a process of its own that waits for its pipe
 * to close.  So it is removed whatever ends this program: success, a failure, a signal,
 * SIGKILL too, and the end of the control group that it was started in.  Devices that exist already
 * are never touched.
 */
#ifndef EBB_ZRAM_DEV_H
#define EBB_ZRAM_DEV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct zram_dev {
	int number;          /* of /dev/zramN */
	int fd;              /* open for writing past the page cache: whole pages, aligned memory */
	int pipe;            /* open while the device is wanted */
	pid_t keeper;
};

/* The first fields of mm_stat, in bytes. */
struct zram_stat {
	uint64_t orig_data_size, compr_data_size, mem_used_total;
};

/*
 * Makes a device of bytes with one of the kernel's codecs.  Fails with one line if there is no
 * zram or no permission.
 */
void zram_open(struct zram_dev *dev, const char *codec, uint64_t bytes);

/* Closes and removes it. */
void zram_close(struct zram_dev *dev);

void zram_read_stat(const struct zram_dev *dev, struct zram_stat *st);

/* Asks the kernel to compact the device's pool. */
void zram_compact(const struct zram_dev *dev);

#endif
