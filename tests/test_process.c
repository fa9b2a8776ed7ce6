// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_process.c - the library in a process that is not its own: one that forks, one that cancels
 * its threads, one that locks itself into a seccomp filter, and one whose buffers are far away.
 */
#include "process.h"
#include "api/ebb.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define SLOTS 20000u

static struct ebb_store *store;
static char page[PAGE_SIZE];

static struct ebb_store *open_slots(u64 slots, const char *codec)
{
	struct ebb_config cfg;
	struct ebb_store *s;

	ebb_config_init(&cfg);
	cfg.slots = slots;
	cfg.codec = codec;
	return ebb_open(&s, &cfg) ? NULL : s;
}

/* ---- fork ---- */

static int use_what_is_the_parents(void)
{
	static struct ebb_class rows[EBB_CLASSES_MAX] = { { .struct_size = sizeof(*rows) } };
	unsigned int n;
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	size_t bytes;
	u64 x;

	ANSWERS(ebb_write(store, 1, page, sizeof(page)), -EINVAL);
	ANSWERS(ebb_read(store, 1, page, sizeof(page)), -EINVAL);
	ANSWERS(ebb_put(store, 1, page, 10), -EINVAL);
	ANSWERS(ebb_get(store, 1, page, 10, &bytes), -EINVAL);
	ANSWERS(ebb_free(store, 0, SLOTS), -EINVAL);
	ANSWERS(ebb_reset(store), -EINVAL);
	ANSWERS(ebb_flush(store), -EINVAL);
	ANSWERS(ebb_compact(store, &x), -EINVAL);
	ANSWERS(ebb_trim(store, &x), -EINVAL);
	ANSWERS(ebb_set_mem_limit(store, 0), -EINVAL);
	ANSWERS(ebb_set_release_limit(store, 0), -EINVAL);
	ANSWERS(ebb_reset_peak(store), -EINVAL);
	ANSWERS(ebb_reset_held_back_peak(store), -EINVAL);
	ANSWERS(ebb_stat(store, &stat), -EINVAL);
	ANSWERS(ebb_classes(store, rows, &n), -EINVAL);
	ANSWERS(ebb_check(store, page, sizeof(page)), -EINVAL);
	ebb_close(store);
	return 0;
}

__attribute__((unused)) static int use_one_of_its_own(void)
{
	static char copy[PAGE_SIZE];
	struct ebb_store *own = open_slots(SLOTS, "zstd");
	unsigned int i;

	ANSWERS(own != NULL, true);
	for (i = 0; i < 100; i++) {
		fill_random(page, sizeof(page), i);
		ANSWERS(ebb_write(own, i, page, sizeof(page)), 0);
	}
	ANSWERS(ebb_free(own, 0, 99), 0);
	ANSWERS(ebb_read(own, 99, copy, sizeof(copy)), 0);
	ANSWERS(memcmp(copy, page, sizeof(page)), 0);
	ANSWERS(ebb_flush(own), 0);
	ANSWERS(ebb_check(own, page, sizeof(page)), 0);
	ebb_close(own);
	return 0;
}

static int end_as_programs_do(void)
{
	ebb_close(store);
	ANSWERS(ebb_free(store, 0, SLOTS), -EINVAL);
	/* Sanitizers have locks of their own, and bad luck in a child of several threads. */
	return SHADOWED ? 0 : use_one_of_its_own();
}

CASE(a_store_is_none_in_a_forked_child)
{
	char why[200];

	store = open_slots(SLOTS, NULL);
	must(store != NULL);
	for (unsigned int i = 0; i < 1000; i++) {
		fill_random(page, sizeof(page), i);
		must_eq(ebb_write(store, i, page, sizeof(page)), 0);
	}
	must_eq(ebb_free(store, 0, 500), 0);
	must_eq(status_of_child(use_what_is_the_parents), 0);
#ifndef HOST_USER_TSAN
	must_eq(status_of_child(use_one_of_its_own), 0);
#endif
	must_eq(ebb_check(store, why, sizeof(why)), 0);
	ebb_close(store);
}

#define TABLE_SLOTS (1u << 24)          /* 128 MiB of slot words */

static u64 parents_bytes;

static int have_no_table(void)
{
	return status_bytes("RssAnon") + (100u << 20) < parents_bytes ? 0 : 1;
}

CASE(the_slot_table_is_not_the_childs)
{
	static const char zeros[PAGE_SIZE];
	u64 i;

	store = open_slots(TABLE_SLOTS, NULL);
	must(store != NULL);
	for (i = 0; i < TABLE_SLOTS; i += 512)
		must_eq(ebb_write(store, i, zeros, sizeof(zeros)), 0);
	parents_bytes = status_bytes("RssAnon");
	must(parents_bytes > 128u << 20);
	must_eq(status_of_child(have_no_table), 0);
	ebb_close(store);
}

static bool stop;
static u32 started;

