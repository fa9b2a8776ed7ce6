// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * counts.c - counts the instructions of single calls of libebb, and the locked ones among them.
 *
 * The trap flag stops the thread after each instruction; the handler of SIGTRAP looks at the next
 * one.  So the counts are exact and the same on every run.  A clock would not do: one loop takes
 * 28 or 55 ns on a shared machine.  Valgrind would not do either: it offers no rseq, so the way a
 * per-CPU item is taken would be another one.
 *
 *   counted    instructions of Ebb's own code: the C library's memcpy and the codecs differ from
 *              machine to machine
 *   locked     instructions with a lock prefix, xchg with memory, mfence; anyone's but the codec's
 *
 * The codec runs untrapped: its return address is exchanged for one that sets the flag again.
 *
 * A signal aborts the restartable sequence that it falls into, and the first trap inside of one
 * does.  The handler then finds the thread at the abort handler, and the kernel has cleared
 * rseq_cs; it sends the thread back to the start of the sequence, which now runs unprotected.
 * Nothing can come between: the thread is bound to one CPU, and the workers are held in a handler
 * of their own while calls are counted.
 */
#define _GNU_SOURCE
#include "api/ebb.h"

#include <stdio.h>

static int skip(const char *why)
{
	printf("1..0 # skip %s\n", why);
	return 0;
}

#if defined(__x86_64__) && defined(__GLIBC__)

#include <dirent.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define CALLS_MAX 508                   /* the references of a buffer */
#define OBJECT 2048
#define PAGE 4096
#define TRAP_FLAG 0x100

static void die(const char *what)
{
	printf("Bail out! counts: %s\n", what);
	exit(2);
}

/*
 * Counting
 */

extern const char __executable_start[], etext[];
extern const struct rseq_cs __start___rseq_cs[] __attribute__((weak));
extern const struct rseq_cs __stop___rseq_cs[] __attribute__((weak));

struct count {
	unsigned int own, locked;
};

static struct {
	const unsigned char *codec, *codec_end;         /* code of the codec's library */
	const unsigned char *last;
	greg_t codec_returns;
	struct count count;
} now;

/* Past the prefixes; *locked, *rep: whether they are among them. */
static const unsigned char *opcode(const unsigned char *p, bool *locked, bool *rep)
{
	*locked = *rep = false;
	for (;; p++) {
		if (*p == 0xf0)
			*locked = true;
		else if (*p == 0xf2 || *p == 0xf3)
			*rep = true;
		else if (*p != 0x66 && *p != 0x67 && *p != 0x2e && *p != 0x36 && *p != 0x3e &&
			 *p != 0x26 && *p != 0x64 && *p != 0x65)
			break;
	}
	if ((*p & 0xf0) == 0x40)
		p++;
	return p;
}

static void count(const unsigned char *code)
{
	bool locked, rep;
	const unsigned char *p = opcode(code, &locked, &rep);

	/* Each turn of a repeated instruction traps. */
	if (rep && code == now.last)
		return;
	now.last = code;
	now.count.own += code >= (const unsigned char *)__executable_start &&
			 code < (const unsigned char *)etext;
	now.count.locked += locked || ((p[0] == 0x86 || p[0] == 0x87) && p[1] < 0xc0) ||
			    (p[0] == 0x0f && p[1] == 0xae && p[2] == 0xf0);
}

/* What the codec returns to. */
void counts_codec_done(void);
__asm__(".text\n\t"
	".globl counts_codec_done\n"
	"counts_codec_done:\n\t"
	"int3\n\t");

static void trapped(int sig, siginfo_t *info, void *context)
{
	greg_t *reg = ((ucontext_t *)context)->uc_mcontext.gregs;
	const struct rseq_cs *cs;
	const unsigned char *code;

	(void)sig;
	(void)info;
	if (reg[REG_RIP] == (greg_t)(uintptr_t)counts_codec_done + 1) {
		reg[REG_RIP] = now.codec_returns;
		reg[REG_EFL] |= TRAP_FLAG;
	}
	for (cs = __start___rseq_cs; cs < __stop___rseq_cs; cs++)
		if (reg[REG_RIP] == (greg_t)cs->abort_ip)
			reg[REG_RIP] = (greg_t)cs->start_ip;

	code = (const unsigned char *)(uintptr_t)reg[REG_RIP];
	if (code >= now.codec && code < now.codec_end) {
		greg_t *sp = (greg_t *)(uintptr_t)reg[REG_RSP];

		now.codec_returns = *sp;
		*sp = (greg_t)(uintptr_t)counts_codec_done;
		reg[REG_EFL] &= ~(greg_t)TRAP_FLAG;
	} else {
		count(code);
	}
}

