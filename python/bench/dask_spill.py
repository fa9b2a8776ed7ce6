#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""dask_spill.py - stock distributed, which spills to disk, beside Ebb in its workers.

Each row is a cluster of its own: one scheduler, and two workers of one thread under their nannies,
each with a memory limit.  As root each worker is in a control group of the same limit, so that its
page cache counts, and its spill files are on a loop device that gives --disk bytes a second.  What
the machine refuses is said and noted in the rows ("limits", "disk").

    dask_spill.py --json build/bench/dask.json                  every row
    dask_spill.py --json ... --add --only workload=fields --only data_over_limit=2
    dask_spill.py --smoke --json ...                            one workload, tiny
    dask_spill.py --plot build/report --json ...                plots of what is there

A sample: {variant, workload, data_over_limit, seconds, spilled_bytes, peak_resident_bytes,
checksum_ok, over_limit_seconds, restarts, read_bytes, ebb_ratio, limit, limits, disk, disk_asked,
codec, run}.  spilled_bytes: what was written to spill files.  peak_resident_bytes: the most of one
worker, and over_limit_seconds: how long any was over its limit, both looked at ten times a second.
A sample that did not come to its end has "error", the reason: of a killed worker, say, or no end in
--patience.  A row is the median of the samples that came to their end, with ranges; "runs" is how
many there were, "ended" how many of them came to it, and "restarts" the sum.
"""
import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.realpath(os.path.join(HERE, "..", "..", "tests", "vm"))]
from harness import machine  # noqa: E402

VARIANTS = ["stock", "ebb"]
OVER = [0.5, 1.5, 2, 3]
WORKERS = 2
CGROUP = "/sys/fs/cgroup"
MACHINE = machine()     # before this is what loads it


def note(text):
    print(text, file=sys.stderr, flush=True)


def put(path, text):
    with open(path, "w") as f:
        f.write(text)


class Box:
    """What holds a row's workers: a control group each, and a disk of their own.

    Both are made as far as the machine lets us; `limits` and `disk` say what there is.
    """

    def __init__(self, folder, limit, disk_rate, disk_bytes):
        self.limit, self.stack = limit, contextlib.ExitStack()
        self.groups, self.limits, self.disk = [], "nanny", disk_name(0)
        self.v2 = os.path.exists(f"{CGROUP}/cgroup.controllers")
        self.folder = os.path.join(folder, "disk")
        os.makedirs(self.folder)
        if os.geteuid():
            note("dask_spill: not root: no control groups, and the machine's own disk")
            return
        self._make_groups()
        if disk_rate:
            try:
                self._make_disk(folder, disk_rate, disk_bytes)
            except (OSError, subprocess.CalledProcessError) as e:
                said = getattr(e, "stderr", b"") or b""
                note(f"dask_spill: no disk of {disk_rate / 1e6:.0f} MB/s ({e} {said.decode()})"
                     ": the machine's own")

    def _group(self, controller, name):
        path = f"{CGROUP}/{name}" if self.v2 else f"{CGROUP}/{controller}/{name}"
        os.mkdir(path)
        self.stack.callback(self._remove, path)
        return path

    @staticmethod
    def _remove(path):
        for _ in range(100):        # until its last process is gone
            with contextlib.suppress(OSError):
                os.rmdir(path)
                return
            time.sleep(.1)
        note(f"dask_spill: {path} stays")

    def _make_groups(self):
        try:
            if self.v2:
                put(f"{CGROUP}/cgroup.subtree_control", "+memory +io")
            for n in range(WORKERS):
                path = self._group("memory", f"ebb-dask-{os.getpid()}-{n}")
                put(f"{path}/{'memory.max' if self.v2 else 'memory.limit_in_bytes'}",
                    str(self.limit))
                self.groups.append(path)
            self.limits = f"cgroup v{2 if self.v2 else 1}"
        except OSError as e:
            self.groups = []
            note(f"dask_spill: no control group with a memory limit ({e}): the page cache is free")

    def _make_disk(self, folder, rate, size):
        def run(*args):
            return subprocess.run(args, check=True, capture_output=True).stdout.decode().strip()
        image = os.path.join(folder, "image")
        with open(image, "wb") as f:
            os.truncate(f.fileno(), size)
        # Direct: what the loop device reads and writes is in no other page cache.
        try:
            loop = run("losetup", "--find", "--show", "--direct-io=on", image)
        except subprocess.CalledProcessError:
            loop = run("losetup", "--find", "--show", image)
        self.stack.callback(run, "losetup", "--detach", loop)
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,nodiscard", "-O", "^has_journal", loop)
        number = os.stat(loop).st_rdev
        device = f"{os.major(number)}:{os.minor(number)}"
        if self.v2:
            for group in self.groups:
                put(f"{group}/io.max", f"{device} rbps={rate} wbps={rate}")
            if not self.groups:
                raise OSError("io.max needs a control group")
        else:
            # Version 1 does not know whose page a write-back is: it is the root group's.
            for which in ("read", "write"):
                name = f"{CGROUP}/blkio/blkio.throttle.{which}_bps_device"
                put(name, f"{device} {rate}")
                self.stack.callback(put, name, f"{device} 0")
        run("mount", "-o", "discard", loop, self.folder)
        self.stack.callback(run, "umount", self.folder)
        self.disk = disk_name(rate)

    def take(self, pids):
        for group, pid in zip(self.groups, pids):
            if pid:
                put(f"{group}/cgroup.procs", str(pid))

    def close(self):
        self.stack.close()


class Watch(threading.Thread):
    """Looks at the workers' memory ten times a second.  A worker that its nanny starts anew is held
    by the box of the one before."""

    def __init__(self, cluster, box):
        super().__init__(daemon=True)
        self.cluster, self.box, self.limit = cluster, box, box.limit
        self.peak, self.over, self.ended = 0, 0.0, threading.Event()
        self.last = self.pids()
        self.seen = set(self.last)
        box.take(self.last)

    def pids(self):
        """Of the workers, each at the place of its nanny; 0: there is none just now."""
        return [nanny.pid or 0 for nanny in self.cluster.workers.values()]

    @property
    def restarts(self):
        return max(len(self.seen) - WORKERS, 0)

    def run(self):
        page = os.sysconf("SC_PAGESIZE")
        last = time.monotonic()
        while not self.ended.wait(.1):
            most = 0
            now = self.pids()
            if now != self.last:
                with contextlib.suppress(OSError):
                    self.box.take(now)
                self.last = now
                self.seen.update(filter(None, now))
            for pid in now:
                with contextlib.suppress(OSError, ValueError, IndexError):
                    with open(f"/proc/{pid}/statm") as f:
                        most = max(most, int(f.read().split()[1]) * page)
            now = time.monotonic()
            self.peak = max(self.peak, most)
            if most > self.limit:
                self.over += now - last
            last = now


def figures(client):
    """Bytes written to and read from spill files, and Ebb's ratio where it is used most."""
    def of(dask_worker):
        data = dask_worker.data
        metrics = data.cumulative_metrics
        ebb = data.figures() if hasattr(data, "figures") else {}
        return (metrics["disk-write", "bytes"], metrics["disk-read", "bytes"],
                metrics["ebb-write", "bytes"], ebb.get("ratio", 0.0))
    # A worker that hangs does not answer.
    each = list(client.sync(client._run, of, callback_timeout=60).values())
    return [int(sum(column)) for column in list(zip(*each))[:3]] + [max(e[3] for e in each)]


