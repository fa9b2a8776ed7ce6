// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Parts of the command that see the machine, on machines that are not this one: cgroups made of
 * plain files, names of any bytes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Before cmocka, which has a fail() of its own. */
#include "tools/memory.h"
#include "tools/tool.h"
#include "user/home/cgroup.h"

#include "case.h"

static char root[64];

/* Writes a file below the made-up root, and makes the folders above it. */
static void put(const char *path, const char *text)
{
	char full[512];
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *p = full + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(full, 0700);
		*p = '/';
	}
	f = fopen(full, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

void before_each(void)
{
	snprintf(root, sizeof(root), "/tmp/ebb-tools-XXXXXX");
	assert_non_null(mkdtemp(root));
}

void clean_up(void)
{
	char line[128];

	snprintf(line, sizeof(line), "rm -rf %s", root);
	assert_int_equal(system(line), 0);
}

#define V2 "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1 "36 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n" \
	   "37 31 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
#define OTHER "22 1 0:20 / / rw,relatime - ext4 /dev/vda rw\n"

CASE(without_a_limit_there_is_none)
{
	assert_true(cgroup_memory_limit(root) == UINT64_MAX);
	put("/proc/self/mountinfo", OTHER V2);
	put("/proc/self/cgroup", "0::/user.slice/a\n");
	assert_true(cgroup_memory_limit(root) == UINT64_MAX);
	put("/sys/fs/cgroup/user.slice/a/memory.max", "max\n");
	assert_true(cgroup_memory_limit(root) == UINT64_MAX);
}

CASE(the_least_of_a_group_and_those_above_it_counts)
{
	put("/proc/self/mountinfo", OTHER V2);
	put("/proc/self/cgroup", "0::/user.slice/a/b\n");
	put("/sys/fs/cgroup/user.slice/a/b/memory.max", "9000000\n");
	assert_int_equal(cgroup_memory_limit(root), 9000000);
	put("/sys/fs/cgroup/user.slice/memory.max", "8000000\n");
	assert_int_equal(cgroup_memory_limit(root), 8000000);
	put("/sys/fs/cgroup/user.slice/a/memory.high", "7000000\n");
	assert_int_equal(cgroup_memory_limit(root), 7000000);
	/* A neighbour's is none of it. */
	put("/sys/fs/cgroup/user.slice/c/memory.max", "1000\n");
	assert_int_equal(cgroup_memory_limit(root), 7000000);
}

CASE(version_1_counts_and_what_it_tells_of_groups_out_of_sight)
{
	put("/proc/self/mountinfo", OTHER V1);
	put("/proc/self/cgroup", "9:cpu,cpuacct:/cpu\n4:memory:/a b\n0::/\n");
	put("/sys/fs/cgroup/cpu/cpu/memory.limit_in_bytes", "1000\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("/sys/fs/cgroup/memory/a b/memory.limit_in_bytes", "6000000\n");
	assert_int_equal(cgroup_memory_limit(root), 6000000);
	put("/sys/fs/cgroup/memory/a b/memory.stat",
	    "cache 0\nhierarchical_memory_limit 5000000\n");
	assert_int_equal(cgroup_memory_limit(root), 5000000);
}

CASE(a_container_may_have_its_own_group_mounted)
{
	/* Without a namespace: the path is the host's, the mount is of a part. */
	put("/proc/self/mountinfo",
	    "36 31 0:32 /docker/c\\0401 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
	put("/proc/self/cgroup", "4:memory:/docker/c 1/inner\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000\n");
	assert_int_equal(cgroup_memory_limit(root), 4000000);
	put("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "3000000\n");
	assert_int_equal(cgroup_memory_limit(root), 3000000);
}

/* Whoever may mount can mount any group anywhere. */
CASE(anothers_group_is_not_taken_for_the_own)
{
	put("/proc/self/mountinfo",
	    "35 24 0:30 /other /mnt/other rw - cgroup2 cgroup2 rw\n"
	    "36 24 0:30 /own /mnt/own rw - cgroup2 cgroup2 rw\n"
	    "37 24 0:32 /other /mnt/memory rw - cgroup cgroup rw,memory\n");
	put("/mnt/other/memory.max", "1000\n");
	put("/mnt/memory/memory.limit_in_bytes", "2000\n");
	put("/mnt/own/memory.max", "9000000\n");
	put("/proc/self/cgroup", "4:memory:/mine\n0::/own/below\n");
	assert_int_equal(cgroup_memory_limit(root), 9000000);
	assert_int_equal(cgroup_memory_left(root), 9000000);
	/* The same beginning is not the same group. */
	put("/proc/self/cgroup", "0::/owner\n4:memory:/otherwise\n");
	put("/mnt/owner/memory.max", "1000\n");
	assert_true(cgroup_memory_limit(root) == CGROUP_NONE);
	/* A namespace's own group is "/", and one outside of it has no name there. */
	put("/proc/self/mountinfo", V2);
	put("/sys/fs/cgroup/memory.max", "2000000\n");
	put("/sys/elsewhere/memory.max", "1000\n");
	put("/proc/self/cgroup", "0::/\n");
	assert_int_equal(cgroup_memory_limit(root), 2000000);
	put("/proc/self/cgroup", "0::/../../elsewhere\n");
	assert_true(cgroup_memory_limit(root) == CGROUP_NONE);
	put("/proc/self/mountinfo", "35 24 0:30 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	put("/proc/self/cgroup", "0::/\n");
	assert_true(cgroup_memory_limit(root) == CGROUP_NONE);
}

CASE(what_a_group_holds_already_is_not_left)
{
	put("/proc/self/mountinfo", OTHER V2);
	put("/proc/self/cgroup", "0::/a/b\n");
	put("/sys/fs/cgroup/a/b/memory.max", "9000000\n");
	assert_int_equal(cgroup_memory_left(root), 9000000);
	put("/sys/fs/cgroup/a/b/memory.current", "3000000\n");
	assert_int_equal(cgroup_memory_left(root), 6000000);
	/* Pages of files go when they are in the way. */
	put("/sys/fs/cgroup/a/b/memory.stat",
	    "anon 1\ninactive_file 1000000\nactive_file 500000\nslab 7\n");
	assert_int_equal(cgroup_memory_left(root), 7500000);
	/* Others are in the group above. */
	put("/sys/fs/cgroup/a/memory.max", "10000000\n");
	put("/sys/fs/cgroup/a/memory.current", "8000000\n");
	assert_int_equal(cgroup_memory_left(root), 2000000);
	put("/sys/fs/cgroup/a/memory.current", "80000000\n");
	assert_int_equal(cgroup_memory_left(root), 0);
	/* The limit itself is what it was. */
	assert_int_equal(cgroup_memory_limit(root), 9000000);

	put("/proc/self/mountinfo", OTHER V1);
	put("/proc/self/cgroup", "4:memory:/a\n");
	put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "6000000\n");
	put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "2000000\n");
	put("/sys/fs/cgroup/memory/a/memory.stat",
	    "inactive_file 1\ntotal_inactive_file 700000\ntotal_active_file 300000\n");
	assert_int_equal(cgroup_memory_left(root), 5000000);
}

CASE(a_machine_with_many_mounts_is_read_to_the_end)
{
	static char mounts[60000];
	size_t n = 0;

	/* Lines longer than any that is of use, and enough of them for several reads. */
	for (unsigned int i = 0; i < 6; i++) {
		n += (size_t)sprintf(mounts + n, "50 1 0:50 / /m%u rw - overlay overlay rw,lowerdir=", i);
		memset(mounts + n, 'x', 9000);
		n += 9000;
		mounts[n++] = '\n';
	}
	strcpy(mounts + n, V2);
	put("/proc/self/mountinfo", mounts);
	put("/proc/self/cgroup", "1:name=systemd:/\n0::/");
	put("/sys/fs/cgroup/memory.max", "5000000");
	assert_int_equal(cgroup_memory_limit(root), 5000000);
}

CASE(hybrid_machines_have_both_versions)
{
	put("/proc/self/mountinfo",
	    V1 "40 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
	put("/proc/self/cgroup", "4:memory:/one\n0::/two\n");
	put("/sys/fs/cgroup/memory/one/memory.limit_in_bytes", "9000000\n");
	put("/sys/fs/cgroup/unified/two/memory.max", "8000000\n");
	assert_int_equal(cgroup_memory_limit(root), 8000000);
}

CASE(files_that_are_not_as_expected_limit_nothing)
{
	static const char *const texts[] = {
		"", "\n", "x", "- - -", "1 2 3 4 5 - cgroup2", "1 2 3 / /a -", " - cgroup x y",
		"0::", ":::", "::::\n\n", "18446744073709551616",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		for (size_t j = 0; j < sizeof(texts) / sizeof(*texts); j++) {
			put("/proc/self/mountinfo", texts[i]);
			put("/proc/self/cgroup", texts[j]);
			assert_true(cgroup_memory_limit(root) == UINT64_MAX);
		}
	put("/proc/self/mountinfo", V2);
	put("/proc/self/cgroup", "0::/\n");
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		if (texts[i][0] == '1' || texts[i][0] == '0')
			continue;
		put("/sys/fs/cgroup/memory.max", texts[i]);
		assert_true(cgroup_memory_limit(root) == UINT64_MAX);
	}
}

/* ---- names ---- */

CASE(a_name_sends_a_terminal_nothing_but_text)
{
	static const struct {
		const char *text, *shown;
	} names[] = {
		{ "plain name.c", "plain name.c" },
		{ "", "" },
		{ "a\nb", "a\\x0ab" },
		{ "\033[31mred\a\r\t\177", "\\x1b[31mred\\x07\\x0d\\x09\\x7f" },
		{ "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
		  "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80" },
		{ "caf\xe9", "caf\\xe9" },
		{ "back\\slash", "back\\\\slash" },
		{ "\xc2\x9b" "31m", "\\xc2\\x9b31m" },          /* the other set's CSI */
		{ "a\xe2\x80\xae" "b", "a\\xe2\\x80\\xae" "b" },        /* right to left */
		{ "\xc0\x8a", "\\xc0\\x8a" },            /* a newline in two bytes */
		{ "\xc1\x81", "\\xc1\\x81" },                              /* a letter in two */
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },                 /* half of a pair */
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },        /* past the last */
		{ "\xe2\x82", "\\xe2\\x82" },                          /* cut off */
		{ "\xff\xfe", "\\xff\\xfe" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char *shown = printable(names[i].text);

		assert_string_equal(shown, names[i].shown);
		free(shown);
	}
}
