// SPDX-License-Identifier: GPL-2.0-only
/* refuse.c - says in the kernel's log what a file did not take. */
#include "zram.h"

#include <linux/device.h>
#include <linux/string_helpers.h>

#include "sysfs.h"

#define SHOWN 64                /* bytes of a refused value */

ssize_t zram_refuse(struct device *dev, const char *file, const char *buf, const char *why,
		    ssize_t err)
{
	size_t len = strlen(buf);
	char text[4 * SHOWN + 1];
	int n;

	if (len && buf[len - 1] == '\n')
		len--;
	/* %pE takes what Latin-1 calls printable as it is, which is half a character in UTF-8. */
	n = string_escape_mem(buf, min_t(size_t, len, SHOWN), text, sizeof(text) - 1,
			      ESCAPE_ANY | ESCAPE_NAP, NULL);
	text[n] = 0;
	pr_notice_ratelimited("%s: %s '%s'%s: %s\n", dev ? dev_name(dev) : "zram-control", file,
			      text, len > SHOWN ? "..." : "", why);
	return err;
}