def bounded(call, seconds):
    """What call() returns; TimeoutError if it takes longer, and then it goes on."""
    said = []

    def run():
        try:
            said.append((call(), None))
        except Exception as e:
            said.append((None, e))
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not said:
        raise TimeoutError(f"no end after {seconds} s")
    value, error = said[0]
    if error:
        raise error
    return value


def one_row(args):
    """Runs the row that args.row says, and prints it."""
    import dask
    from dask_load import WORKLOADS
    from distributed import Client, LocalCluster
    variant, workload, over = args.row
    over = float(over)
    nbytes = int(over * WORKERS * args.limit)
    # Of a frame that is gone nothing is kept for the next, which a small worker has no room for.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    folder = tempfile.mkdtemp(prefix="ebb-dask-", dir=args.dir)
    box = Box(folder, args.limit, args.disk, 3 * nbytes + (1 << 30))
    config = {"distributed.worker.preload": ["pyebb.dask"] if variant == "ebb" else [],
              "distributed.admin.tick.limit": "1h", "pyebb.codec": args.codec,
              "distributed.comm.timeouts.connect": "120s",
              # A shuffle's own buffers, and the blocks that a rechunk makes, are made for workers
              # of gigabytes.
              "array.chunk-size": "8 MiB",
              "distributed.p2p.comm.buffer": "16 MiB", "distributed.p2p.storage.buffer": "16 MiB"}
    try:
        with dask.config.set(config), \
                LocalCluster(n_workers=WORKERS, threads_per_worker=1, memory_limit=args.limit,
                             local_directory=box.folder, dashboard_address=None) as cluster, \
                Client(cluster) as client:
            client.upload_file(os.path.join(HERE, "dask_load.py"))
            # What the workload imports is there before the clock runs.
            client.run(lambda: __import__("dask_load").noise().size)
            watch = Watch(cluster, box)
            watch.start()
            start = time.monotonic()
            error = ""
            try:
                right = bounded(lambda: WORKLOADS[workload](client, nbytes), args.patience)
            except Exception as e:      # a killed worker, say: that is a result, too
                right, error = False, f"{type(e).__name__}: {e}"[:200]
            seconds = time.monotonic() - start
            watch.ended.set()
            watch.join()
            try:
                written, read, to_ebb, ratio = figures(client)
            except Exception as e:
                written, read, to_ebb, ratio = 0, 0, 0, 0.0
                error = error or f"its workers say nothing: {type(e).__name__}: {e}"[:200]
            row = {"variant": variant, "workload": workload, "data_over_limit": over,
                   "seconds": round(seconds, 3), "spilled_bytes": written,
                   "peak_resident_bytes": watch.peak, "checksum_ok": bool(right),
                   "over_limit_seconds": round(watch.over, 2), "restarts": watch.restarts,
                   "read_bytes": read, "ebb_bytes": to_ebb, "ebb_ratio": round(ratio, 2),
                   "limit": args.limit, "limits": box.limits, "disk": box.disk,
                   "disk_asked": args.disk, "codec": args.codec, "run": args.run}
            if error:
                row["error"] = error
            print(json.dumps(row), flush=True)
    finally:
        box.close()
        shutil.rmtree(folder, ignore_errors=True)


