// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* alone.c - see alone.h. */
#define _GNU_SOURCE
#include "alone.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool.h"

void run_alone(const char *what, void (*fn)(void *arg, void *found), void *arg, void *found,
	       size_t bytes)
{
	int ends[2], status;
	pid_t pid;

	fflush(NULL);
	if (pipe(ends))
		fail("cannot make a pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		fail("cannot start a process: %s", strerror(errno));
	if (!pid) {
		close(ends[0]);
		fn(arg, found);
		_exit(write(ends[1], found, bytes) != (ssize_t)bytes);
	}
	close(ends[1]);
	if (read(ends[0], found, bytes) != (ssize_t)bytes)
		memset(found, 0, bytes);
	close(ends[0]);
	if (waitpid(pid, &status, 0) != pid || status) {
		stop_if_interrupted();
		fail("%s: the run did not end well", what);
	}
	stop_if_interrupted();
}

/* Reads until the other end is closed; a signal to this program ends the other process. */
static size_t read_all(int fd, pid_t pid, void *found, size_t bytes)
{
	size_t got = 0;

	while (got < bytes) {
		ssize_t n = read(fd, (char *)found + got, bytes - got);

		if (n < 0 && errno == EINTR) {
			if (interrupted())
				kill(pid, SIGKILL);
			continue;
		}
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	return got;
}

bool run_again(char *const argv[], const char *library, const char *setting, bool quiet,
	       void *found, size_t bytes)
{
	int ends[2], status = 0;
	size_t got;
	pid_t pid;

	fflush(NULL);
	if (pipe2(ends, O_CLOEXEC))
		fail("cannot make a pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		fail("cannot start a process: %s", strerror(errno));
	if (!pid) {
		int null = quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;

		if (null >= 0)
			dup2(null, STDERR_FILENO);
		unsetenv("LD_PRELOAD");
		unsetenv("GLIBC_TUNABLES");
		if ((library && setenv("LD_PRELOAD", library, 1)) ||
		    (setting && putenv((char *)(uintptr_t)setting)))
			_exit(EXIT_FAILED);
		if (dup2(ends[1], STDOUT_FILENO) >= 0)
			execv("/proc/self/exe", argv);
		_exit(EXIT_FAILED);
	}
	close(ends[1]);
	got = read_all(ends[0], pid, found, bytes);
	close(ends[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	stop_if_interrupted();
	return got == bytes && !status;
}

uint64_t resident_bytes(void)
{
	char text[4096], *at;
	int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		fail("/proc/self/smaps_rollup: %s", strerror(errno));
	close(fd);
	text[n] = '\0';
	at = strstr(text, "\nRss:");
	if (!at)
		fail("/proc/self/smaps_rollup: expected a line that starts with Rss:");
	return strtoull(at + 5, NULL, 10) * 1024;
}
