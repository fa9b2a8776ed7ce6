# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A plugin of pytest that gives distributed's own tests an EbbBuffer for each SpillBuffer.

EBB_UPSTREAM says which: "disk": Ebb has no share, so that values are where the tests expect them,
in memory or on disk; "ebb": all goes to Ebb first.
"""
import os

import distributed.spill
import distributed.worker_memory

from pyebb.dask import EbbBuffer

KIND = os.environ["EBB_UPSTREAM"]


class Buffer(EbbBuffer):
    def __init__(self, spill_directory, target, max_spill=False):
        share, ratio = (0, .8) if KIND == "disk" else (1, 1)
        super().__init__(spill_directory=spill_directory, target=target, max_spill=max_spill,
                         share=share, max_ratio=ratio)


distributed.spill.SpillBuffer = distributed.worker_memory.SpillBuffer = Buffer
