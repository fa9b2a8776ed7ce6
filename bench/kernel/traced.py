# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Where the instructions of a free go, by the functions of the kernel.

In the midst of a munmap of the experiment an emulator is made to log each instruction that the
guest executes, some millions of them. The share of a function, times the instructions of a slot
that were counted without a log, is what it costs. A function has with it what the compiler put into
it.
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

INSTRUCTIONS = 3_000_000
LOGGING_S = 120         # which takes seconds
LINE = 70               # bytes of a line of the log, about
# One instruction a block of translated code, as older and newer emulators call it.
ONE_BY_ONE = ["singlestep", "one-insn-per-tb"]
EXECUTED = re.compile(r"^Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/", re.M)
# Where the modules' functions are is known to the guest alone.
TELL_SYMBOLS = r"sed -n '/\[z/s/^/symbol: /p' /proc/kallsyms"
TOLD = re.compile(r"symbol: ([0-9a-f]+) [tTwW] (\S+)\s+\[")
USER_END = 1 << 47


class Monitor:
    """The emulator's monitor protocol, one command at a time."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.file = self.sock.makefile("rw")
        self.file.readline()
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        self.file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.file.flush()
        while True:
            said = json.loads(self.file.readline())
            if "return" in said:
                return said["return"]
            if "error" in said:
                raise harness.Fail(f"the emulator: {said['error']['desc']}")

    def line(self, text):
        """What the monitor for people says to a line: nothing if it could do it."""
        return self.ask("human-monitor-command", **{"command-line": text})

    def log(self, on):
        """Each instruction is logged from now on, or none."""
        self.ask("stop")
        said = [self.line(f"{word} {'on' if on else 'off'}") for word in ONE_BY_ONE]
        if all(said):
            raise harness.Fail(f"the emulator knows none of {', '.join(ONE_BY_ONE)}")
        self.line("log exec,nochain" if on else "log none")
        self.ask("cont")


def symbols(kern):
    """(address, name) of the functions in the kernel's image. A build tree that several kernels
    share has those of the last that was built."""
    path = kern.home / "System.map"
    if not path.exists():
        path = kern.kdir / "System.map"
        if kern.kdir.is_symlink():
            raise harness.Fail(f"{kern.name}: no {kern.home / 'System.map'}: take {kern.home} away, "
                               "and it is built anew")
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


def instructions(kern, what, variant, ebb, command, log, **kw):
    """Instructions by function in the midst of what the command of the guest marks."""
    known, clients = symbols(kern), []
    with tempfile.TemporaryDirectory(prefix="ebb-img-") as tmp:
        img, qmp, trace = pathlib.Path(tmp) / "initrd.cpio", f"{tmp}/qmp", f"{tmp}/trace"
        boots.image(kern, variant, ebb, ["munmap_bench"],
                    [*boots.SWAP, TELL_SYMBOLS, f"{command} || exit 1"], img)

        def on_line(line, pid):
            told = TOLD.match(line)
            if told:
                known.append((int(told[1], 16), told[2]))
            elif line.startswith("mark: start "):
                clients.append(Monitor(qmp))
                clients[0].log(True)
                end = time.monotonic() + LOGGING_S
                while os.path.getsize(trace) < INSTRUCTIONS * LINE:
                    if time.monotonic() > end:
                        raise harness.Fail(f"{what}: no {INSTRUCTIONS} instructions were logged "
                                           f"in {LOGGING_S} s (console in {log})")
                    time.sleep(0.02)
                clients[0].log(False)

        boots.boot(kern, what, img, log, on_line=on_line, cpus=1, ns_per_instruction=1, qmp=qmp,
                   trace=trace, **kw)
        executed = collections.Counter(int(a, 16) for a in
                                       EXECUTED.findall(pathlib.Path(trace).read_text()))
    found = by_function(executed, known)
    if not found:
        raise harness.Fail(f"{what}: the emulator logged no instruction (console in {log})")
    return found


def rows(found, a_slot, least=0.01, **key):
    """A row for each function that has that share at least, the others in one."""
    total = sum(found.values())
    out = [(name, n) for name, n in found.most_common() if n >= total * least]
    out.append(("others", total - sum(n for _, n in out)))
    return [{"kind": "function", **key, "function": name, "share": round(n / total, 4),
             "instructions": round(a_slot * n / total, 1)} for name, n in out]


def show(found):
    """Prints rows of one free."""
    for r in found:
        print(f"  {100 * r['share']:5.1f} %  {r['instructions']:6.1f}  {r['function']}")
