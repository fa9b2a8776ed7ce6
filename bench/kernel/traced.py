# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Where the instructions of a free go, by the functions of the kernel.

In the midst of a munmap of the experiment an emulator is made to log each instruction that the
guest executes, some millions of them. The share of a function, times the instructions of a slot in
that munmap, is what it costs. A function has with it what the compiler put into it.
"""
import bisect
import collections
import json
import os
import pathlib
import re
import socket
import tempfile
import time

import boots
from boots import harness

# Each round of a string instruction counts as one. Without these two the kernel's copies go by
# eight bytes and not by one.
CPU = ["-cpu", "max,-erms,-fsrm"]
MB = 256                # of a munmap that is long enough to be caught in its midst
INSTRUCTIONS = 3_000_000
LOGGING_S, ANSWER_S = 120, 60           # which take seconds, and less
LINE = 70               # bytes of a line of the log, about
# One instruction a block of translated code, as older and newer emulators call it.
ONE_BY_ONE = ["singlestep", "one-insn-per-tb"]
EXECUTED = re.compile(r"^Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/", re.M)
# Where the modules' functions are is known to the guest alone.
TELL_SYMBOLS = r"sed -n '/\[/s/^/symbol: /p' /proc/kallsyms"
# Swap frees the slots of a cluster together: first it looks at them all, there, and then so many
# instructions at least are others', of the clients.
FIRST, PAUSE = "swap_put_entries_cluster", 10_000
TOLD = re.compile(r"symbol: ([0-9a-f]+) [tTwW] (\S+)\s+\[")
USER_END = 1 << 47


class Monitor:
    """The emulator's monitor protocol, one command at a time."""

    def __init__(self, path):
        try:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(ANSWER_S)
            self.sock.connect(path)
            self.file = self.sock.makefile("rw")
            self.file.readline()
        except OSError as e:
            raise harness.Fail(f"the emulator cannot be talked to: {e}") from e
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        said = {}
        try:
            self.file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
            self.file.flush()
            while "return" not in said and "error" not in said:
                said = json.loads(self.file.readline())
        except (OSError, ValueError) as e:
            raise harness.Fail(f"the emulator does not answer {command}: {e}") from e
        if "error" in said:
            raise harness.Fail(f"the emulator: {said['error']['desc']}")
        return said["return"]

    def line(self, text):
        """What the monitor for people says to a line: nothing if it could do it."""
        return self.ask("human-monitor-command", **{"command-line": text}).strip()

    def log(self, on):
        """Each instruction is logged from now on, or none."""
        self.ask("stop")
        said = [self.line(f"{word} {'on' if on else 'off'}") for word in ONE_BY_ONE]
        if all(said):
            raise harness.Fail(f"the emulator knows none of {', '.join(ONE_BY_ONE)}")
        said = self.line("log exec,nochain" if on else "log none")
        if said:
            raise harness.Fail(f"the emulator does not log: {said}")
        self.ask("cont")

    def close(self):
        self.file.close()
        self.sock.close()


def symbols(kern):
    """(address, name) of the functions in the kernel's image. A build tree that several kernels
    share has those of the last that was built."""
    path = kern.home / "System.map"
    if not path.exists():
        path = kern.kdir / "System.map"
        if kern.kdir.is_symlink():
            raise harness.Fail(f"{kern.name}: no {kern.home}/System.map: take the folder away, and "
                               "it is built anew")
    lines = (line.split() for line in path.read_text().splitlines())
    return [(int(at, 16), name) for at, kind, name in lines if kind in "tTwW"]


def by_function(executed, known):
    """Instructions by function, of counts by address; those of programs are left out. Parts of a
    function that the compiler set aside are its own."""
    known = sorted(known)
    starts, out = [at for at, _ in known], collections.Counter()
    for at, n in executed.items():
        if at >= USER_END:
            name = known[max(0, bisect.bisect(starts, at) - 1)][1]
            out[re.sub(r"(\.(constprop|isra|part|cold)(\.\d+)*)+$", "", name)] += n
    return out


