# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the benches of this folder have in common: a guest per variant, boots by turns, medians.

    SWAP, limit(...) what each guest's script begins with, and an option of its programs
    image(...)       the initramfs of a variant: its module, the programs, a script
    boot(...)        one boot; raises harness.Fail with the reason if anything went wrong in it
    measured(...)    the same, for what the guest's programs say of themselves
    turns(...)       the variants of a round; none is always the first after a pause
    Others           what else uses this machine
    merge(...)       the samples of one key to one row: medians and ranges
"""
import json
import pathlib
import re
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "vm"))
import harness  # noqa: E402


# A fault takes one page, and no process is refused memory that swap has room for.
SWAP = ["echo 0 >/proc/sys/vm/page-cluster", "echo 1 >/proc/sys/vm/overcommit_memory"]


def limit(variant):
    """A program's option, with a space before it, that makes Ebb's module this variant."""
    return " --release-limit 0" if variant == "sync" else ""


def image(kern, variant, ebb, programs, script, to):
    """`ebb` is the module's file if this variant is Ebb's, else None; the script ends with the first error."""
    img = harness.Initramfs(kern)
    img.zram(ebb or variant)
    for p in sorted(set(programs)):
        img.add(f"bin/{p}", harness.program(HERE / "guest" / f"{p}.c", arch=kern.arch), 0o755)
    lines = ["modprobe zram || exit 1"]
    if ebb:
        lines.append("[ -e /sys/block/zram0/release_limit ] || { echo 'error: this module has no release_limit'; exit 1; }")
    img.add("test", "\n".join(lines + script) + "\n", 0o755)
    img.add("init", harness.GUEST / "init", 0o755)
    img.write(to)


def boot(kern, what, img, log, **kw):
    """The console's lines. A guest that complained, failed or did not end is a failure of `what`."""
    res = harness.boot(kern, img, log=log, **kw)
    bad = harness.faults(res.lines)
    if bad or res.why or res.status:
        why = res.why or (bad and f"the kernel says: {bad[0]}") or \
            next((l for l in reversed(res.lines) if l.startswith("error:")), f"exit {res.status}")
        raise harness.Fail(f"{what}: {why} (console in {log})")
    return res.lines


def measured(kern, what, img, log, on=None, **kw):
    """What the guest's programs print as 'bench: {...}', with the share of this machine that others
    used meanwhile and, where the program made two marks before, the CPU time between them in ns
    (cpu_ns). on: a set of CPUs, where the guest is kept then, and of which the share is."""
    rows, clock, others = [], {}, Others(on)

    def on_line(line, pid):
        m = re.match(r"mark: (start|stop) ", line)
        if m:
            clock[m[1]] = harness.cpu_clock_ns(pid)
        m = re.match(r"bench: (\{.*\})$", line)
        if m or line.startswith("guest: start"):
            share = round(others.share(pid), 3)
        if m:
            rows.append(dict(json.loads(m[1]), others=share))
            if len(clock) == 2:
                rows[-1]["cpu_ns"] = clock["stop"] - clock["start"]
            clock.clear()

    boot(kern, what, img, log, on_line=on_line, on=on, **kw)
    return rows


def turns(variants, rnd):
    return variants[rnd % len(variants):] + variants[:rnd % len(variants)]


class Others:
    """The share of this machine's CPUs, or of a set of them, that others use, between one look and
    the next."""

    def __init__(self, cpus=None):
        self.lines = {f"cpu{n}" for n in cpus} if cpus else {"cpu"}
        self.last = None

    def busy(self):
        rows = [line.split()[1:9] for line in pathlib.Path("/proc/stat").read_text().splitlines()
                if line.split(" ", 1)[0] in self.lines]
        n = [sum(map(int, column)) for column in zip(*rows)]
        return sum(n) - n[3] - n[4], sum(n)

    @staticmethod
    def session(sid):
        """Ticks of all processes of a session, waited-for children included."""
        total = 0
        for f in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                field = f.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if field[3] == str(sid):
                total += sum(int(x) for x in field[11:15])
        return total

    def share(self, sid):
        now = (*self.busy(), self.session(sid))
        last, self.last = self.last, now
        if not last or now[1] == last[1]:
            return 0.0
        return max(0.0, ((now[0] - last[0]) - (now[2] - last[2])) / (now[1] - last[1]))


def merge(rows, key, measures, disturbed):
    """One row per key: the median of every measure, and its range, of the samples that were quiet, if half were."""
    groups = {}
    for r in rows:
        groups.setdefault(tuple(r.get(k) for k in key), []).append(r)
    out = []
    for values, rs in groups.items():
        row = {k: v for k, v in zip(key, values) if v is not None}
        dropped = set()
        for m in measures:
            have = [r for r in rs if m in r]
            quiet = [r for r in have if r["others"] <= disturbed]
            if quiet and len(quiet) * 2 >= len(have):
                dropped |= {id(r) for r in have} - {id(r) for r in quiet}
                have = quiet
            elif have:
                row["noisy"] = True
            v = [r[m] for r in have]
            if v:
                row[m] = round(statistics.median(v), 4)
                row[m + "_range"] = [round(min(v), 4), round(max(v), 4)]
        row["samples"], row["dropped"] = len(rs), len(dropped)
        row["others"] = round(statistics.median(r["others"] for r in rs), 3)
        out.append(row)
    return out


def grid(lines):
    """Prints rows of cells in columns, the first ones to the left."""
    width = [max(len(r[i]) for r in lines) for i in range(len(lines[0]))]
    for r in lines:
        print("  ".join(x.ljust(w) for x, w in zip(r, width)).rstrip())