static inline void trap_each(void)
{
	__asm__ volatile("pushfq\n\torq %0, (%%rsp)\n\tpopfq" : : "i"(TRAP_FLAG) : "memory", "cc");
}

static inline void trap_no_more(void)
{
	__asm__ volatile("pushfq\n\tandq %0, (%%rsp)\n\tpopfq"
			 : : "i"(~TRAP_FLAG) : "memory", "cc");
}

static int find_codec(struct dl_phdr_info *lib, size_t size, void *arg)
{
	unsigned int i;

	(void)size;
	(void)arg;
	if (!strstr(lib->dlpi_name, "/liblz4."))
		return 0;
	for (i = 0; i < lib->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &lib->dlpi_phdr[i];

		if (part->p_type == PT_LOAD && part->p_flags & PF_X) {
			now.codec = (const void *)(uintptr_t)(lib->dlpi_addr + part->p_vaddr);
			now.codec_end = now.codec + part->p_memsz;
		}
	}
	return 0;
}

/*
 * Workers
 */

static volatile sig_atomic_t held;
static unsigned int arrived;

/* Workers block all signals; those of a program that is linked with --wrap take this one. */
struct start {
	void *(*fn)(void *arg);
	void *arg;
};

static void *start(void *arg)
{
	struct start s = *(struct start *)arg;
	sigset_t one;

	free(arg);
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	return s.fn(s.arg);
}

typedef void *(*thread_fn)(void *arg);

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr, thread_fn fn, void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, thread_fn fn, void *arg);

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, thread_fn fn, void *arg)
{
	struct start *s = malloc(sizeof(*s));

	if (!s)
		return EAGAIN;
	s->fn = fn;
	s->arg = arg;
	return __real_pthread_create(id, attr, start, s);
}

static void hold(int sig)
{
	(void)sig;
	__atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
	while (held)
		usleep(1000);
}

/* Whether a thread waits for something: then it holds no lock that a call would want. */
static bool asleep(pid_t tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (f)
		fclose(f);
	return state == 'S';
}

static unsigned int each_worker(bool (*fn)(pid_t tid), unsigned int *yes)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned int n = 0;
	struct dirent *d;
	pid_t tid;

	if (!dir)
		die("there is no /proc");
	*yes = 0;
	while ((d = readdir(dir))) {
		tid = (pid_t)atol(d->d_name);
		if (tid && tid != getpid()) {
			n++;
			*yes += fn(tid);
		}
	}
	closedir(dir);
	return n;
}

static bool stop(pid_t tid)
{
	return !syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
}

static void hold_workers(void)
{
	unsigned int tries = 0, n, yes;

	do {
		if (tries++ == 1000)
			die("a worker has work without end");
		usleep(10000);
		n = each_worker(asleep, &yes);
	} while (yes < n);
	held = 1;
	arrived = 0;
	each_worker(stop, &yes);
	while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < yes)
		usleep(1000);
}

/*
 * The calls
 */

static unsigned char page[PAGE], buf[PAGE];

static int put(struct ebb_store *s, uint64_t slot)
{
	return ebb_put(s, slot, page, OBJECT);
}

static int get(struct ebb_store *s, uint64_t slot)
{
	size_t n;

	return ebb_get(s, slot, buf, PAGE, &n);
}

static int write_page(struct ebb_store *s, uint64_t slot)
{
	return ebb_write(s, slot, page, PAGE);
}

static int read_page(struct ebb_store *s, uint64_t slot)
{
	return ebb_read(s, slot, buf, PAGE);
}

static int free_slot(struct ebb_store *s, uint64_t slot)
{
	return ebb_free(s, slot, 1);
}

typedef int (*call_fn)(struct ebb_store *s, uint64_t slot);