KEY = ("variant", "workload", "data_over_limit", "limit", "disk", "codec", "run")


MEASURES = ("seconds", "spilled_bytes", "peak_resident_bytes", "over_limit_seconds", "read_bytes",
            "ebb_bytes", "ebb_ratio")


def rows_of(samples):
    """The rows that samples make."""
    groups = {}
    for s in samples:
        groups.setdefault(tuple(s[k] for k in KEY if k != "run"), []).append(s)
    rows = []
    for of in groups.values():
        ended = [s for s in of if "error" not in s]
        row = {k: v for k, v in of[0].items() if k not in (*MEASURES, "run", "error")}
        row |= {"runs": len(of), "ended": len(ended), "restarts": sum(s["restarts"] for s in of),
                "checksum_ok": all(s["checksum_ok"] for s in ended)}
        for name in MEASURES:
            values = [s[name] for s in ended]
            row[name] = statistics.median(values) if values else None
            row[name + "_range"] = [min(values), max(values)] if values else None
        rows.append(row)
    return rows


def save(path, sample):
    """Adds a sample to the file, in the place of one with the same key."""
    samples = [s for s in load(path) if any(s[k] != sample[k] for k in KEY)] + [sample]
    samples.sort(key=lambda s: [str(s[k])
                                for k in ("workload", "data_over_limit", "run", "variant")])
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)

    def lines(of):
        return "[\n" + ",\n".join(json.dumps(x) for x in of) + "\n]"
    with open(path + ".new", "w") as f:
        f.write(f'{{"machine": {json.dumps(MACHINE)},\n"rows": {lines(rows_of(samples))},\n'
                f'"samples": {lines(samples)}}}\n')
    os.rename(path + ".new", path)


