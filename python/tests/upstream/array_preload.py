# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The preload of the workers of array_plugin.py."""


def dask_setup(worker):
    """Keeps no value in memory uncompressed, and at most 64 KiB of them in Ebb."""
    import pyebb.dask
    pyebb.dask.dask_setup(worker)
    worker.data.fast.n = -1
    below = worker.data._slow_uncached
    below.limit, below.max_ratio = 64 << 10, 1.0