struct series {
	const char *name;
	call_fn before, call;           /* before is done to every slot first, and not counted */
	uint64_t release_limit;
	unsigned int calls;             /* at most CALLS_MAX; a trap may take 25 us */
};

static const struct series all[] = {
	{ "free, deferred", put, free_slot, EBB_DEFAULT, CALLS_MAX },
	{ "free, synchronous", put, free_slot, 0, CALLS_MAX },
	{ "put 2 KB", NULL, put, EBB_DEFAULT, 128 },
	{ "get 2 KB", put, get, EBB_DEFAULT, 128 },
	{ "write a page", NULL, write_page, EBB_DEFAULT, 128 },
	{ "write over a page", write_page, write_page, EBB_DEFAULT, 128 },
	{ "read a page", write_page, read_page, EBB_DEFAULT, 128 },
};

static struct count counted[CALLS_MAX];

static int by_count(const void *a, const void *b)
{
	const struct count *x = a, *y = b;

	return x->own != y->own ? (x->own > y->own) - (x->own < y->own) :
				  (x->locked > y->locked) - (x->locked < y->locked);
}

/* A row: the count that most calls have, and the mean, into which what is rare goes, too. */
static void print_row(const struct series *s)
{
	double own = 0, locked = 0;
	struct count usual = { 0, 0 };
	unsigned int i, run = 0, most = 0;

	qsort(counted, s->calls, sizeof(counted[0]), by_count);
	for (i = 0; i < s->calls; i++) {
		own += counted[i].own;
		locked += counted[i].locked;
		run = i && !by_count(&counted[i], &counted[i - 1]) ? run + 1 : 1;
		if (run > most) {
			most = run;
			usual = counted[i];
		}
	}
	printf("%s\t%s\t%u\t%u\t%.1f\t%.3f\n", s->name, __rseq_size ? "rseq" : "xchg", usual.own,
	       usual.locked, own / s->calls, locked / s->calls);
}

static void each_slot(struct ebb_store *s, const struct series *series, call_fn call)
{
	uint64_t slot;

	for (slot = 0; call && slot < series->calls; slot++)
		if (call(s, slot))
			die("a call failed");
}

static void open_series(const struct series *series, struct ebb_store **s)
{
	struct ebb_config cfg;

	ebb_config_init(&cfg);
	cfg.slots = CALLS_MAX;
	cfg.release_limit = series->release_limit;
	if (ebb_open(s, &cfg))
		die("ebb_open failed");
}

/* All of it is done once uncounted: addresses are resolved and the zone has its blocks. */
static void do_series(const struct series *series)
{
	struct ebb_store *s = NULL;
	uint64_t slot;
	int err;

	open_series(series, &s);
	each_slot(s, series, series->before);
	each_slot(s, series, series->call);
	ebb_reset(s);
	each_slot(s, series, series->before);
	ebb_flush(s);

	hold_workers();
	for (slot = 0; slot < series->calls; slot++) {
		memset(&now.count, 0, sizeof(now.count));
		trap_each();
		err = series->call(s, slot);
		trap_no_more();
		if (err)
			die("a call failed");
		counted[slot] = now.count;
	}
	held = 0;
	print_row(series);
	ebb_close(s);
}

int main(void)
{
	struct sigaction on_trap = { .sa_sigaction = trapped, .sa_flags = SA_SIGINFO };
	struct sigaction on_stop = { .sa_handler = hold, .sa_flags = SA_RESTART };
	uint64_t z = 1;
	cpu_set_t one;
	unsigned int i;

	if (ebb_page_size() != PAGE)
		return skip("the table is of pages of 4 KiB");
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die("sched_setaffinity failed");
	setvbuf(stdout, NULL, _IONBF, 0);
	dl_iterate_phdr(find_codec, NULL);
	sigaction(SIGTRAP, &on_trap, NULL);
	sigaction(SIGUSR1, &on_stop, NULL);
	/* Half of it noise, so that lz4 makes an object of about 2 KB of it. */
	for (i = 0; i < PAGE; i++) {
		z = z * 6364136223846793005u + 1442695040888963407u;
		page[i] = (unsigned char)(i < PAGE / 2 ? z >> 56 : i >> 8);
	}
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		do_series(&all[i]);
	return 0;
}

#else

int main(void)
{
	return skip("instructions are counted on x86-64 with glibc only");
}

#endif
