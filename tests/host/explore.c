// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * explore.c - owns the actors' stacks, whose turn it is, and the search through the choices.
 *
 *     trail:  | step, n, chosen | step, n, chosen | ...      one entry a choice of n > 1
 *
 * A run follows the trail and adds an entry, chosen = 0, for each new choice.  Between two runs
 * the last entry that has more to offer is moved on and what came after it forgotten.
 *
 * Two things keep the number of runs down, and both keep every outcome:
 *
 * Shared granules.  There is a choice before an access only if another actor touches the same 8
 * bytes and one of the two writes.  Which those are is learnt from the runs themselves; when some
 * granules turn out to be shared the search is begun anew, so the last search, the one that counts,
 * had a choice before each.
 *
 * States.  past of an actor is a hash of its own accesses and of those of others that came before
 * in the order of conflicts, so equal pasts of all actors mean an equal state.  A run that comes
 * to a state from which as much or more was left to spend is cut.
 */
#undef _FORTIFY_SOURCE          /* it takes a longjmp to another stack for an error */
#include "explore.h"
#include "home.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/*
 * Room for all frames of the core, the home's and the test's included.  Half a kernel stack:
 * the other half is the callers'.  A sanitizer makes frames several times as large.
 */
#ifdef __SANITIZE_ADDRESS__
#define STACK_BYTES ((size_t)64 << 10)
#else
#define STACK_BYTES ((size_t)8 << 10)
#endif
#define GUARD_BYTES ((size_t)64 << 10)

#define TRAIL_MAX 4096
#define STEPS_MAX 200000        /* of a run; more is actors that wait for each other for ever */
#define SEEN_BITS 22
#define OUTCOME_BITS 16
#define MAIN (EXPLORE_ALL - 1)

enum ended { RUNNING, DONE, CUT, FAILED };

static struct {
	const struct explore_job *job;
	enum ended ended;
	unsigned int left;              /* to spend */
	u64 step, steps;
	bool running, replaying;
	char why[256];
	const char *doing;              /* never NULL */

	unsigned int ntrail, depth;
	struct choice {
		u32 step;
		u8 n, chosen;
	} trail[TRAIL_MAX];

	/* A replay's: what is chosen at which step, 0 at all others. */
	unsigned int nscript;
	struct choice script[TRAIL_MAX];

	explore_pick *pick;             /* of a duel, or NULL */
	u64 search;                     /* number of it, in every key */
	u64 *seen;                      /* [1 << SEEN_BITS]: key, and in 3 bits what was left */
	struct granule {
		u8 reads, writes;       /* masks of actors, of all runs */
		bool shared, grown;     /* grown: in the next search */
	} *granule;
	bool grew;                      /* some are grown */
	u64 *write_past, *read_past;    /* by granule, of this run */
	u32 *touched;                   /* granules with a past */
	u32 ntouched;
	struct explore_result *res;
	u64 outcome[1 << OUTCOME_BITS];         /* hashes, of this search */
} x = { .doing = "begins" };

static struct actor actors[EXPLORE_ALL] = {
	[MAIN] = { .id = MAIN },
};
struct actor *me = &actors[MAIN];
u64 explore_accesses;
bool explore_plain;
static jmp_buf searcher;
static ucontext_t boot, born;

static void turn(struct actor *to);
static void report(void) __attribute__((noreturn));

/* ---- failing ---- */

static void print_schedule(FILE *f)
{
	const char *between = "";
	unsigned int i;

	for (i = 0; i < x.depth; i++) {
		if (!x.trail[i].chosen)
			continue;
		fprintf(f, "%s%u.%u", between, x.trail[i].step, x.trail[i].chosen);
		between = ",";
	}
	if (!*between)
		fprintf(f, "0.0");
}

static void report(void)
{
	fflush(stdout);
	if (!x.job) {
		printf("not ok - %s\n# %s\n", x.doing, x.why);
	} else {
		printf("not ok %u - %s\n# %s: %s\n", x.job->number, x.job->name, x.doing, x.why);
		printf("# actor %u at step %lu; --replay '%s:", me->id, x.step, x.job->name);
		print_schedule(stdout);
		printf("'\n");
	}
	fflush(stdout);
	_exit(1);
}