def load(path):
    """The samples of a file; none if there is no such file."""
    try:
        with open(path) as f:
            return json.load(f)["samples"]
    except FileNotFoundError:
        return []


def disk_name(rate):
    """What a row has as "disk" if it was asked for so many bytes a second, and got them."""
    return f"{rate / 1e6:.0f} MB/s" if rate else "machine's"


def is_there(samples, key, codec, rate):
    """Whether a sample of the key was made with the codec and the disk.

    The machine may have refused the disk that was asked for, so both count: what there was, and
    what was asked for.
    """
    return any(all(r[k] == v for k, v in key.items()) and r["codec"] == codec
               and (r["disk"] == disk_name(rate) or r.get("disk_asked") == rate) for r in samples)


def table(rows):
    """Prints each pair of rows."""
    found = {}
    for r in rows:
        found.setdefault((r["workload"], r["data_over_limit"], r["limit"], r["disk"]), {}) \
            [r["variant"]] = r
    print(f"{'workload':<11}{'data':>5}{'limit':>6}  {'disk':<10}{'stock s':>8}{'Ebb s':>8}{'x':>6}"
          f"{'stock MB':>10}{'Ebb MB':>8}{'x':>6}  {'peak MB':>12}")
    for (workload, over, limit, disk), of in sorted(found.items()):
        def mid(variant, name):
            return of.get(variant, {}).get(name) or 0
        s, e = mid("stock", "seconds"), mid("ebb", "seconds")
        sb, eb = mid("stock", "spilled_bytes") / 1e6, mid("ebb", "spilled_bytes") / 1e6
        peaks = "/".join(f"{mid(v, 'peak_resident_bytes') / 1e6:.0f}" for v in VARIANTS)
        bad = "".join(f"  {v}: {r['ended']} of {r['runs']} ended, {r['restarts']} restarts"
                      f"{'' if r['checksum_ok'] else ', WRONG'}" for v, r in of.items()
                      if r["ended"] < r["runs"] or r["restarts"] or not r["checksum_ok"])
        print(f"{workload:<11}{over:>5g}{limit >> 20:>6}  {disk:<10}"
              f"{s:>8.1f}{e:>8.1f}{s / e if e else 0:>6.2f}"
              f"{sb:>10.0f}{eb:>8.0f}{eb / sb if sb else 0:>6.2f}  {peaks:>12}{bad}")


