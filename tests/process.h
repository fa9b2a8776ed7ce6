/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * process.h - for tests of the library in a process that forks, or loads and unloads it, and of
 * what the system says that a process has.
 */
#ifndef EBB_TESTS_PROCESS_H
#define EBB_TESTS_PROCESS_H

#include "support.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* The line of the first call that does not answer as it should, or 0. */
#define ANSWERS(call, want) do { if ((call) != (want)) return __LINE__ & 0x7f; } while (0)

/* The status with which a child ends that does what fn does; one that hangs is killed. */
static inline int status_of_child(int (*fn)(void))
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	must(pid >= 0);
	if (!pid) {
		alarm(100);
		signal(SIGSEGV, SIG_DFL);       /* cmocka would go on with the next case */
		_exit(fn());
	}
	must_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static inline void child_does(int (*fn)(void))
{
	int status = status_of_child(fn);

	must(WIFEXITED(status));
	must_eq(WEXITSTATUS(status), 0);
}

/* What a line of /proc/self/status says; 0 if there is none. */
static inline u64 status_bytes(const char *name)
{
	FILE *f = fopen("/proc/self/status", "r");
	size_t n = strlen(name);
	char line[256];
	u64 kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, n) && line[n] == ':')
			kib = strtoull(line + n + 1, NULL, 10);
	if (f)
		fclose(f);
	return kib << 10;
}

static inline void *symbol(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	must(p != NULL);
	return p;
}

/* Flags between threads: what was done before the one is seen after the other. */
static inline bool seen(bool *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static inline void tell(bool *flag, bool value)
{
	__atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

#endif