void explore_fail(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(x.why, sizeof(x.why), fmt, args);
	va_end(args);
	if (x.running) {
		x.ended = FAILED;
		/* Not from an actor's stack, which is too small to print on. */
		_longjmp(searcher, 1);
	}
	report();
}

void explore_doing(const char *what)
{
	x.doing = what;
}

static void crashed(int sig, siginfo_t *info, void *uc)
{
	const char *at = info->si_addr;

	(void)uc;
	(void)sig;
	if (me->id != MAIN && at >= me->stack - GUARD_BYTES && at < me->stack)
		snprintf(x.why, sizeof(x.why), "the stack of %zu bytes is not enough", STACK_BYTES);
	else
		snprintf(x.why, sizeof(x.why), "signal %d at %p", sig, info->si_addr);
	report();
}

static void catch_crashes(void)
{
	static char stack[64 << 10];
	const stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction sa = { .sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigaltstack(&alt, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGFPE, &sa, NULL);
	sigaction(SIGILL, &sa, NULL);
}

/* ---- choices ---- */

static u64 mix(u64 a, u64 b)
{
	u64 z = (a ^ b * 0x9e3779b97f4a7c15u) + 0x632be59bd9b4e019u;

	z = (z ^ z >> 29) * 0xbf58476d1ce4e5b9u;
	return z ^ z >> 32;
}

static bool can_go(struct actor *a)
{
	return !a->done && (!a->ready || a->ready(a->on));
}

/* What is chosen; two choices that follow each other in one state are of different kinds. */
enum kind { PREEMPT, MOOD, END, NEXT };

/* Whether a state like this was met with as much left; if not, it is now. */
static bool was_here(enum kind kind)
{
	u64 key = x.search, *slot;
	unsigned int i;

	if (explore_plain)
		return false;

	for (i = 0; i < MAIN; i++)
		if (actors[i].stack)
			key = mix(key, actors[i].past + !can_go(&actors[i]));
	/* If the choice is who goes next, it does not matter who went before. */
	key = mix(key, kind == NEXT ? NEXT : me->id << 2 | kind) & ~(u64)7;
	slot = &x.seen[key >> (64 - SEEN_BITS)];
	if ((*slot & ~(u64)7) == key && (*slot & 7) >= x.left)
		return true;
	*slot = key | x.left;
	return false;
}

static void leave(enum ended how)
{
	x.ended = how;
	_longjmp(searcher, 1);
}

static unsigned int scripted(unsigned int n)
{
	if (x.depth == x.nscript || x.script[x.depth].step != x.step)
		return 0;
	x.trail[x.depth] = x.script[x.depth];
	if (x.trail[x.depth].chosen >= n)
		explore_fail("the schedule does not fit: step %lu offers %u", x.step, n);
	return x.trail[x.depth++].chosen;
}

/* One of n. */
static unsigned int choose(unsigned int n, enum kind kind)
{
	struct choice *c = &x.trail[x.depth];
	unsigned int cost = kind <= MOOD;

	if (++x.step > STEPS_MAX)
		explore_fail("nobody comes to an end");
	if (x.pick)
		return kind == END;
	if (x.replaying)
		return scripted(n);
	if (cost > x.left)
		n = 1;
	if (x.depth == x.ntrail) {
		if (was_here(kind))
			leave(CUT);
		if (n == 1)
			return 0;
		if (x.depth == TRAIL_MAX)
			explore_fail("the trail is too short");
		*c = (struct choice){ .step = (u32)x.step, .n = (u8)n };
		x.ntrail++;
	} else if (n == 1) {
		return 0;
	} else if (c->step != x.step || c->n != n) {
		explore_fail("the run is not the one before: step %u of %u, %lu of %u", c->step,
			     c->n, x.step, n);
	}
	x.depth++;
	if (c->chosen)
		x.left -= cost;
	return c->chosen;
}

unsigned int explore_choose(unsigned int n)
{
	unsigned int k;

	if (!x.running || n < 2)
		return 0;
	k = choose(n, MOOD);
	me->past = mix(me->past, ~(u64)k);
	return k;
}

/* ---- turns ---- */

static unsigned int others(struct actor *list[EXPLORE_ALL])
{
	unsigned int n = 0, i;

	for (i = 0; i < MAIN; i++)
		if (&actors[i] != me && actors[i].stack && can_go(&actors[i]))
			list[n++] = &actors[i];
	return n;
}

/* Whether any of these 8-byte pieces is shared; and, for a page, whether it may go away. */
static bool is_shared(const void *p, size_t n)
{
	ptrdiff_t first = home_granule(p), last, frame = home_frame_granule(p);

	if (first < 0 || explore_plain)
		return first >= 0;
	if (frame >= 0 && x.granule[frame].shared)
		return true;
	for (last = home_granule((const char *)p + n - 1); first <= last; first++)
		if (x.granule[first].shared)
			return true;
	return false;
}

void explore_at(const void *p, size_t n)
{
	struct actor *list[EXPLORE_ALL];
	unsigned int k;

	if (!x.running)
		return;
	me->steps++;
	if (!x.replaying && !is_shared(p, n)) {
		x.step++;
		return;
	}
	k = choose(1 + others(list), PREEMPT);
	if (x.pick)
		k = x.pick(list, others(list), false);
	if (k)
		turn(list[k - 1]);
}

static bool queued(const void *on)
{
	return ((const struct host_work *)on)->queued;
}

/* Somebody else's turn, for nothing. */
static void pass(void)
{
	struct actor *list[EXPLORE_ALL];
	unsigned int n = others(list), i, k;
	bool over = true;

	/* A worker that was asked to run need not do so before the end; one that runs must end. */
	for (i = 0; i < MAIN; i++)
		if (actors[i].stack && !actors[i].done &&
		    !(actors[i].worker && actors[i].ready == queued))
			over = false;
	if (over && (!n || choose(2, END)))
		leave(DONE);
	if (!n)
		explore_fail("deadlock: all wait");
	k = choose(n, NEXT);
	turn(list[x.pick ? x.pick(list, n, true) - 1 : k]);
}

void explore_wait(bool (*ready)(const void *on), const void *on)
{
	if (!x.running) {
		if (!ready(on))
			explore_fail("deadlock: nobody is there to wait for");
		return;
	}
	while (!ready(on)) {
		me->ready = ready;
		me->on = on;
		pass();
		me->ready = NULL;
	}
}

bool explore_running(void)
{
	return x.running;
}

/* ---- accesses ---- */

/* Adds an access to what this actor, and this granule, have seen. */
static void remember(size_t g, bool write)
{
	if (!x.write_past[g] && !x.read_past[g])
		x.touched[x.ntouched++] = (u32)g;
	me->past = mix(me->past, x.write_past[g]);
	if (write) {
		me->past = mix(me->past, x.read_past[g]);
		x.write_past[g] = me->past | 1;
		x.read_past[g] = 0;
	} else {
		x.read_past[g] += me->past;
	}
}

static void saw(size_t at, bool write)
{
	struct granule *g = &x.granule[at];
	u8 bit = (u8)(1u << me->id), who;

	if (!((write ? g->writes : g->reads) & bit)) {
		if (write)
			g->writes |= bit;
		else
			g->reads |= bit;
		who = g->reads | g->writes;
		g->grown |= g->writes && who & (who - 1);
		x.grew |= g->grown && !g->shared;
	}
	if (g->shared)
		remember(at, write);
}

void explore_did(const void *p, size_t n, bool write)
{
	ptrdiff_t g = home_granule(p), last, frame;
	const char *dead;

	explore_accesses++;
	if (g < 0)
		return;
	dead = home_why_dead(p, n);
	if (dead)
		explore_fail("%s", dead);
	if (!x.running)
		return;
	frame = home_frame_granule(p);
	last = home_granule((const char *)p + n - 1);
	if (frame >= 0 && frame != g)
		saw((size_t)frame, false);
	for (; g <= last; g++)
		saw((size_t)g, write);
}

bool hostile_asserts;

/* In memory that is there. */
void hostile_look(const void *p, size_t n)
{
	const char *dead = home_granule(p) < 0 ? NULL : home_why_dead(p, n);

	if (dead) {
		hostile_asserts = false;
		explore_fail("%s, by who asserts", dead);
	}
}

/* ---- stacks ---- */

static void work_for_ever(struct actor *a)
{
	struct host_work *w = home->work[a->id - x.job->actors];

	for (;;) {
		explore_wait(queued, w);
		explore_did(w, sizeof(*w), true);
		home_run_work(w);
	}
}

static void life(void)
{
	me->ready = NULL;
	if (me->worker)
		work_for_ever(me);
	x.job->act(me->id);
	if (me->atomic || me->held)
		explore_fail("an actor ends with a lock held");
	me->done = true;
	pass();
}

static void first_life(void)
{
	/* Every run enters here anew: what is on the stack below is of a run that is over. */
	if (!_setjmp(me->start))
		swapcontext(&born, &boot);
	life();
}

static void turn(struct actor *to)
{
	struct actor *from = me;

	if (to == from)
		return;
	me = to;
	if (_setjmp(from->at))
		return;
	_longjmp(to->at, 1);
}

static void give_stack(struct actor *a)
{
	char *p = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p, GUARD_BYTES, PROT_NONE))
		abort();
	a->stack = p + GUARD_BYTES;
	memset(a->stack, 0xa5, STACK_BYTES);
	getcontext(&born);
	born.uc_stack.ss_sp = a->stack;
	born.uc_stack.ss_size = STACK_BYTES;
	born.uc_link = NULL;
	makecontext(&born, first_life, 0);
	me = a;
	swapcontext(&boot, &born);
	me = &actors[MAIN];
}

