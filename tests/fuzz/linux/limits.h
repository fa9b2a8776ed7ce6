/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include_next <linux/limits.h>   /* glibc asks for it, too */
#include "../kernel_shim.h"
