# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the tests of nbdkit's plugin share: servers of a build's plugin, and clients of them."""
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import tap

DEBIANS = "/usr/bin/python3"
try:
    import nbd
except ImportError:
    # Debian's Python has what Debian's packages bring; another that is ahead in PATH has not.
    if os.path.exists(DEBIANS) and os.path.realpath(sys.executable) != os.path.realpath(DEBIANS):
        os.execv(DEBIANS, [DEBIANS, *sys.argv])
    nbd = None

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
BUILD = os.path.realpath(sys.argv[1])
FULL = "--full" in sys.argv
PLUGIN = os.path.join(BUILD, "nbdkit-ebb-plugin.so")
# /tmp is short enough for the name of a socket, which a build's folder may not be.
WORK = tempfile.mkdtemp(prefix="ebb-nbdkit-")
MIB = 1 << 20


def needs_asan(name):
    if not os.path.exists(name):
        return False
    with open(name, "rb") as f:
        return b"libasan.so" in f.read()


SANITIZED = needs_asan(PLUGIN)


def start(cases, others=()):
    """Runs the cases, and those that are not of nbdkit; the exit status of the program."""
    try:
        return tap.run([checked(c) for c in cases] + list(others))
    finally:
        shutil.rmtree(WORK, ignore_errors=True)


def missing():
    """What there must be for any case, and is not."""
    for name in ("nbdkit", "nbdinfo"):
        if not shutil.which(name):
            return f"no {name} here; `scripts/deps check` installs it, as root"
    if not nbd:
        return "this Python has no module nbd (Debian: python3-libnbd)"
    if not os.path.exists(PLUGIN):
        return "the plugin was not built: no nbdkit-plugin-dev or no libxxhash-dev here"
    return None


def checked(case):
    name, fn = case if isinstance(case, tuple) else (case.__name__, case)

    def run_it():
        why = missing()
        if why:
            raise tap.Skip(why)
        try:
            fn()
        except nbd.Error as error:
            raise AssertionError(f"an NBD call failed: {error}") from error
    return name, run_it


def path(name):
    return os.path.join(WORK, name)


def wants(*names):
    for name in names:
        if not shutil.which(name):
            raise tap.Skip(f"no {name} here")


def environment(argv):
    """With the sanitizer that the plugin was built with, which nbdkit itself was not."""
    env = dict(os.environ)
    if argv[0] == "nbdkit" and SANITIZED:
        lib = subprocess.run(["gcc", "-print-file-name=libasan.so"], stdout=subprocess.PIPE,
                             text=True, check=True).stdout.strip()
        env.update(LD_PRELOAD=lib, ASAN_OPTIONS="halt_on_error=1:detect_leaks=0",
                   UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")
    return env


def run(argv, rc=0, timeout=60, **more):
    """Its output, errors included.  rc None: any status."""
    p = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout,
                       env=environment(argv), check=False, **more)
    assert rc is None or p.returncode == rc, \
        f"{' '.join(argv)}: exit {p.returncode}, not {rc}: {p.stdout[-1500:]}"
    return p.stdout


def refused(*parameters):
    """What nbdkit says of parameters that it must not start with."""
    argv = ["nbdkit", "-f", "-U", path("refused"), PLUGIN, *parameters]
    try:
        out = run(argv, rc=1, timeout=5 if SANITIZED else 30)
    except subprocess.TimeoutExpired as e:
        # With a sanitizer nbdkit hangs in exit() once the C library has named an error, with its
        # own plugins, too: p11-kit's destructor waits for a lock.
        if not SANITIZED:
            raise
        out = (e.stdout or b"").decode()
    assert "nbdkit: error: " in out, out
    return out


def in_background(*parameters):
    """Starts nbdkit as a service is; its process and its socket."""
    pid, socket = path("background.pid"), path("background")
    for name in (pid, socket):
        if os.path.exists(name):
            os.unlink(name)
    run(["nbdkit", "-P", pid, "-U", socket, PLUGIN, *parameters])
    # Its parent does not wait until it serves.
    deadline = time.monotonic() + 30
    while not os.path.exists(pid) or not os.path.getsize(pid):
        assert time.monotonic() < deadline, "nbdkit wrote no pid"
        time.sleep(0.01)
    with open(pid, encoding="utf-8") as f:
        return int(f.read()), socket


class Server:
    """nbdkit with the plugin, in the foreground.  In a `with`, it is ended by SIGTERM."""
    number = 0

    def __init__(self, *parameters, options=(), wait=True, **env):
        """wait: until it serves; else ready() does.  env: what its environment has more."""
        Server.number += 1
        self.socket = path(f"socket{Server.number}")
        self.uri = f"nbd+unix:///?socket={self.socket}"
        self.log_name = path(f"log{Server.number}")
        self.pid_name = path(f"pid{Server.number}")
        with open(self.log_name, "w", encoding="utf-8") as log:
            argv = ["nbdkit", "-f", "-P", self.pid_name, "-U", self.socket, *options, PLUGIN,
                    *parameters]
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**environment(argv), **env})
        if wait:
            self.ready()

    def ready(self):
        deadline = time.monotonic() + 30
        while not os.path.exists(self.pid_name):
            assert self.process.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.01)

    def log(self):
        with open(self.log_name, encoding="utf-8") as f:
            return f.read()

    def client(self):
        h = nbd.NBD()
        h.connect_uri(self.uri)
        return h

    def rss(self):
        """Bytes of its own memory that are there."""
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as f:
            return next(int(line.split()[1]) << 10 for line in f if line.startswith("RssAnon"))

    def end(self, how=signal.SIGTERM):
        """Ends it; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            if os.path.exists(self.socket):
                os.unlink(self.socket)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            # nbdkit waits for its clients, which a case that failed may have left.
            self.end(signal.SIGKILL)
            return
        rc = self.end()
        assert rc == 0, f"nbdkit ended with {rc}: {self.log()[-1500:]}"


def content(rng, n):
    """Bytes of one kind or another: noise, text, zeros, one byte."""
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(n)
    if kind == 1:
        text = b'{"name":"compressed memory","gives":"back"},'
        at = rng.randrange(len(text))
        return (text * (n // len(text) + 2))[at:at + n]
    return bytes(n) if kind == 2 else bytes([rng.randrange(1, 256)]) * n


def seeded(name):
    return random.Random(os.environ.get("EBB_TEST_SEED", "1") + name)
