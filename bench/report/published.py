# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The figures of others: munmap of 256 MB a process, all swapped out to zram (lzo-rle), at once.

Mean ms by number of processes, from the cover letters of two patch series for Linux.
"""
LOCKS = "https://lore.kernel.org/all/20260527115930.3138213-1-haowenchao@xiaomi.com/"
DEFERRED = "https://lore.kernel.org/all/20260509083824.2408724-1-haowenchao@xiaomi.com/"
# Machine, series of patches, what is compared, figures
PUBLISHED = [
    ("Raspberry Pi 4B", LOCKS, "before", {1: 59.0, 2: 94.6, 4: 202.9}),
    ("Raspberry Pi 4B", LOCKS, "less locking per free (in Linux 7.3)",
     {1: 56.0, 2: 66.7, 4: 110.6}),
    ("Raspberry Pi 4B", DEFERRED, "before", {1: 56.2, 3: 153.2}),
    ("Raspberry Pi 4B", DEFERRED, "free deferred per CPU (proposed)", {1: 17.2, 3: 51.5}),
    ("i7-12700", LOCKS, "before", {1: 11.7, 2: 24.1, 4: 63.0}),
    ("i7-12700", LOCKS, "less locking per free (in Linux 7.3)", {1: 9.8, 2: 17.2, 4: 45.3}),
]