static unsigned int stack_used(const struct actor *a)
{
	size_t i = 0;

	while (i < STACK_BYTES && (u8)a->stack[i] == 0xa5)
		i++;
	return (unsigned int)(STACK_BYTES - i);
}

/* ---- the search ---- */

void explore_outcome(u64 hash)
{
	u64 key = mix(hash, x.search) | 1;
	u32 i = (u32)(key >> (64 - OUTCOME_BITS));

	while (x.outcome[i] && x.outcome[i] != key)
		i = (i + 1) % (1u << OUTCOME_BITS);
	if (!x.outcome[i] && x.res) {
		x.outcome[i] = key;
		if (++x.res->outcomes > 1u << (OUTCOME_BITS - 1))
			explore_fail("the test needs room for more outcomes");
	}
}

static void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

static void prepare(const struct explore_job *job)
{
	unsigned int i, workers;
	size_t n;

	x.job = job;
	x.running = false;
	for (x.search = 0, i = 0; job->name[i]; i++)
		x.search = mix(x.search, (u8)job->name[i]);
	x.depth = x.ntrail = 0;
	catch_crashes();
	job->begin();
	home_snapshot();
	n = home_granules();
	if (!x.seen) {
		x.seen = map(sizeof(*x.seen) << SEEN_BITS);
		madvise(x.seen, sizeof(*x.seen) << SEEN_BITS, MADV_HUGEPAGE);
		x.granule = map(home_granules_max() * sizeof(*x.granule));
		x.write_past = map(home_granules_max() * sizeof(u64));
		x.read_past = map(home_granules_max() * sizeof(u64));
		x.touched = map(home_granules_max() * sizeof(u32));
	}
	memset(x.granule, 0, n * sizeof(*x.granule));
	workers = home->nworks > job->asleep ? home->nworks - job->asleep : 0;
	if (job->actors + workers > MAIN)
		explore_fail("too many actors");
	for (i = 0; i < MAIN; i++) {
		struct actor *a = &actors[i];

		if (a->stack)
			munmap(a->stack - GUARD_BYTES, GUARD_BYTES + STACK_BYTES);
		a->stack = NULL;
		a->id = i;
		a->worker = i >= job->actors;
		if (i < job->actors + workers)
			give_stack(a);
	}
}

