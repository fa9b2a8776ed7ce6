// SPDX-License-Identifier: GPL-2.0-only
/*
 * policy_file.c - the files that say what a device does by itself (policy.c).
 */
#include "zram.h"

#include <linux/device.h>
#include <linux/sysfs.h>

#include "sysfs.h"
#include "wb.h"

static struct attribute *attrs[] = {
	NULL,
};
const struct attribute_group zram_policy_group = { .attrs = attrs };
