// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bench.c - owns what a bench leaves: the machine's facts, and a file that is whole or not there.
 * Its threads start at one barrier, each on a CPU of its own, and their times are taken in them.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "commit.h"
#include "cpus.h"
#include "ebb.h"
#include "memory.h"
#include "text.h"

static double load_at_start;

/* The value of the first line of a file that starts with key; "" if there is none. */
static void read_fact(const char *path, const char *key, char *value, size_t len)
{
	FILE *f = fopen(path, "re");
	char line[512];

	*value = '\0';
	while (f && fgets(line, sizeof(line), f)) {
		const char *at = line + strlen(key);

		if (strncmp(line, key, strlen(key)))
			continue;
		snprintf(value, len, "%s", at + strspn(at, " \t:"));
		value[strcspn(value, "\n")] = '\0';
		break;
	}
	if (f)
		fclose(f);
}

/* What was typed, words in a row. */
static json_t *command_line(void)
{
	char line[4096], *text;
	FILE *f = fopen("/proc/self/cmdline", "re");
	size_t len = f ? fread(line, 1, sizeof(line) - 1, f) : 0;
	json_t *said;

	if (f)
		fclose(f);
	line[len] = '\0';
	for (size_t i = 0; i + 1 < len; i++)
		if (!line[i])
			line[i] = ' ';
	text = printable(line);
	if (!text)
		fail("out of memory for a line of text");
	said = json_string(text);
	free(text);
	return said;
}

/* Facts of this machine, and of this run, that a figure depends on. */
static json_t *machine_facts(void)
{
	char cpu[256], thp[256], date[64], *model, *open, *end;
	json_t *facts = json_object();
	time_t now = time(NULL);
	struct utsname u;
	struct tm tm;

	read_fact("/proc/cpuinfo", "model name", cpu, sizeof(cpu));
	read_fact("/sys/kernel/mm/transparent_hugepage/enabled", "", thp, sizeof(thp));
	open = strchr(thp, '[');
	end = open ? strchr(open, ']') : NULL;
	if (end)
		*end = '\0';
	if (uname(&u) || !gmtime_r(&now, &tm) ||
	    !strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &tm))
		fail("cannot tell the kernel's name or the date");
	model = printable(*cpu ? cpu : u.machine);
	if (!model)
		fail("out of memory for a line of text");
	json_set(facts, "cpu_model", json_string(model));
	free(model);
	json_set(facts, "cpus", json_integer(cpu_count()));
	json_set(facts, "memory_bytes", json_integer((json_int_t)machine_bytes()));
	json_set(facts, "kernel", json_sprintf("%s %s %s", u.sysname, u.release, u.machine));
	json_set(facts, "thp", json_string(end ? open + 1 : "none"));
	json_set(facts, "ebb_version", json_string(ebb_version()));
	json_set(facts, "page_bytes", json_integer((json_int_t)ebb_page_size()));
	json_set(facts, "load_at_start", json_real(load_at_start));
	json_set(facts, "commit", json_string(EBB_COMMIT));
	json_set(facts, "command", command_line());
	json_set(facts, "date", json_string(date));
	return facts;
}

/* The folder of a path, to be freed. */
static char *folder_of(const char *path)
{
	const char *end = strrchr(path, '/');

	if (!end)
		return xprintf(".");
	return end == path ? xprintf("/") : xprintf("%.*s", (int)(end - path), path);
}

void bench_start(const struct bench_opts *opts)
{
	const char *path = opts->out;
	struct stat st;
	char *folder;

	if (getloadavg(&load_at_start, 1) != 1)
		load_at_start = 0;
	if (!path)
		return;
	if (!lstat(path, &st)) {
		if (!S_ISREG(st.st_mode))
			usage_fail("--out %s: is %s; expected a regular file, or none yet", path,
				   S_ISLNK(st.st_mode) ? "a symbolic link" :
				   S_ISDIR(st.st_mode) ? "a folder" : "no regular file");
		if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS))
			usage_fail("--out %s: %s; expected a file that can be written", path,
				   strerror(errno));
	} else if (errno != ENOENT || path[strlen(path) - 1] == '/') {
		usage_fail("--out %s: %s; expected a file that can be written", path,
			   strerror(errno));
	}
	folder = folder_of(path);
	if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS))
		usage_fail("--out %s: %s: %s; expected a folder that can be written to", path,
			   folder, strerror(errno));
	free(folder);
}

/*
 * What takes a file's place gets its owner, group and mode; a new file those of any new one.  Who
 * may not give a file away leaves it to himself, and a group that is another gets nothing.
 */
static int take_place(int fd, const char *path)
{
	mode_t mask = umask(0), mode;
	struct stat st;

	umask(mask);
	if (lstat(path, &st) || !S_ISREG(st.st_mode))
		return fchmod(fd, 0666 & ~mask);
	mode = st.st_mode & 0777;
	if (fchown(fd, st.st_uid, st.st_gid) && fchown(fd, (uid_t)-1, st.st_gid))
		mode &= ~(mode_t)070;
	return fchmod(fd, mode);
}