static void *use_store(void *arg)
{
	struct rng r = { (uintptr_t)arg };
	static __thread char own[PAGE_SIZE], copy[PAGE_SIZE];
	char why[8];
	size_t n;
	u64 x;

	fill_random(own, sizeof(own), r.s);
	memset(own + 1000, 0, sizeof(own) - 1000);
	__atomic_fetch_add(&started, 1, __ATOMIC_RELEASE);
	while (!READ_ONCE(stop)) {
		u64 i = rng_below(&r, SLOTS);

		pthread_testcancel();
		switch (rng_below(&r, 200)) {
		case 0:
			ebb_flush(store);
			break;
		case 1:
			ebb_compact(store, &x);
			break;
		case 2:
			ebb_trim(store, NULL);
			break;
		case 3:
			ebb_set_release_limit(store, rng_below(&r, 2) ? EBB_DEFAULT : 100000);
			break;
		case 4: {
			struct ebb_store *s = open_slots(100, "zstd");

			if (!s)
				break;
			ebb_write(s, 1, own, sizeof(own));
			ebb_check(s, why, sizeof(why));
			ebb_close(s);
			break;
		}
		case 5 ... 60:
			ebb_put(store, i, own, 1000);
			break;
		case 61 ... 120:
			ebb_write(store, i, own, sizeof(own));
			break;
		case 121 ... 150:
			if (ebb_read(store, i, copy, sizeof(copy)) == -EINVAL)
				ebb_get(store, i, copy, sizeof(copy), &n);
			break;
		default:
			ebb_free(store, i, 1 + rng_below(&r, SLOTS - i < 9 ? SLOTS - i : 9));
		}
	}
	return NULL;
}

#define THREADS 4

CASE(a_child_of_a_busy_process_closes_and_ends)
{
	unsigned long turns = scaled(60), hung = 0;
	pthread_t id[THREADS];
	uintptr_t i;

	store = open_slots(SLOTS, NULL);
	must(store != NULL);
	WRITE_ONCE(stop, false);
	for (i = 0; i < THREADS; i++)
		must_eq(pthread_create(&id[i], NULL, use_store, (void *)(i + 1)), 0);
	while (turns-- && !hung) {
		usleep(2000);
		hung = status_of_child(end_as_programs_do) != 0;
	}
	WRITE_ONCE(stop, true);
	for (i = 0; i < THREADS; i++)
		pthread_join(id[i], NULL);
	must_eq(hung, 0);
	ebb_close(store);
}

/* ---- cancellation ---- */

CASE(a_cancelled_thread_leaves_no_call_half_done)
{
	struct rng r = { use_seed(0x63616e63) };
	unsigned long turns = scaled(200);
	pthread_t id[THREADS];
	char why[200] = "";
	uintptr_t i;
	void *how;

#ifdef HOST_USER_ASAN
	skip_because("AddressSanitizer takes the stack of a cancelled thread for one still in use");
#endif
	store = open_slots(SLOTS, NULL);
	must(store != NULL);
	WRITE_ONCE(stop, false);
	for (i = 0; i < THREADS; i++)
		must_eq(pthread_create(&id[i], NULL, use_store, (void *)(i + 1)), 0);
	while (turns--) {
		i = rng_below(&r, THREADS);
		usleep((useconds_t)rng_below(&r, 2000));
		must_eq(pthread_cancel(id[i]), 0);
		must_eq(pthread_join(id[i], &how), 0);
		must(how == PTHREAD_CANCELED);
		must_eq(pthread_create(&id[i], NULL, use_store,
				       (void *)(uintptr_t)(rng_next(&r) | 1)), 0);
	}
	WRITE_ONCE(stop, true);
	for (i = 0; i < THREADS; i++)
		must_eq(pthread_join(id[i], NULL), 0);
	if (ebb_check(store, why, sizeof(why)))
		print_message("# %s\n", why);
	must_eq(why[0], 0);
	ebb_close(store);
}

/* ---- seccomp ---- */

/* What ebb.3 lists, and first what cannot be done without. */
static const int calls[] = {
	SYS_exit_group, SYS_exit, SYS_rseq, SYS_brk, SYS_futex,
	SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_process_madvise, SYS_membarrier,
	SYS_clock_nanosleep,
	SYS_sched_yield, SYS_clone3, SYS_clone, SYS_set_robust_list,
	SYS_rt_sigprocmask, SYS_sched_setscheduler, SYS_prctl, SYS_write,
};

#define NEEDED 5u