static void reset_run(void)
{
	unsigned int i;

	home_restore();
	for (i = 0; i < x.ntouched; i++)
		x.write_past[x.touched[i]] = x.read_past[x.touched[i]] = 0;
	x.ntouched = 0;
	x.step = 0;
	x.depth = 0;
	for (i = 0; i < MAIN; i++) {
		struct actor *a = &actors[i];

		a->cpu = i % home->cpus;
		a->held = a->atomic = a->working = 0;
		a->ready = a->worker ? queued : NULL;
		a->on = a->worker && a->stack ? home->work[i - x.job->actors] : NULL;
		a->done = false;
		a->past = i + 1;
		a->steps = 0;
		memcpy(&a->at, &a->start, sizeof(a->at));
	}
}

static void run(unsigned int bound)
{
	reset_run();
	x.left = bound;
	x.ended = RUNNING;
	x.running = true;
	if (!_setjmp(searcher))
		pass();
	x.running = false;
	if (x.ended == FAILED)
		report();
	me = &actors[MAIN];
	x.steps += x.step;
}

/* The next sequence of choices; false: that was the last. */
static bool next(void)
{
	for (x.ntrail = x.depth; x.ntrail; x.ntrail--) {
		struct choice *c = &x.trail[x.ntrail - 1];

		if (c->chosen + 1 < c->n) {
			c->chosen++;
			return true;
		}
	}
	return false;
}