/*
 * Writes beside path and renames, so that a reader sees the old file or the new one, and a link
 * that someone puts there is replaced and not followed.
 */
static int write_document(json_t *doc, const char *path)
{
	char *part = xprintf("%s.XXXXXX", path);
	int fd = mkostemp(part, O_CLOEXEC), status = 0;
	FILE *f = NULL;

	if (fd < 0 || take_place(fd, path) || !(f = fdopen(fd, "w")) ||
	    json_dumpf(doc, f, JSON_INDENT(2) | JSON_REAL_PRECISION(7)) || fputc('\n', f) == EOF)
		status = errno ? -errno : -EIO;
	if (f && fclose(f) && !status)
		status = -errno;
	else if (!f && fd >= 0)
		close(fd);
	if (!status && rename(part, path))
		status = -errno;
	if (status) {
		note("%s: cannot write the results: %s", path, strerror(-status));
		if (fd >= 0)
			unlink(part);
	}
	free(part);
	return status ? EXIT_FAILED : 0;
}

int bench_report(const struct bench_opts *opts, const struct table *t)
{
	json_t *doc = json_object();
	int status;

	progress_end();
	json_set(doc, "machine", machine_facts());
	json_set(doc, "rows", table_rows(t));
	if (opts->json)
		json_print(doc, stdout);
	else
		table_print(t, stdout);
	status = opts->out ? write_document(doc, opts->out) : 0;
	json_decref(doc);
	return status;
}

struct team {
	int (*fn)(void *arg, unsigned int i);
	void *arg;
	pthread_barrier_t barrier;
};

struct member {
	struct team *team;
	struct span *span;
	pthread_t thread;
	unsigned int i;
	int ret;
};

static void *member_main(void *arg)
{
	struct member *m = arg;

	pin_to_cpu(m->i);
	pthread_barrier_wait(&m->team->barrier);
	m->span->start_ns = now_ns();
	m->ret = m->team->fn(m->team->arg, m->i);
	m->span->end_ns = now_ns();
	return NULL;
}

void team_run(unsigned int n, int (*fn)(void *arg, unsigned int i), void *arg,
	      struct team_times *times, const char *what)
{
	struct team team = { .fn = fn, .arg = arg };
	struct member *members = xalloc(n, sizeof(*members));
	int ret = pthread_barrier_init(&team.barrier, NULL, n + 1);

	if (ret)
		fail("cannot make a barrier: %s", strerror(ret));
	cpu_count();
	for (unsigned int i = 0; i < n; i++) {
		members[i].team = &team;
		members[i].span = &times->span[i];
		members[i].i = i;
		ret = pthread_create(&members[i].thread, NULL, member_main, &members[i]);
		if (ret)
			fail("cannot start thread %u of %u: %s", i + 1, n, strerror(ret));
	}
	times->start_cpu_ns = process_cpu_ns();
	pthread_barrier_wait(&team.barrier);

	times->first_ns = UINT64_MAX;
	times->last_ns = 0;
	times->mean_ns = 0;
	for (unsigned int i = 0; i < n; i++) {
		const struct span *s = &times->span[i];

		pthread_join(members[i].thread, NULL);
		if (members[i].ret < 0)
			ret = members[i].ret;
		if (s->start_ns < times->first_ns)
			times->first_ns = s->start_ns;
		if (s->end_ns > times->last_ns)
			times->last_ns = s->end_ns;
		times->mean_ns += (double)(s->end_ns - s->start_ns) / n;
	}
	pthread_barrier_destroy(&team.barrier);
	free(members);
	stop_if_interrupted();
	must(ret, what);
}

size_t slots_page(const struct team_slots *s, unsigned int i, size_t p)
{
	return (i * (s->each / s->threads) + p) % s->set->count;
}

int slots_fill(void *arg, unsigned int i)
{
	const struct team_slots *s = arg;
	size_t page = ebb_page_size();

	for (size_t p = 0; p < s->each && !interrupted(); p++) {
		int ret = ebb_write(s->store, i * s->each + p,
				    data_page(s->set, slots_page(s, i, p)), page);

		if (ret)
			return ret;
	}
	return 0;
}

int slots_verify(void *arg, unsigned int i)
{
	const struct team_slots *s = arg;
	size_t page = ebb_page_size();
	unsigned char buf[65536];

	for (size_t p = 0; p < s->each && !interrupted(); p++) {
		int ret = ebb_read(s->store, i * s->each + p, buf, page);

		if (ret)
			return ret;
		if (memcmp(buf, data_page(s->set, slots_page(s, i, p)), page))
			fail("slot %zu does not read back as it was written", i * s->each + p);
	}
	return 0;
}