static int allow_only(const int *list, unsigned int n)
{
	struct sock_filter f[64] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog prog = { .filter = f };
	unsigned int at = 1;

	while (n--) {
		f[at++] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (u32)*list++, 0, 1);
		f[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	f[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	prog.len = (unsigned short)at;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog);
}

static u32 calls_allowed;

/* A store that a worker has worked for, so none is just being made. */
static struct ebb_store *open_in_use(void)
{
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	struct ebb_store *s = open_slots(SLOTS, "zstd");

	fill_random(page, sizeof(page), 1);
	while (s && !stat.released_deferred) {
		ebb_write(s, 1, page, sizeof(page));
		ebb_free(s, 1, 1);
		ebb_stat(s, &stat);
	}
	return s;
}

/* Two threads as busy as they can be, in the filter; then the store is sound, empty, and closed. */
static int use_in_filter(void)
{
	pthread_t id[2];
	unsigned int i;
	u64 end;

	store = open_in_use();
	ANSWERS(store != NULL, true);
	WRITE_ONCE(stop, false);
	for (i = 0; i < 2; i++)
		ANSWERS(pthread_create(&id[i], NULL, use_store, (void *)(uintptr_t)(i + 1)), 0);
	while (__atomic_load_n(&started, __ATOMIC_ACQUIRE) < 2)
		sched_yield();
	ANSWERS(allow_only(calls, calls_allowed), 0);
	for (end = ktime_get_ns() + 300000000; ktime_get_ns() < end;)
		ebb_free(store, 0, SLOTS);
	WRITE_ONCE(stop, true);
	for (i = 0; i < 2; i++)
		ANSWERS(pthread_join(id[i], NULL), 0);
	ANSWERS(ebb_free(store, 0, SLOTS), 0);
	ANSWERS(ebb_flush(store), 0);
	ANSWERS(ebb_check(store, page, sizeof(page)), 0);
	ebb_close(store);
	return 0;
}

/* Not a thread but the worker, and nothing but what the C library ends a process for. */
static int use_alone_in_filter(void)
{
	unsigned int i;

	store = open_in_use();
	ANSWERS(store != NULL, true);
	ANSWERS(allow_only(calls, NEEDED - 1), 0);
	for (i = 0; i < SLOTS; i++) {
		ebb_write(store, i, page, sizeof(page));
		ANSWERS(ebb_free(store, i / 2, 1), 0);
	}
	ANSWERS(ebb_free(store, 0, SLOTS), 0);
	ANSWERS(ebb_flush(store), 0);
	ANSWERS(ebb_check(store, page, sizeof(page)), 0);
	return 0;
}

CASE(in_a_filter_calls_fail_and_nothing_aborts)
{
	if (SHADOWED)
		skip_because("sanitizers have system calls of their own");
	calls_allowed = ARRAY_LEN(calls);
	must_eq(status_of_child(use_in_filter), 0);
	calls_allowed = NEEDED;
	must_eq(status_of_child(use_in_filter), 0);
	must_eq(status_of_child(use_alone_in_filter), 0);
}

/* ---- a buffer that faults slowly ---- */

#define SLOW 8                  /* threads whose buffer is not there; more than there are streams */

static char *slow_buffer;

static void *read_slowly(void *arg)
{
	u64 i = (uintptr_t)arg;

	ebb_read(store, i, slow_buffer + i * 65536, PAGE_SIZE);
	return NULL;
}

static void *read_at_once(void *arg)
{
	ebb_read(store, SLOW, page, sizeof(page));
	__atomic_fetch_add((u32 *)arg, 1, __ATOMIC_RELEASE);
	return NULL;
}

CASE(a_buffer_that_faults_slowly_stops_nobody_else)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register area = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_zeropage zero;
	pthread_t slow[SLOW], other;
	u64 end = ktime_get_ns() + 10000000000;
	u32 done = 0;
	uintptr_t i;
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		skip_because("userfaultfd is not to be had here");
	slow_buffer = mmap(NULL, SLOW * 65536, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(slow_buffer != MAP_FAILED);
	area.range.start = (uintptr_t)slow_buffer;
	area.range.len = SLOW * 65536;
	must_eq(ioctl(fd, UFFDIO_REGISTER, &area), 0);
	store = open_slots(SLOTS, NULL);
	must(store != NULL);
	for (i = 0; i <= SLOW; i++) {
		fill_random(page, sizeof(page) / 2, i);
		must_eq(ebb_write(store, i, page, sizeof(page)), 0);
	}
	for (i = 0; i < SLOW; i++) {
		struct pollfd waits = { .fd = fd, .events = POLLIN };
		struct uffd_msg msg;

		must_eq(pthread_create(&slow[i], NULL, read_slowly, (void *)i), 0);
		must_eq(poll(&waits, 1, 10000), 1);
		must_eq(read(fd, &msg, sizeof(msg)), sizeof(msg));
	}
	must_eq(pthread_create(&other, NULL, read_at_once, &done), 0);
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE) && ktime_get_ns() < end)
		usleep(1000);
	zero = (struct uffdio_zeropage){ .range = area.range };
	must_eq(ioctl(fd, UFFDIO_ZEROPAGE, &zero), 0);
	must(__atomic_load_n(&done, __ATOMIC_ACQUIRE));
	must_eq(pthread_join(other, NULL), 0);
	for (i = 0; i < SLOW; i++)
		must_eq(pthread_join(slow[i], NULL), 0);
	ebb_close(store);
	munmap(slow_buffer, SLOW * 65536);
	close(fd);
}
