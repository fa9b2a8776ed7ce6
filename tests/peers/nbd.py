# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The tests that nbdkit and libnbd have of nbdkit's plugin memory, with Ebb's plugin in its place.

Both are built here from Debian's source packages, since no binary package has the tests.  Of their
tests those are taken that start a server with memory; the script nbdkit beside this file notices.
"""
import os
import re
import subprocess
import tarfile
from typing import NamedTuple

import tap
from test_python import ROOT, run

HERE = os.path.dirname(os.path.realpath(__file__))
WORK = os.path.join(ROOT, "build", "peers")
SUITE = "trixie"        # of Debian 13: nbdkit 1.42.3 and libnbd 1.22.2, of which the lists are
LANGUAGES = ("golang", "ocaml", "python", "rust")
BLOCK_OF_TESTS = re.compile(r"^TESTS \+?= \\\n((?:\t.*\\\n)*)", re.M)
WORD_OF_AUTOMAKE = re.compile(r"[a-z0-9A-Z_.-]+")


class Peer(NamedTuple):
    name: str
    folders: tuple          # that have tests
    configure: tuple
    not_of_ebb: dict        # name of a test: why it is no test of Ebb


NBDKIT = Peer("nbdkit", ("tests",), (
    *(f"--disable-{w}" for w in (*LANGUAGES, "perl", "ruby", "tcl", "lua", "vddk", "torrent",
                                 "linuxdisk")),
    *(f"--without-{w}" for w in ("libguestfs", "libvirt", "curl", "ssh", "iso"))), {
        "test-memory-allocator-malloc.sh": "it is of a parameter of memory, allocator=",
        "test-memory-allocator-malloc-mlock.sh": "it is of a parameter of memory, mlock",
        "test-memory-largest.sh": "it asks for 2^63 - 1 bytes, and a disk has 2^38 units at most",
        "test-memory-largest-for-qemu.sh": "it asks for 2^63 - 2^30 bytes",
        "test-nbdkit-backend-debug.sh": "it looks for the name memory in the log"})
LIBNBD = Peer("libnbd", ("tests", "copy", "info"),
              (*(f"--disable-{w}" for w in (*LANGUAGES, "fuse", "ublk")), "--without-gnutls"), {})


def plugin():
    """Ebb's, built as it is shipped."""
    build = os.path.join(WORK, "plugin")
    # Debian's runs on Debian's python3, whatever is ahead in PATH.
    meson = "/usr/bin/meson" if os.path.exists("/usr/bin/meson") else "meson"
    if not os.path.exists(os.path.join(build, "build.ninja")):
        run([meson, "setup", build, "-Dtests=disabled"])
    name = "nbdkit-ebb-plugin.so"
    if f"{name}:" not in run(["ninja", "-C", build, "-t", "targets", "all"]):
        raise tap.Skip("the plugin is not built here: no nbdkit-plugin-dev or no libxxhash-dev")
    run(["ninja", "-C", build, name])
    return os.path.join(build, name)


def built(peer):
    """The folder of a peer's source, which is built."""
    got = subprocess.run([os.path.join(ROOT, "tests/vm/debs"), SUITE, "source", peer.name],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if got.returncode:
        raise tap.Skip(f"the source of {peer.name} cannot be had here: {got.stderr.strip()}")
    name = next(w for w in got.stdout.splitlines() if re.search(r"\.orig\.tar\.[a-z0-9]+$", w))
    with tarfile.open(name) as tar:
        folder = os.path.join(WORK, tar.next().name.split("/")[0])
        if not os.path.isdir(folder):
            tar.extractall(WORK, filter="data")
    if os.path.exists(os.path.join(folder, "ebb-built")):
        return folder
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    run(["sh", "-c", 'cd "$0" && exec ./configure -q --disable-static "$@"', folder,
         *peer.configure])
    run(["make", "-s", jobs, "-C", folder], timeout=3600)
    for where in peer.folders:
        # Automake's way to build the programs of tests, and run none.
        run(["make", "-s", jobs, "-C", os.path.join(folder, where), "check", "TESTS="],
            timeout=3600)
    with open(os.path.join(folder, "ebb-built"), "w", encoding="utf-8"):
        pass
    return folder


def names_memory(folder, test):
    """Whether a script has the word in a line that is no comment, or a program as a string."""
    script = test.endswith(".sh")
    name = os.path.join(folder, test if script else test + ".c")
    if not os.path.exists(name):
        return False
    with open(name, encoding="utf-8") as f:
        text = f.read()
    if not script:
        return '"memory"' in text
    return any(re.search(r"\bmemory\b", line) for line in text.splitlines()
               if not line.lstrip().startswith("#"))


def tests_of(folder):
    """Those of a folder that its Makefile runs."""
    with open(os.path.join(folder, "Makefile.am"), encoding="utf-8") as f:
        blocks = BLOCK_OF_TESTS.findall(f.read())
    found = {w for b in blocks for w in WORD_OF_AUTOMAKE.findall(b.replace("$(NULL)", ""))}
    return sorted(t for t in found if names_memory(folder, t))


def one(top, where, test, env):
    """Its exit status, and whether it started a server with memory; its output is in a file."""
    folder = os.path.join(top, where)
    kind = "ebb" if env["EBB_PLUGIN"] else "stock"
    log = os.path.join(folder, f"{test}.{kind}.log")
    if os.path.exists(env["EBB_USES"]):
        os.unlink(env["EBB_USES"])
    runner = os.path.join(top, "run")
    argv = [*([runner] if os.path.exists(runner) else []), f"./{test}"]
    with open(log, "w", encoding="utf-8") as out:
        try:
            rc = subprocess.run(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out,
                                stderr=out, timeout=300, check=False).returncode
        except subprocess.TimeoutExpired:
            rc = 124
    return rc, os.path.exists(env["EBB_USES"])


def outcome(peer, ebb):
    """What passed and what failed, by their names; and the logs' ends of what failed."""
    nbdkit = built(NBDKIT)
    top = nbdkit if peer is NBDKIT else built(peer)
    # Debian's python3 has the module nbd, which some tests ask a python3 for.
    bin_ = os.path.join(WORK, "bin")
    os.makedirs(bin_, exist_ok=True)
    for name, target in (("python3", "/usr/bin/python3"), ("nbdkit", os.path.join(HERE, "nbdkit"))):
        if not os.path.islink(os.path.join(bin_, name)):
            os.symlink(target, os.path.join(bin_, name))
    env = dict(os.environ, PATH=bin_ + os.pathsep + os.environ["PATH"], srcdir=".",
               LIBNBD_DEBUG="1", EBB_NBDKIT=os.path.join(nbdkit, "nbdkit"),
               EBB_PLUGIN=plugin() if ebb else "", EBB_USES=os.path.join(WORK, "uses"))
    passed, failed, said = set(), set(), []
    for where in peer.folders:
        for test in tests_of(os.path.join(top, where)):
            name = f"{where}::{test}"
            rc, used = one(top, where, test, env)
            if not used or rc == 77:
                continue
            if rc == 0:
                passed.add(name)
            else:
                failed.add(name)
                log = os.path.join(top, where, f"{test}.{'ebb' if ebb else 'stock'}.log")
                with open(log, encoding="utf-8", errors="replace") as f:
                    said += [f"{name}: {rc}", *f.read().splitlines()[-12:]]
    return passed, failed, "\n".join(said)
