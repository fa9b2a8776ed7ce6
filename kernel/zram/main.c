// SPDX-License-Identifier: GPL-2.0-only
/* main.c - the module: its parameters, and its parts made and unmade in order. */
#include "zram.h"

#include <linux/module.h>

#include "sysfs.h"

static unsigned int num_devices = 1;

/* Nothing is left that calls zram_add(). */
static void zram_end(void)
{
	zram_devices_exit();
	if (ZRAM_HAS(MEMORY_TRACKING))
		zram_debugfs_exit();
	if (ZRAM_HAS(WRITEBACK))
		zram_backing_exit();
	release_budget_destroy(&zram_budget);
	host_kernel_exit();
}

static int __init zram_init(void)
{
	unsigned int i;
	int err;

	if (zram_chain_size < CHAIN_MIN || zram_chain_size > CHAIN_MAX) {
		pr_err("chain_size %u is not in %d to %d\n", zram_chain_size, CHAIN_MIN, CHAIN_MAX);
		return -EINVAL;
	}
	if (!zram_fits_unit(zram_comp_unit)) {
		pr_err("comp_unit %u is not a power of two from the page size to 64 KiB\n",
		       zram_comp_unit);
		return -EINVAL;
	}
	err = host_kernel_init("zram");
	if (err)
		return err;
	err = release_budget_init(&zram_budget, release_default_limit());
	if (!err)
		err = zram_devices_init(zram_disk_groups);
	if (err) {
		release_budget_destroy(&zram_budget);
		host_kernel_exit();
		return err;
	}
	if (ZRAM_HAS(MEMORY_TRACKING))
		zram_debugfs_init();
	err = class_register(&zram_control);
	if (err) {
		pr_err("cannot register zram-control: error %d\n", err);
		zram_end();
		return err;
	}
	for (i = 0; i < num_devices && err >= 0; i++)
		err = zram_add();
	if (err >= 0)
		return 0;
	class_unregister(&zram_control);
	zram_end();
	return err;
}

static void __exit zram_exit(void)
{
	class_unregister(&zram_control);
	zram_end();
}

module_init(zram_init);
module_exit(zram_exit);

module_param(num_devices, uint, 0);
MODULE_PARM_DESC(num_devices, "Number of pre-created zram devices");
#if ZRAM_HAS(TRACK_ENTRY_ACTIME)
module_param_named(track_actime, zram_track_actime, bool, 0444);
MODULE_PARM_DESC(track_actime, "Keep the age of each page from the start (N)");
#endif
module_param_named(chain_size, zram_chain_size, uint, 0444);
MODULE_PARM_DESC(chain_size, "Most pages of a zspage, 4 to 16 (16)");
#if ZRAM_HAS(UNITS)
module_param_named(comp_unit, zram_comp_unit, uint, 0444);
MODULE_PARM_DESC(comp_unit, "Bytes compressed together on a new device, a page to 64 KiB (a page)");
#endif

MODULE_LICENSE("GPL");
/* DKMS does not install a module whose version, or lack of one, is that of the kernel's own. */
MODULE_VERSION(EBB_VERSION);
MODULE_AUTHOR("The Ebb project");
MODULE_DESCRIPTION("Compressed RAM block device with deferred frees (Ebb)");
