# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A plugin of pytest that has dask's own tests of arrays computed by a cluster with Ebb's buffers.

The tests ask for the scheduler "sync"; what answers here is a scheduler with two workers, each a
process.  Their arrays are small, so the workers keep no value uncompressed (array_preload.py): each
goes to Ebb, and what Ebb has too much of to a file, and is read from there when a task needs it.
"""
import os
import tempfile

import dask
import pytest
from dask.base import named_schedulers

HERE = os.path.dirname(os.path.realpath(__file__))


class Cluster:
    def __init__(self):
        from distributed import Client, LocalCluster
        self.folder = tempfile.TemporaryDirectory(prefix="ebb-array-")
        dask.config.set({"distributed.worker.preload": [os.path.join(HERE, "array_preload.py")],
                         # Some count the tasks of a rechunk, which p2p has fewer of.
                         "array.rechunk.method": "tasks"})
        self.cluster = LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="1 GiB",
                                    local_directory=self.folder.name, dashboard_address=None)
        self.client = Client(self.cluster)
        for name in ("sync", "synchronous", "single-threaded", "threads", "threading"):
            named_schedulers[name] = self.client.get

    def moved(self):
        """Values that went to Ebb, and from there to a file, on both workers."""
        def of(dask_worker):
            metrics = dask_worker.data.cumulative_metrics
            return [metrics["ebb-write", "count"], metrics["disk-write", "count"]]
        return [sum(column) for column in zip(*self.client.run(of).values())]

    def close(self):
        self.client.close()
        self.cluster.close()
        self.folder.cleanup()


@pytest.fixture(scope="session", autouse=True)
def cluster():
    c = Cluster()
    yield c
    ebb, disk = c.moved()
    c.close()
    print(f"\nupstream: {ebb} values went to Ebb, {disk} from there to files")
    assert ebb and disk, "the workers did not use Ebb"
