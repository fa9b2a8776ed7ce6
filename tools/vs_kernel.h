/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * vs_kernel.h - the published munmap experiment on the host kernel's own zram: N processes
 * write the same pages, push them out with MADV_PAGEOUT, and munmap all at once.
 */
#ifndef EBB_VS_KERNEL_H
#define EBB_VS_KERNEL_H

#include "data.h"
#include "zram_dev.h"

struct kernel_sample {
	double wall_ms, mean_ms;   /* first start to last end; mean of the processes */
	double cpu_ns;             /* CPU time in munmap, all processes */
	double drained_ms;         /* first start until zram holds nothing of them */
	double compr_bytes;        /* what zram held before */
};

/* A device with room for processes times slots pages. */
void kernel_open(struct zram_dev *dev, const char *codec, unsigned int processes, size_t slots);

/* One run; slots pages per process, process i starting i * slots / processes into the set. */
void kernel_run(struct zram_dev *dev, const struct page_set *set, unsigned int processes,
		size_t slots, struct kernel_sample *sample);

#endif
