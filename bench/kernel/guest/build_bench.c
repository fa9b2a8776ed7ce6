// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A real build in a guest with too little memory: compilers of this machine, seen through hostfs.
 *
 *   build_bench --top DIR [--jobs N] [--files N] [--codec NAME] [--disk MIB] [--zswap DISK]
 *               [--tag TEXT]
 *
 * The first N sources of core/, user/ and tools/ in DIR, a folder of the host, are compiled, --jobs
 * at a time. The host's files are mounted read-only; objects go to a tmpfs.
 *
 * Whoever watches the console reads the CPU clock of the user-mode kernel at the two marks: that is
 * the system time of the whole guest, reclaim and workers included, since programs run in processes
 * of their own. One line of JSON goes to the console: "bench: {...}".
 */
#include "client.h"

#include <sys/wait.h>

#define HOST "/host"

static void see_host(void)
{
	mkdir(HOST, 0755);
	if (mount("none", HOST, "hostfs", MS_RDONLY, "/") ||
	    mount("/proc", HOST "/proc", NULL, MS_BIND, NULL) ||
	    mount("/dev", HOST "/dev", NULL, MS_BIND, NULL) ||
	    mount("none", HOST "/tmp", "tmpfs", 0, NULL))
		die("cannot see the host's files: %s", strerror(errno));
}

/* How many of the compilers failed. */
static unsigned long build(const char *top, unsigned long files, unsigned long jobs)
{
	static char script[4096];
	pid_t pid;
	int status;

	snprintf(script, sizeof(script),
		 "cd '%s' || exit 255; export PATH=/usr/bin:/bin TMPDIR=/tmp; "
		 "ls core/*/*.c user/home/[hz]*.c user/kv/*.c tools/*.c | head -n %lu >/tmp/todo && "
		 "xargs -P %lu -n 1 sh -c 'gcc -std=gnu11 -O2 -g -pthread -I. -Icore -Iuser "
		 "-Iuser/home -Iuser/api "
		 "-DPAGE_SHIFT=12 -DEBB_VERSION=\\\"0\\\" -DEBB_LZO=0 -c \"$0\" "
		 "-o /tmp/$(echo \"$0\" | tr / _).o' </tmp/todo; "
		 "exit $(($(wc -l </tmp/todo) - $(ls /tmp/*.o | wc -l)))", top, files, jobs);
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid) {
		if (chroot(HOST) || chdir("/"))
			_exit(255);
		execl("/bin/sh", "sh", "-c", script, NULL);
		_exit(255);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) == 255)
		die("the build did not begin or did not end");
	return (unsigned long)WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	static unsigned long jobs = 6, files = 40, disk = 512;
	static const char *top, *codec = "lzo", *zswap, *tag = "-";
	static const struct option known[] = {
		{ "top", .text = &top }, { "jobs", &jobs, 1, 64 }, { "files", &files, 1, 200 },
		{ "disk", &disk, 1, 1 << 20 }, { "codec", .text = &codec },
		{ "zswap", .text = &zswap }, { "tag", .text = &tag }, { }
	};
	unsigned long long out, in;
	unsigned long failed;
	double t;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options(argc, argv, 1, known);
	if (!top)
		die("--top is wanted");
	see_host();
	client_on(zswap, &(struct zram_setup){ .codec = codec }, disk * MB);
	out = client_out(zswap);
	in = client_in(zswap);
	mark("start", tag);
	t = now_ms();
	failed = build(top, files, jobs);
	t = now_ms() - t;
	mark("stop", tag);
	printf("bench: {\"tag\": \"%s\", \"mode\": \"build\", \"np\": %lu, \"files\": %lu, "
	       "\"data\": \"build\", \"codec\": \"%s\", \"seconds\": %.2f, "
	       "\"pages_out\": %llu, \"pages_in\": %llu, \"failed_writes\": %llu, "
	       "\"failed_compiles\": %lu}\n",
	       tag, jobs, files, codec, t / 1e3,
	       client_out(zswap) - out,
	       client_in(zswap) - in,
	       client_refused(zswap), failed);
	client_off(zswap);
	return 0;
}