static void search(unsigned int bound, struct explore_result *res)
{
	u64 runs, most;
	size_t i, n;

	do {
		for (i = 0, n = home_granules(); i < n; i++)
			x.granule[i].shared = x.granule[i].grown;
		x.grew = false;
		runs = 0;
		most = ~(u64)0;
		memset(res, 0, sizeof(*res));
		memset(x.outcome, 0, sizeof(x.outcome));
		x.res = res;
		x.search = mix(x.search, 1);
		x.ntrail = 0;
		x.steps = 0;
		do {
			run(bound);
			if (x.depth > res->points)
				res->points = x.depth;
			if (x.ended == DONE) {
				res->schedules++;
				x.job->end();
			} else if (x.ended == CUT) {
				res->cut++;
			}
			/* A search in vain goes on for a while, for what else it may learn. */
			runs++;
			if (x.grew && most == ~(u64)0)
				most = 4 * runs;
		} while (next() && runs < most);
	} while (x.grew);
	res->steps = x.steps;
}

void explore(const struct explore_job *job, unsigned int bound, struct explore_result *res)
{
	unsigned int b, i, used;

	prepare(job);
	/* Few switches first: what they find is found soon, and what they learn is kept. */
	for (b = 0; b <= bound; b++)
		search(b, res);
	/* What comes after it, a duel, counts no outcomes. */
	x.res = NULL;
	for (i = 0; i < MAIN; i++) {
		used = actors[i].stack ? stack_used(&actors[i]) : 0;
		if (used > res->stack)
			res->stack = used;
	}
}

void explore_replay(const struct explore_job *job, const char *schedule)
{
	unsigned int step, chosen;
	int n;

	prepare(job);
	x.replaying = true;
	for (; sscanf(schedule, "%u.%u%n", &step, &chosen, &n) == 2 && x.nscript < TRAIL_MAX;
	     schedule += schedule[n] == ',' ? n + 1 : n)
		if (chosen)
			x.script[x.nscript++] =
				(struct choice){ .step = step, .chosen = (u8)chosen };
	run(0);
	x.job->end();
}

void explore_duel(const struct explore_job *job, explore_pick *pick, unsigned int runs)
{
	prepare(job);
	x.pick = pick;
	x.replaying = true;     /* nothing is learnt for other runs */
	while (runs--) {
		run(0);
		x.job->end();
	}
	x.pick = NULL;
	x.replaying = false;
}
