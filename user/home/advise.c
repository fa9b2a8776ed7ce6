/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* advise.c - memory that the system takes back, or fills ahead.  Owns nothing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "advise.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24              /* since Linux 5.18 */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23               /* since Linux 5.14 */
#endif
#ifndef PIDFD_SELF_THREAD
#define PIDFD_SELF_THREAD (-10000)           /* since Linux 6.14 */
#endif

/* How many ranges, from the first one on, the system took the advice for. */
static u32 advise(struct advise *a, const struct iovec *range, u32 n, int advice)
{
	ssize_t bytes;
	u32 i;

	if (n == 1)
		return !madvise(range->iov_base, range->iov_len, advice);
#ifdef SYS_process_madvise
	bytes = syscall(SYS_process_madvise, PIDFD_SELF_THREAD, range, n, advice, 0);
#else
	bytes = -1;
	errno = ENOSYS;
#endif
	/* It knows no such call, or not for who calls, or a filter forbids it. */
	if (bytes < 0 && (errno == ENOSYS || errno == EBADF || errno == EPERM))
		WRITE_ONCE(a->no_many, true);
	for (i = 0; i < n && bytes >= (ssize_t)range[i].iov_len; i++)
		bytes -= (ssize_t)range[i].iov_len;
	return i;
}

u32 advise_take(struct advise *a, struct iovec *range, u32 n)
{
	u32 at = 0, refused = 0, most = ADVISE_RANGES;

	while (at < n) {
		u32 k = n - at < most ? n - at : most, took;

		if (READ_ONCE(a->no_many))
			k = most = 1;
		took = advise(a, range + at, k, MADV_DONTNEED);
		if (!took && (k == 1 || !READ_ONCE(a->no_many))) {
			took = advise(a, range + at, k, MADV_DONTNEED_LOCKED);
			if (took && !READ_ONCE(a->locked))
				WRITE_ONCE(a->locked, true);
		}
		if (took)
			at += took;
		else if (k > 1)
			most = 1;       /* the first range is refused, or the call */
		else
			range[refused++] = range[at++];
	}
	return refused;
}

void advise_fill(struct advise *a, void *at, size_t bytes)
{
	if (madvise(at, bytes, MADV_POPULATE_WRITE) && (errno == EINVAL || errno == EPERM))
		WRITE_ONCE(a->no_fill, true);
}
