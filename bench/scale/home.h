/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* home.h - the counting home as the scenarios steer it. */
#ifndef EBB_SCALE_HOME_H
#define EBB_SCALE_HOME_H

#include "sim.h"

/* Before sim_run(): work that was queued meanwhile runs as it begins. */
void home_start_works(void);

/* Pages that the source gave and has not back. */
u32 home_pages_out(void);

#endif
