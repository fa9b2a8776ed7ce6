/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cpus.h - the CPUs that the process may use, as it was started, however many the machine has. */
#ifndef EBB_CPUS_H
#define EBB_CPUS_H

/* How many.  The first call, by the only thread that there is yet, finds them. */
unsigned int cpu_count(void);

/* Pins the caller to the i-th of them, i modulo their number. */
void pin_to_cpu(unsigned int i);

#endif