def clusters(log, known):
    """The part of a log, addresses in their order, which is of whole clusters: from where swap
    begins with the first to where it begins with the last. Empty without two such places."""
    begin = next((at for at, name in known if name == FIRST), None)
    if begin is None:
        return []
    end = min(at for at, _ in known if at > begin)
    starts, last = [], -PAUSE
    for i, at in enumerate(log):
        if begin <= at < end:
            if i - last > PAUSE:
                starts.append(i)
            last = i
    # Where the log begins a cluster may have begun before.
    starts = [i for i in starts if i > PAUSE]
    return log[starts[0]:starts[-1]] if starts else []


def logged(monitor, what, trace):
    """Logs for as long as it takes."""
    end = time.monotonic() + LOGGING_S
    monitor.log(True)
    while not os.path.exists(trace) or os.path.getsize(trace) < INSTRUCTIONS * LINE:
        if time.monotonic() > end:
            raise harness.Fail(f"{what}: no {INSTRUCTIONS} instructions in {LOGGING_S} s")
        time.sleep(0.02)
    monitor.log(False)
    monitor.close()


def instructions(kern, what, variant, ebb, command, log, **kw):
    """Instructions by function in the midst of the munmap that the command of the guest marks, and
    those of a slot in all of it."""
    known, slot = symbols(kern), []
    with tempfile.TemporaryDirectory(prefix="ebb-img-") as tmp:
        img, qmp, trace = pathlib.Path(tmp) / "initrd.cpio", f"{tmp}/qmp", f"{tmp}/trace"
        boots.image(kern, variant, ebb, ["munmap_bench"],
                    [*boots.SWAP, TELL_SYMBOLS, f"{command} || exit 1"], img)

        def on_line(line, pid):
            told = TOLD.match(line)
            if told:
                known.append((int(told[1], 16), told[2]))
            elif line.startswith("mark: start "):
                logged(Monitor(qmp), what, trace)
            elif line.startswith("bench: "):
                r = json.loads(line.partition(" ")[2])
                slot.append(r["wall_ms"] * 1e6 / r["slots"])

        boots.boot(kern, what, img, log, on_line=on_line, cpus=1, ns_per_instruction=1,
                   emulator=[*CPU, "-qmp", f"unix:{qmp},server=on,wait=off", "-D", trace], **kw)
        executed = [int(a, 16) for a in EXECUTED.findall(pathlib.Path(trace).read_text())]
    executed = clusters(executed, known)
    if not slot or len(executed) < INSTRUCTIONS // 2:
        raise harness.Fail(f"{what}: what was logged is not of the munmap (console in {log})")
    return by_function(collections.Counter(executed), known), slot[0]


def rows(found, a_slot, least=0.01, **key):
    """A row for each function that has that share at least, the others in one, and one of all."""
    total = sum(found.values())
    out = [(name, n) for name, n in found.most_common() if n >= total * least]
    out += [("others", total - sum(n for _, n in out)), ("all", total)]
    return [{"kind": "function", **key, "function": name, "share": round(n / total, 4),
             "instructions": round(a_slot * n / total, 1)} for name, n in out]


def finish(to, facts, rows_so_far, parts):
    """Writes the file of a bench, anew with each of the parts (name, rows of functions): what fails
    late costs nothing that is there. Prints them, too."""
    found = list(rows_so_far)

    def write():
        to.write_text(json.dumps({"machine": harness.machine(), **facts, "rows": found}, indent=1)
                      + "\n")

    write()
    for name, mine in parts:
        print(f"\n{name}, a free of uniform pages by function")
        for r in mine:
            print(f"  {100 * r['share']:5.1f} %  {r['instructions']:6.1f}  {r['function']}")
        found += mine
        write()
