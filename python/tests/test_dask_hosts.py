# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A scheduler and two workers as on three hosts: each in a network namespace with addresses of its
own, the workers in different networks, which only the scheduler's host joins.

      worker 0                   scheduler, client                  worker 1
    10.77.0.2/24 -------- 10.77.0.1/24    10.77.1.1/24 -------- 10.77.1.2/24

What the workers send each other goes through the host in the middle, as through a router.
"""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("distributed", reason="distributed is not installed: pip install pyebb[dask]")

pytestmark = pytest.mark.long

MIB = 1 << 20
CHUNKS = 48             # of 4 MiB each
CONFIG = {
    # Of 400 MiB a target of 32: two of these are less than half of the data.
    "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "0.08",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "60s",
    "DASK_DISTRIBUTED__ADMIN__TICK__LIMIT": "1h",
}
CLIENT = textwrap.dedent("""
    import json, sys, zlib
    import numpy as np
    from distributed import Client, wait

    def field(seed):
        rng = np.random.default_rng(seed)
        x = 280 + 20 * np.sin(np.linspace(0, 6, 1 << 20)) + rng.normal(0, .1, 1 << 20)
        return x.astype("f4")

    def crc(a):
        return zlib.crc32(a)

    def both(a, b):
        return zlib.crc32(a + b)

    n = int(sys.argv[2])
    with Client(sys.argv[1], timeout="120s") as client:
        client.wait_for_workers(2, timeout=240)
        first, second = sorted(client.scheduler_info()["workers"])
        here = client.map(field, range(0, n, 2), workers=[first], pure=False)
        there = client.map(field, range(1, n, 2), workers=[second], pure=False)
        wait(here + there)
        figures = client.run(lambda dask_worker: dask_worker.data.figures())
        # Each worker needs all that the other has.
        crossed = [client.map(both, here, there, workers=[w], pure=False) for w in (first, second)]
        crossed = [client.gather(c) for c in crossed]
        own = client.gather(client.map(crc, here + there, pure=False))
        made = [field(i) for i in (*range(0, n, 2), *range(1, n, 2))]
        print(json.dumps({
            "workers": [first, second],
            "figures": [figures[first], figures[second]],
            "folders": list(client.run(lambda dask_worker: dask_worker.local_directory).values()),
            "right": own == [crc(a) for a in made],
            "crossed": crossed[0] == crossed[1]
                == [both(a, b) for a, b in zip(made[:n // 2], made[n // 2:])],
        }))
""")


def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def hosts():
    """The names of three namespaces: the scheduler's, and one of each worker."""
    if os.geteuid():
        pytest.skip("network namespaces are made by root only")
    if not shutil.which("ip"):
        pytest.skip("there is no ip: Debian has it in iproute2")
    names = [f"ebb-{os.getpid()}-{n}" for n in ("s", 0, 1)]
    with contextlib.ExitStack() as stack:
        try:
            for name in names:
                ip("netns", "add", name)
                stack.callback(ip, "netns", "del", name)
                ip("-n", name, "link", "set", "lo", "up")
            for n, worker in enumerate(names[1:]):
                ip("link", "add", f"to{n}", "netns", names[0], "type", "veth",
                   "peer", "name", "eth0", "netns", worker)
                for where, link, last in ((names[0], f"to{n}", 1), (worker, "eth0", 2)):
                    ip("-n", where, "address", "add", f"10.77.{n}.{last}/24", "dev", link)
                    ip("-n", where, "link", "set", link, "up")
                ip("-n", worker, "route", "add", "default", "via", f"10.77.{n}.1")
            ip("netns", "exec", names[0], "sysctl", "-qw", "net.ipv4.ip_forward=1")
        except subprocess.CalledProcessError as e:
            pytest.skip(f"this machine makes no network namespaces: {e.stderr.strip() or e}")
        yield names


def test_workers_on_hosts_of_their_own(hosts, tmp_path):
    env = dict(os.environ, **CONFIG)
    run = [sys.executable, "-m", "dask"]

    def start(stack, host, *command):
        p = subprocess.Popen(["ip", "netns", "exec", host, *command], env=env, cwd=tmp_path,
                             stderr=subprocess.DEVNULL)
        stack.callback(p.wait, 60)
        stack.callback(p.terminate)

    with contextlib.ExitStack() as stack:
        start(stack, hosts[0], *run, "scheduler", "--host", "10.77.0.1", "--port", "8786",
              "--no-dashboard")
        for n, host in enumerate(hosts[1:]):
            folder = tmp_path / host
            folder.mkdir()
            start(stack, host, *run, "worker", "10.77.0.1:8786", "--host", f"10.77.{n}.2",
                  "--preload", "pyebb.dask", "--memory-limit", str(400 * MIB), "--nthreads", "1",
                  "--no-dashboard", "--local-directory", str(folder))
        client = subprocess.run(["ip", "netns", "exec", hosts[0], sys.executable, "-c", CLIENT,
                                 "tcp://10.77.0.1:8786", str(CHUNKS)],
                                env=env, cwd=tmp_path, capture_output=True, text=True, timeout=900)
        assert not client.returncode, client.stderr[-3000:]
    said = json.loads(client.stdout.splitlines()[-1])
    assert [w.split(":")[1] for w in said["workers"]] == ["//10.77.0.2", "//10.77.1.2"]
    assert len(set(said["folders"])) == 2
    for f in said["figures"]:
        assert f["keys"] and f["memory_keys"], f
    assert said["right"] and said["crossed"], said