def plot(rows, folder):
    """Plots for each workload on each disk: seconds and bytes over the size of the data."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    os.makedirs(folder, exist_ok=True)
    columns = sorted({(r["workload"], r["disk"]) for r in rows})
    what = (("seconds", 1, "seconds"), ("spilled_bytes", 1e6, "MB written to disk"),
            ("peak_resident_bytes", 1e6, "MB, the most of a worker"))
    fig, axes = plt.subplots(len(what), len(columns), squeeze=False,
                             figsize=(3.2 * len(columns) + 1, 2.6 * len(what)))
    for column, (workload, disk) in enumerate(columns):
        for line, (name, unit, label) in enumerate(what):
            ax = axes[line][column]
            for variant, colour in (("stock", "#888888"), ("ebb", "#2a6fb0")):
                points = {}
                for r in rows:
                    if (r["workload"], r["disk"]) == (workload, disk) and r["variant"] == variant:
                        if r[name] is not None:
                            points[r["data_over_limit"]] = r[name] / unit
                x = sorted(points)
                ax.plot(x, [points[i] for i in x], "o-", color=colour, label=variant)
            ax.set_ylim(bottom=0)
            if not line:
                ax.set_title(f"{workload}, {disk}")
            if not column:
                ax.set_ylabel(label)
            if line == len(what) - 1:
                ax.set_xlabel("data / memory limit")
    axes[0][0].legend()
    fig.tight_layout()
    path = os.path.join(folder, "dask.svg")
    fig.savefig(path)
    print(path)


def chosen(only, row):
    """Whether the row has one of the values that --only gives for each of the names it has."""
    wanted = {}
    for item in only:
        name, sep, value = item.partition("=")
        if not sep or name not in row:
            raise SystemExit(f"dask_spill: --only {item}: expected NAME=VALUE, NAME one of "
                             + ", ".join(row))
        wanted.setdefault(name, []).append(value)
    return all(any(value in (str(row[name]), f"{row[name]:g}" if isinstance(row[name], float)
                             else "") for value in values) for name, values in wanted.items())


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--json", required=True)
    p.add_argument("--add", action="store_true", help="keep the rows that the file has; rows that "
                   "are there already are not run again")
    p.add_argument("--only", action="append", default=[], metavar="NAME=VALUE")
    p.add_argument("--runs", type=int, default=1, help="of each row, by turns")
    p.add_argument("--limit", type=int, default=768 << 20, help="bytes of memory of a worker; "
                   "with pandas 512 MiB at least")
    p.add_argument("--disk", type=int, default=250_000_000, help="bytes a second; 0: as it is")
    p.add_argument("--codec", default="lz4")
    p.add_argument("--patience", type=int, default=900, help="seconds that a row may take")
    p.add_argument("--dir", help="where the spill files go (default: where temporary files do)")
    p.add_argument("--smoke", action="store_true", help="one workload, tiny")
    p.add_argument("--plot", metavar="FOLDER", help="plot what the file has, and run nothing")
    p.add_argument("--row", nargs=3, help=argparse.SUPPRESS)
    p.add_argument("--run", type=int, default=0, help=argparse.SUPPRESS)
    args = p.parse_args()
    # What a row made goes away, too, if this is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if args.row:
        return one_row(args)
    if args.plot:
        return plot(rows_of(load(args.json)), args.plot)
    if args.smoke:
        args.only += ["workload=tokens", "data_over_limit=1.5"]
        args.limit, args.patience = 256 << 20, 300
    from dask_load import LEAST, WORKLOADS
    if not args.add and os.path.exists(args.json):
        os.remove(args.json)
    failed = 0
    for run in range(args.runs):
        for workload in WORKLOADS:
            for over in OVER:
                # The one that goes first changes, so that neither has always a warmer machine.
                for variant in VARIANTS if run % 2 == 0 else VARIANTS[::-1]:
                    key = {"variant": variant, "workload": workload, "data_over_limit": float(over),
                           "limit": max(args.limit, LEAST.get(workload, 0)), "run": run}
                    if not chosen(args.only, key):
                        continue
                    if args.add and is_there(load(args.json), key, args.codec, args.disk):
                        continue
                    failed += not run_row(args, key)
    table(rows_of(load(args.json)))
    return 1 if failed else 0


def run_row(args, key):
    command = [sys.executable, os.path.realpath(__file__), "--json", args.json, "--row",
               key["variant"], key["workload"], str(key["data_over_limit"]), "--run",
               str(key["run"]), "--limit", str(key["limit"]), "--disk", str(args.disk),
               "--codec", args.codec, "--patience", str(args.patience),
               *(["--dir", args.dir] if args.dir else [])]
    row = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        # It ends by itself after args.patience; to begin and to end takes time, too.
        out, err = row.communicate(timeout=args.patience + 300)
    except BaseException as e:
        row.terminate()
        out, err = row.communicate()
        if not isinstance(e, subprocess.TimeoutExpired):
            raise
        note(f"dask_spill: {key}: ended by force")
    for line in err.splitlines():
        if line.startswith("dask_spill"):
            note(line)
    try:
        row = json.loads(out.splitlines()[-1])
    except (IndexError, ValueError):
        note(f"dask_spill: {key}: no row\n{err[-3000:]}")
        return False
    save(args.json, row)
    note(f"{row['variant']:<6}{row['workload']:<11}{row['data_over_limit']:>4g} "
         f"{row['seconds']:>7.1f} s {row['spilled_bytes'] / 1e6:>7.0f} MB written, at most "
         f"{row['peak_resident_bytes'] / 1e6:.0f} MB"
         + ("" if row["checksum_ok"] else f"  WRONG {row.get('error', '')}")
         + (f"  {row['restarts']} restarts" if row["restarts"] else ""))
    # A row in which distributed itself gives up is a result; one that counts wrongly is none.
    return row["checksum_ok"] or (row["variant"] == "stock" and "error" in row)


if __name__ == "__main__":
    sys.exit(main())
