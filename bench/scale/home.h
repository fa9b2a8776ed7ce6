/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* home.h - the counting home as the scenarios steer it. */
#ifndef EBB_SCALE_HOME_H
#define EBB_SCALE_HOME_H

#include "sim.h"

/* Pages that a CPU's list moves at once, and holds at most. */
#define HOME_BATCH 32u
#define HOME_HIGH 64u

/* Before sim_run(): work that was queued meanwhile runs as it begins. */
void home_start_works(void);

/* Pages that the source gave and has not back. */
u32 home_pages_out(void);

#endif
