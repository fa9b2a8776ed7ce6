# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Clusters of processes with Ebb in their workers: each test starts a scheduler and its workers."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import zlib

import pytest

pytest.importorskip("distributed", reason="distributed is not installed: pip install pyebb[dask]")
np = pytest.importorskip("numpy", reason="numpy is not installed: pip install pyebb[dask]")

import dask  # noqa: E402
from distributed import Client, LocalCluster, wait  # noqa: E402

from pyebb.dask import EbbBuffer  # noqa: E402

# distributed leaves sockets to the collector when it closes.
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("default")]

MIB = 1 << 20
LIMIT = 400 * MIB       # a worker's: 160 MiB of it are the interpreter and what it imported
CHUNK = MIB             # numbers of 4 bytes each
README = pathlib.Path(__file__).resolve().parent.parent / "README.md"


def field(seed):
    rng = np.random.default_rng(seed)
    return (280 + 20 * np.sin(np.linspace(0, 6, CHUNK)) + rng.normal(0, .1, CHUNK)).astype("f4")


def crc(a):
    return zlib.crc32(a)


def right(client, chunks):
    """Whether each chunk is what it was when it was made."""
    made = client.map(lambda seed: crc(field(seed)), range(len(chunks)), pure=False)
    return client.gather(client.map(crc, chunks, pure=False)) == client.gather(made)


def cluster(tmp_path, *, n_workers=2, limit=LIMIT, preload=True, **kwargs):
    dask.config.set({"distributed.worker.preload": ["pyebb.dask"] if preload else [],
                     "distributed.scheduler.preload": ["pyebb.dask"]})
    return LocalCluster(n_workers=n_workers, threads_per_worker=1, memory_limit=limit,
                        local_directory=str(tmp_path), dashboard_address=":0",
                        worker_dashboard_address=":0", **kwargs)


def fetch(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def kinds(client):
    return set(client.run(lambda dask_worker: type(dask_worker.data).__name__).values())


def figures(client):
    """Of all workers together."""
    each = client.run(lambda dask_worker: dask_worker.data.figures()).values()
    return {name: sum(f[name] for f in each) for name in next(iter(each))}


def test_more_than_memory_goes_to_ebb_and_little_of_it_to_disk(tmp_path):
    with cluster(tmp_path) as c, Client(c) as client:
        assert kinds(client) == {"EbbBuffer"}
        pids = client.run(os.getpid)
        chunks = client.map(field, range(160), pure=False)      # 640 MiB; the targets are 480 MiB
        wait(chunks)
        f = figures(client)
        assert f["keys"] and f["memory_keys"]
        assert f["keys"] + f["memory_keys"] + f["disk_keys"] == 160
        assert 1.3 < f["ratio"] / 2
        assert right(client, chunks)
        # What the scheduler is told is what values really take.
        time.sleep(1.5)         # a heartbeat
        for state in c.scheduler.workers.values():
            m = state.metrics
            assert m["ebb"]["keys"] and state.memory.process < LIMIT
            managed = state.nbytes - m["spilled_bytes"]["memory"]
            taken = m["ebb"]["memory_bytes"] + m["ebb"]["resident"]
            assert abs(managed - taken) < 12 * MIB
        # Prometheus: what README's queries ask for is there, and has the worker's figures.
        worker = next(iter(c.scheduler.workers.values()))
        said = client.run(lambda dask_worker: dask_worker.data.figures())[worker.address]
        text = fetch(f"http://{worker.host}:{worker.services['dashboard']}/metrics")
        readme = README.read_text(encoding="utf-8")
        asked = set(re.findall(r"dask_worker_\w*[a-z](?![\w*])", readme))
        assert {"dask_worker_ebb_" + name for name in said} <= asked
        for name in asked:
            assert re.search(rf"^{name}(\{{.*\}})? ", text, re.M), f"{name} is not in\n{text}"
        for name, value in said.items():
            assert float(re.search(rf"^dask_worker_ebb_{name} (\S+)", text, re.M)[1]) == value
        assert 'dask_worker_spill_count_total{activity="ebb-write"}' in text
        # The page of the dashboards: a worker has itself, the scheduler all.
        shown = fetch(f"http://{worker.host}:{worker.services['dashboard']}/ebb")
        assert worker.address in shown and f"<td>{said['keys']:.0f}</td>" in shown, shown
        shown = fetch(c.dashboard_link.replace("/status", "/ebb"))
        assert all(address in shown for address in c.scheduler.workers), shown
        assert client.run(os.getpid) == pids, "a nanny has restarted a worker"


def test_the_dashboard_of_a_cluster_without_ebb_says_so(tmp_path):
    with cluster(tmp_path, n_workers=1, preload=False) as c:
        assert "none has the preload" in fetch(c.dashboard_link.replace("/status", "/ebb"))


def test_the_monitor_makes_room_for_what_is_not_managed(tmp_path):
    def hog(chunks):
        """A task that needs 120 MiB of its own for a while."""
        a = np.ones(120 * MIB, "u1")
        time.sleep(1.5)
        return int(a.sum())

    with cluster(tmp_path, n_workers=1) as c, Client(c) as client:
        chunks = client.map(field, range(60), pure=False)
        wait(chunks)
        before = figures(client)
        assert before["memory_keys"] > 10
        assert client.submit(hog, None).result() == 120 * MIB
        after = figures(client)
        assert after["memory_keys"] < before["memory_keys"]
        state, = c.scheduler.workers.values()
        deadline = time.monotonic() + 20
        while True:
            rss = client.run(lambda: int(open("/proc/self/statm").read().split()[1]) * 4096)
            if max(rss.values()) < .7 * LIMIT and state.status.name == "running":
                break
            assert time.monotonic() < deadline, rss
            time.sleep(.1)
        assert right(client, chunks)


def test_a_killed_worker_s_values_are_computed_again(tmp_path):
    with cluster(tmp_path) as c, Client(c) as client:
        chunks = client.map(field, range(120), pure=False)
        sums = client.map(lambda a: zlib.crc32(a), chunks)
        wait(chunks[:30])
        pids = client.run(os.getpid)
        os.kill(next(iter(pids.values())), signal.SIGKILL)
        assert client.gather(sums) == [crc(field(i)) for i in range(120)]
        client.wait_for_workers(2)
        assert kinds(client) == {"EbbBuffer"}
        left = {p.name for p in tmp_path.rglob("storage/*") if p.is_file()}
        del chunks, sums
        deadline = time.monotonic() + 20
        while left and time.monotonic() < deadline:
            left = {p.name for p in tmp_path.rglob("storage/*") if p.is_file()}
            time.sleep(.1)
        assert not left, "the dead worker's spill files are still there"


def test_a_limit_below_one_chunk(tmp_path):
    config = {"distributed.worker.memory.spill": False, "distributed.worker.memory.pause": False,
              "distributed.worker.memory.terminate": False, "pyebb.share": .5}
    with dask.config.set(config), cluster(tmp_path, n_workers=1, limit=2 * MIB) as c, \
            Client(c) as client:
        chunks = client.map(field, range(4), pure=False)
        wait(chunks)
        f = figures(client)
        assert f["disk_keys"] == 4 and not f["memory_keys"]
        assert right(client, chunks)


def test_a_damaged_spill_file_fails_the_task_that_needs_it(tmp_path):
    with cluster(tmp_path, n_workers=1) as c, Client(c) as client:
        chunk = client.submit(field, 1)
        other = client.submit(field, 2)
        wait([chunk, other])

        def drain(dask_worker):
            while dask_worker.data.fast:
                dask_worker.data.evict()
            dask_worker.data.slow.cache.clear()
        client.run(drain)
        file, = (p for p in tmp_path.rglob("storage/*") if chunk.key in p.name)
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        with pytest.raises(Exception, match="damaged spill file"):
            client.submit(crc, chunk).result()
        assert client.submit(crc, other).result() == crc(field(2))


def test_a_buffer_as_the_worker_s_data(tmp_path):
    with cluster(tmp_path, n_workers=1, preload=False,
                 data=(EbbBuffer, {"memory_limit": LIMIT, "codec": "zstd"})) as c, \
            Client(c) as client:
        assert kinds(client) == {"EbbBuffer"}
        assert client.run(lambda dask_worker: dask_worker.data._slow_uncached.codec)
        chunks = client.map(field, range(80), pure=False)
        assert right(client, chunks)
        assert figures(client)["keys"]


@pytest.mark.parametrize("cached", [False, True])
def test_arrays_in_a_store_of_zarr_have_one_name_and_go_to_a_cluster_of_threads(cached):
    zarr, da = pytest.importorskip("zarr"), pytest.importorskip("dask.array")
    import pyebb.zarr
    store = pyebb.zarr.EbbStore()
    a = zarr.create_array(store, name="x", data=np.arange(100.).reshape(10, 10), chunks=(5, 5),
                          compressors=None)
    if cached:
        store = pyebb.zarr.cached(store, "8 MiB")
        a = zarr.open_array(store, path="x", mode="r")
    x, y, z = (da.from_zarr(b) for b in (a, a, zarr.open_array(store, path="x", mode="r")))
    assert x.name == y.name and (not cached or z.name == x.name)
    other = zarr.create_array(pyebb.zarr.EbbStore(), name="x", data=np.ones((10, 10)),
                              chunks=(5, 5), compressors=None)
    assert da.from_zarr(other).name != x.name
    with dask.config.set({"tokenize.ensure-deterministic": True}):
        assert da.from_zarr(a).name == x.name
    with Client(processes=False, n_workers=1, dashboard_address=None) as client:
        assert x.sum().compute(scheduler=client) == 4950


def test_where_nothing_spills_the_worker_is_left_alone(tmp_path):
    config = {"distributed.worker.memory.target": False, "distributed.worker.memory.spill": False}
    with dask.config.set(config), cluster(tmp_path, n_workers=1) as c, Client(c) as client:
        assert kinds(client) == {"dict"}
        assert client.submit(sum, [1, 2]).result() == 3


@pytest.mark.parametrize("nanny", ["--nanny", "--no-nanny"])
def test_the_command_line(tmp_path, nanny):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = dict(os.environ, DASK_PYEBB__CODEC="zstd")
    run = [sys.executable, "-m", "dask"]
    scheduler = subprocess.Popen([*run, "scheduler", "--host", "127.0.0.1", "--port", str(port),
                                  "--no-dashboard"], env=env, cwd=tmp_path,
                                 stderr=subprocess.DEVNULL)
    worker = subprocess.Popen([*run, "worker", f"127.0.0.1:{port}", nanny, "--preload",
                               "pyebb.dask", "--memory-limit", str(LIMIT), "--nthreads", "1",
                               "--no-dashboard", "--local-directory", str(tmp_path)],
                              env=env, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        with Client(f"127.0.0.1:{port}", timeout="60s") as client:
            client.wait_for_workers(1, timeout=60)
            assert kinds(client) == {"EbbBuffer"}
            said = client.run(lambda dask_worker: (dask_worker.data._slow_uncached.codec,
                                                   dask_worker.data.fast.n))
            assert list(said.values()) == [("zstd", int(LIMIT * .6))]
    finally:
        # One after the other: a worker whose scheduler ended with it once stayed, on a busy
        # machine, with a task that asyncio had cancelled and that did not end.
        for p in (worker, scheduler):
            p.terminate()
            p.wait(60)


def test_the_readme_s_five_lines(tmp_path):
    code, = re.findall(r"```py\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    (tmp_path / "five.py").write_text(code)
    out = subprocess.run([sys.executable, "five.py"], cwd=tmp_path, check=True, text=True,
                         capture_output=True, timeout=280).stdout
    assert re.search(r"^(np\.float64\()?(279|280)\.", out)
    assert any(int(keys) for keys in re.findall(r"'keys': (\d+)", out)), out
