# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Boots a real kernel with chosen modules, tools and a script, and says what came of it.

    kernel(name)             a built or fetched kernel (tests/vm/kernels, tests/vm/stock)
    Initramfs(kernel)        the guest's files: busybox, modules, tools, programs
    boot(kernel, image, ...) runs it under a time limit, line by line
    faults(lines)            what the kernel complained about
    kcsan(lines)             what KCSAN did, and whom else it reported
    machine()                what this machine is, for a bench's JSON

A user-mode kernel is an ordinary process. Its memory is a file in TMPDIR; where this
user may, that is a tmpfs of its own with huge pages, in a mount namespace of its own,
so that nothing is left behind on the machine. Skip stands for "cannot be had here".
"""
import collections
import contextlib
import ctypes
import dataclasses
import functools
import hashlib
import lzma
import os
import pathlib
import platform
import re
import select
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
GUEST = HERE / "guest"
CACHE = pathlib.Path(
    os.environ.get("EBB_CACHE") or
    pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ebb")

# Modules a guest may want, as far as the kernel has them; what they depend on follows.
MODULES = ("zram zsmalloc ext4 loop lzo_compress lzo_decompress lz4_compress lz4hc_compress "
           "lz4_decompress zstd_compress zstd_decompress deflate 842_compress 842_decompress "
           "null_blk brd nbd dm_mod dm_flakey dm_delay dm_crypt xts virtio_blk").split()


ME = os.getpid()


class Skip(Exception):
    """Cannot be had on this machine; the text says why."""


class Fail(Exception):
    """Something that should work did not; the text says what."""


# Told to end, clean up on the way out: the guest, its folder.
signal.signal(signal.SIGTERM, lambda *_: os._exit(143) if os.getpid() != ME else sys.exit(143))


def call(*argv, **kw):
    """Runs a helper that prints a result; its exit code 77 is a Skip."""
    p = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, **kw)
    why = (p.stderr.strip().splitlines() or ["no reason given"])[-1]
    if p.returncode == 77:
        raise Skip(why)
    if p.returncode:
        raise Fail(f"{pathlib.Path(str(argv[0])).name}: {why}")
    return p.stdout.strip()


class Machine(NamedTuple):
    """What guests of one architecture are made with and run on."""
    triplet: str             # of Debian's compiler, binutils and library folders
    loader: str              # of programs that are not static, in the guest
    cc: str                  # makes the guest's programs
    emulator: list           # and its options
    console: str
    packages: str            # that bring the compiler and the emulator


# -cx16: the cmpxchg16b of QEMU 7.2 breaks the slab of 6.12. Pointer authentication as the
# architecture has it costs an emulator more than the rest of a system call.
MACHINES = {
    "amd64": Machine("x86_64-linux-gnu", "lib64/ld-linux-x86-64.so.2", os.environ.get("CC", "gcc"),
                     ["qemu-system-x86_64", "-cpu", "max,-cx16"], "ttyS0", "qemu-system-x86"),
    "arm64": Machine("aarch64-linux-gnu", "lib/ld-linux-aarch64.so.1", "aarch64-linux-gnu-gcc",
                     ["qemu-system-aarch64", "-machine", "virt,gic-version=3",
                      "-cpu", "max,pauth-impdef=on"],
                     "ttyAMA0", "qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
}


def from_source(name):
    """Whether tests/vm/kernels builds it; the others are Debian's own."""
    return name.startswith(("uml-", "counted", "kcsan")) or name == "irqsoff"


@dataclasses.dataclass
class Kernel:
    name: str
    uml: bool
    arch: str                # of Debian, a key of MACHINES
    image: pathlib.Path      # the program, or the image for the emulator
    release: str
    modules: pathlib.Path    # .../lib/modules/RELEASE
    kdir: pathlib.Path       # to build an out-of-tree module against
    home: pathlib.Path       # holds the in-tree variants (user-mode kernels)


def kernel(name):
    uml, arch = name.startswith("uml-"), "arm64" if "-arm64" in name else "amd64"
    machine = MACHINES[arch]
    for tool in (machine.emulator[0], machine.cc):
        if not uml and not shutil.which(tool):
            raise Skip(f"needs {tool} (Debian: apt-get install {machine.packages})")
    if from_source(name):
        home = pathlib.Path(call(HERE / "kernels", "build", name))
        release = (home / "release").read_text().strip()
        return Kernel(name, uml, arch, home / "linux", release, home / "lib/modules" / release,
                      home / "build", home)
    if name.startswith("stock-"):
        home = pathlib.Path(call(HERE / "stock", "get", name))
        release = (home / "release").read_text().strip()
        return Kernel(name, False, arch, home / f"boot/vmlinuz-{release}", release,
                      modules_of(home, release), home / f"usr/src/linux-headers-{release}", home)
    raise Fail(f"no kernel '{name}' (user-mode: uml-smp uml-up uml-debug; "
               "emulated: kcsan kcsan-series irqsoff counted counted-*; "
               "Debian's: stock-6.12 stock-7.3, or either with -rt, -arm64, -arm64-16k, -arm64-rt)")


def modules_of(home, release):
    for top in ("usr/lib/modules", "lib/modules"):
        if (home / top / release / "kernel").is_dir():
            return home / top / release
    raise Fail(f"{home}: no modules of {release}")


# ---------------------------------------------------------------- guest files

def toolbox(arch, suite):
    return pathlib.Path(call(HERE / "toolbox", arch, *([suite] if suite else [])))


def needed(path):
    out = subprocess.run(["objdump", "-p", path], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True).stdout
    return re.findall(r"^\s+NEEDED\s+(\S+)", out, re.M)


def test_module(kern, name):
    """Builds the module of the folder NAME beside this file, with copies of core/ and kernel/ beside it
    as scripts/module makes them; its path."""
    top = HERE.parent.parent
    where = top / "build/module" / f"{kern.name}-{name}"
    where.mkdir(parents=True, exist_ok=True)
    call("cp", "-rpu", top / "core", top / "kernel", HERE / name, where)
    kind = "kernels" if from_source(kern.name) else "stock"
    call(HERE / kind, "module", kern.name, where / name)
    return where / name / f"{name}.ko"


def selftest(names):
    """Files of the kernel's tools/testing/selftests."""
    return [pathlib.Path(p) for p in call(HERE / "kernels", "files", "uml-smp",
                                          *(f"tools/testing/selftests/{n}" for n in names)).splitlines()]


def program(source, *more, arch="amd64", flags=None):
    """Compiles a static program of the guest, once per content, compiler and flags. It is
    named after its first source; words with a dash are its libraries; flags are for what others
    wrote."""
    libs = [s for s in more if str(s).startswith("-")]
    sources = [pathlib.Path(s) for s in (source, *more) if s not in libs]
    cc = MACHINES[arch].cc
    flags = ["-O2", "-g0", "-static", *(flags or [
        "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-pthread", f"-I{GUEST}"])]
    headers = sorted({*sources[0].parent.glob("*.h"), *GUEST.glob("*.h")})
    text = b"".join(f.read_bytes() for f in sources + headers)
    key = hashlib.sha256(text + " ".join([cc, *flags, *libs]).encode()).hexdigest()[:12]
    out = CACHE / "programs" / f"{sources[0].stem}-{key}"
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        tmp = out.with_suffix(f".{os.getpid()}")
        call(cc, *flags, "-o", tmp, *sources, *libs)
        tmp.rename(out)
    return out


PYTHON = "python3.11"   # bookworm's


class Initramfs:
    """An archive in cpio's newc form, made without leaving the user's rights."""

    def __init__(self, kern, suite=""):
        self.kernel = kern
        self.suite = suite       # of Debian, for the tools; "": the usual one
        self.machine = MACHINES[kern.arch]
        self.files = {}          # guest path -> (mode, bytes)
        self.tools = set()
        self.extra = {}          # path below the module folder -> file
        for d in "dev proc sys tmp bin sbin lib usr etc run mnt".split():
            self.dir(d)
        # The console must exist before anything is mounted.
        self.files["dev/console"] = (stat.S_IFCHR | 0o600, b"", (5, 1))
        self.files["dev/null"] = (stat.S_IFCHR | 0o666, b"", (1, 3))

    def dir(self, path):
        parts = path.strip("/").split("/")
        for i in range(1, len(parts) + 1):
            self.files.setdefault("/".join(parts[:i]), (stat.S_IFDIR | 0o755, b"", None))

    def add(self, path, data, mode=0o644):
        path = path.strip("/")
        if "/" in path:
            self.dir(path.rsplit("/", 1)[0])
        if isinstance(data, pathlib.Path):
            data = data.read_bytes()
        elif isinstance(data, str):
            data = data.encode()
        self.files[path] = (stat.S_IFREG | mode, data, None)

    def link(self, path, to):
        self.files[path.strip("/")] = (stat.S_IFLNK | 0o777, to.encode(), None)

    def tool(self, name):
        """A real tool with the libraries it names, from Debian's packages."""
        box = toolbox(self.kernel.arch, self.suite)
        for d in ("usr/sbin", "usr/bin", "sbin", "bin", "usr/lib/systemd/system-generators"):
            if (box / d / name).exists():
                break
        else:
            raise Fail(f"no tool '{name}' in {box}")
        # Found before busybox's own of the same name.
        self.add(f"usr/local/bin/{name}", (box / d / name).resolve(), 0o755)
        self._libs(box, box / d / name)

    def built(self, names):
        """Files of a build of this machine, for its architecture, with the libraries they name."""
        top = HERE.parent.parent / "build"
        for name in names:
            found = [d / name for d in (top / "check/gcc", top) if (d / name).exists()]
            if not found:
                raise Skip(f"there is no {name} in build/check/gcc or build")
            self.tools.add(name)
            self.add(f"usr/lib/{name}", found[0].resolve(), 0o755)
        for name in names:
            data = self.files[f"usr/lib/{name}"][1]
            with tempfile.NamedTemporaryFile(suffix=name) as f:
                f.write(data)
                f.flush()
                self._libs(toolbox(self.kernel.arch, self.suite), pathlib.Path(f.name))

    def python(self, files):
        """Debian's python3, and files of the tree in /ebb that it runs, with what this needs."""
        debs, suite = HERE / "debs", "bookworm" if self.kernel.arch == "amd64" else f"bookworm/{self.kernel.arch}"
        box = CACHE / "tools" / f"{PYTHON}-{self.kernel.arch}"
        if not (box / "complete").exists():
            # With the libraries of what is imported; those of databases and the like stay away.
            want = [p for p in call(debs, suite, "closure", PYTHON).split()
                    if re.match(rf"(lib)?{PYTHON}|libc6|zlib1g|libexpat1|libffi8|liblzma5|libbz2|libssl3|libcrypt1", p)]
            call(debs, suite, "unpack", box, *want)
            (box / "complete").touch()
        for f in sorted(box.rglob("*")):
            at = f.relative_to(box)
            if at.parts[:2] != ("usr", "share") and f.is_symlink():
                self.link(str(at), str(f.readlink()))
            elif at.parts[:2] != ("usr", "share") and f.is_file():
                self.add(str(at), f, f.stat().st_mode & 0o777)
        self.link("usr/local/bin/python3", f"/usr/bin/{PYTHON}")
        self.link("usr/bin/env", "/bin/busybox")
        for f in [*files, "tests/vm/harness.py", "scripts/commit"]:
            self.add(f"ebb/{f}", HERE.parent.parent / f, 0o755)

    def _libs(self, box, path):
        loader, todo = self.machine.loader, needed(path)
        self.add(loader, next(box.rglob(loader.rsplit("/", 1)[-1])).resolve(), 0o755)
        while todo:
            lib = todo.pop()
            if lib in self.tools or loader.endswith("/" + lib):
                continue
            self.tools.add(lib)
            found = next((p for p in sorted(box.rglob(lib)) if p.exists()), None)
            if not found:
                raise Fail(f"{path.name}: no library '{lib}' in {box}")
            self.add(f"usr/lib/{self.machine.triplet}/{lib}", found.resolve(), 0o755)
            todo += needed(found)

    def zram(self, variant):
        """base, patched, floor (in-tree), none, or the path of a module file, whatever its name:
        that one is zram.ko under updates/, where DKMS puts it and modprobe looks first."""
        if variant in ("base", "none"):
            return
        if variant in ("patched", "floor"):
            if not (self.kernel.home / variant / "zram.ko").exists():
                raise Fail(f"there is no variant '{variant}' of the kernel {self.kernel.name}")
            self.extra["kernel/drivers/block/zram/zram.ko"] = self.kernel.home / variant / "zram.ko"
            self.extra["kernel/mm/zsmalloc.ko"] = self.kernel.home / variant / "zsmalloc.ko"
            return
        path = pathlib.Path(variant)
        if path.suffix != ".ko" or not path.is_file():
            raise Fail(f"'{variant}' is no module file (nor base, patched, floor, none)")
        self.extra["updates/zram.ko"] = path

    def module(self, path):
        self.extra[f"updates/{pathlib.Path(path).name}"] = pathlib.Path(path)

    def _modules(self):
        """The chosen modules, uncompressed, with the index depmod makes of just these."""
        k = self.kernel
        with tempfile.TemporaryDirectory(prefix="ebb-mod-") as tmp:
            top = pathlib.Path(tmp) / "lib/modules" / k.release
            names = {}
            for line in (k.modules / "modules.dep").read_text().splitlines():
                path, deps = line.split(":", 1)
                name = re.sub(r"\.ko(\.\w+)?$", "", path.rsplit("/", 1)[-1])
                names[name.replace("-", "_")] = (path, deps.split())
            want = [names[n] for n in MODULES if n in names]
            for path, deps in want:
                for p in [path] + deps:
                    plain = re.sub(r"\.(xz|zst|gz)$", "", p)
                    dest = top / plain
                    dest.parent.mkdir(parents=True, exist_ok=True)
                    data = (k.modules / p).read_bytes()
                    dest.write_bytes(lzma.decompress(data) if p.endswith(".xz") else data)
            for rel, src in self.extra.items():
                (top / rel).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(src, top / rel)
            top.mkdir(parents=True, exist_ok=True)
            for f in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
                if (k.modules / f).exists():
                    shutil.copy(k.modules / f, top)
            env = dict(os.environ, PATH=os.environ["PATH"] + ":/sbin:/usr/sbin")
            call("depmod", "-b", tmp, k.release, env=env)
            for f in sorted(top.rglob("*")):
                if f.is_file():
                    self.add(f"lib/modules/{k.release}/{f.relative_to(top)}", f)

    def write(self, to):
        self._modules()
        box = toolbox(self.kernel.arch, self.suite)
        busybox = next(p for p in (box / "bin/busybox", box / "usr/bin/busybox") if p.exists())
        self.add("bin/busybox", busybox.resolve(), 0o755)
        # Not busybox's own shell: that one prefers busybox's tools to the real ones.
        self.tool("dash")
        self.link("bin/sh", "/usr/local/bin/dash")
        out = bytearray()

        def entry(name, mode, data, dev):
            major, minor = dev or (0, 0)
            head = (entry.n, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name) + 1, 0)
            entry.n += 1
            out.extend(b"070701" + b"".join(b"%08x" % v for v in head) + name.encode() + b"\0")
            out.extend(b"\0" * (-len(out) % 4))
            out.extend(data)
            out.extend(b"\0" * (-len(out) % 4))

        entry.n = 1
        for name in sorted(self.files):
            entry(name, *self.files[name])
        entry("TRAILER!!!", 0, b"", None)
        pathlib.Path(to).write_bytes(out)


# ---------------------------------------------------------------- booting

@dataclasses.dataclass
class Result:
    lines: list
    status: int              # of the guest's script; None if it never ended
    why: str                 # '' or what went wrong with the boot as such
    seconds: float


def private_tmpfs(size):
    """(wrapper argv, TMPDIR) for a tmpfs with huge pages that ends with its process."""
    if os.geteuid() == 0 and shutil.which("unshare"):
        script = ('d=$1; shift; '
                  'mount -t tmpfs -o huge=always,size=$SIZE ebb-uml "$d" 2>/dev/null || '
                  'mount -t tmpfs -o size=$SIZE ebb-uml "$d" || exit 70; '
                  'export TMPDIR="$d"; exec "$@"')
        probe = subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL)
        if probe.returncode == 0:
            return ["unshare", "-m", "--propagation", "private", "sh", "-c",
                    script.replace("$SIZE", size), "sh"], None
    return [], "/dev/shm"


# Only our code is watched (config/kcsan), so it can be watched closely: one of up to skip_watch
# accesses, each for up to so many us. Interrupts stay on, so that what runs in between is seen too.
KCSAN_ARGS = ["kcsan.skip_watch=100", "kcsan.udelay_task=80", "kcsan.udelay_interrupt=20"]


def mib(size):
    return int(size[:-1]) * {"M": 1, "G": 1024}[size[-1]]


def nodes_of(mem, cpus, numa):
    """QEMU's options for `numa` nodes of the same size; their CPUs are spread over them, so that
    some nodes have memory only where there are fewer CPUs than nodes."""
    args, each = [], mib(mem) // numa
    for n in range(numa):
        size = each if n < numa - 1 else mib(mem) - each * n
        args += ["-object", f"memory-backend-ram,id=node{n},size={size}M",
                 "-numa", f"node,nodeid={n},memdev=node{n}"]
    for c in range(cpus):
        args[2 * 2 * (c * numa // cpus) + 3] += f",cpus={c}"
    return args


def disks_of(sizes, work):
    """QEMU's options for empty disks, files in the folder `work`; the guest needs virtio_blk."""
    args = []
    for i, size in enumerate(sizes):
        path = work / f"disk{i}"
        with open(path, "wb") as f:
            f.truncate(mib(size) << 20)
        args += ["-drive", f"file={path},if=none,format=raw,cache=unsafe,id=disk{i}",
                 "-device", f"virtio-blk-pci,drive=disk{i}"]
    return args


def ubds_of(sizes, work):
    """The same for a user-mode kernel, with the driver of its architecture built in."""
    args = disks_of(sizes, work)    # makes the files
    return [f"ubd{i}={work / f'disk{i}'}" for i in range(len(args) // 4)]


# What a host process has by default is 65,530, which a guest of 4 GiB was seen to use up: pages
# that do not lie side by side in the guest's memory are a mapping each of the process that has
# them.
MAP_COUNT, MAPS = pathlib.Path("/proc/sys/vm/max_map_count"), 1 << 20
MAPS_GONE = "UML ran out of memory on the host side"


def let_map():
    """As root, lets processes of user-mode guests have as many mappings as they may need."""
    if int(MAP_COUNT.read_text()) < MAPS:
        with contextlib.suppress(OSError):
            MAP_COUNT.write_text(str(MAPS))


def command(kern, initrd, mem, cpus, append, work, numa, disks, ns_per_instruction=0,
            emulator=()):
    if kern.uml:
        let_map()
        wrap, tmpdir = private_tmpfs(mem)
        env = dict(os.environ)
        if wrap:
            (work / "mem").mkdir()
            wrap.append(str(work / "mem"))
        else:
            env["TMPDIR"] = tmpdir
        argv = wrap + [str(kern.image), f"mem={mem}", f"initrd={initrd}", f"uml_dir={work}",
                       "seccomp=on", f"ncpus={cpus}", "con=null", "con0=null,fd:1", "loglevel=5",
                       "panic=-1", *ubds_of(disks, work), *append]
        return argv, env
    if kern.name.startswith("kcsan"):
        append = KCSAN_ARGS + append
    machine = MACHINES[kern.arch]
    # A socket for each CPU: none may lie in two nodes.
    accel = ["-accel", "tcg,thread=multi"]
    if ns_per_instruction:
        # A clock that instructions drive, and that no load of this machine moves.
        accel = ["-accel", "tcg,thread=single",
                 "-icount", f"shift={ns_per_instruction.bit_length() - 1},sleep=off"]
    return [*machine.emulator, *accel, *emulator, "-m", mem,
            "-smp", f"{cpus},sockets={cpus}",
            *(nodes_of(mem, cpus, numa) if numa > 1 else []), *disks_of(disks, work),
            "-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio",
            "-kernel", str(kern.image), "-initrd", str(initrd), "-append",
            " ".join([f"console={machine.console}", "loglevel=5", "panic=-1", "mitigations=off",
                      *append])], dict(os.environ)


def cpu_clock_ns(pid):
    """CPU time that a process has had, all threads, in ns; exact while it sleeps."""
    return time.clock_gettime_ns((~pid << 3) | 2)


@functools.cache
def machine():
    """What a bench says of this machine, and of its run, beside its figures; the same all along."""
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    top = HERE.parents[1]
    commit = subprocess.run([top / "scripts/commit"], stdout=subprocess.PIPE, text=True, check=False)
    command = shlex.join([os.path.relpath(os.path.abspath(sys.argv[0]), top), *sys.argv[1:]])
    return {"cpu": cpu[1] if cpu else platform.processor(), "cpus": os.cpu_count(),
            "host_kernel": platform.release(), "load_at_start": os.getloadavg()[0],
            "commit": commit.stdout.strip(), "command": command.replace(f"{top}/", ""),
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


GUESTS = set()          # process groups of those that run


def end_guests():
    """For who boots in threads and stops early: each boot() then cleans up and returns."""
    for pgid in list(GUESTS):
        try:
            os.killpg(pgid, signal.SIGKILL)
        except ProcessLookupError:
            pass


LIBC = ctypes.CDLL(None)        # loaded before any thread forks


def die_with_parent():
    LIBC.prctl(1, signal.SIGKILL)


def boot(kern, initrd, mem="2G", cpus=2, timeout=120, append=(), on_line=None, log=None, numa=1,
         disks=(), ns_per_instruction=0, emulator=(), on=None):
    """Runs until the guest ends or the time is up. on_line(text, pid) sees each line of
    the console as it comes; the guest waits a while after a marker, so that the process
    clock can be read while it is idle. With ns_per_instruction, a power of two, the clock of an
    emulated guest counts its instructions: for one CPU, since those of others take turns.
    emulator: words for it that come after others of their kind, and count in their place.
    on: the set of this machine's CPUs that it may use, all if None."""
    def before():
        die_with_parent()
        if on:
            os.sched_setaffinity(0, on)

    work = pathlib.Path(tempfile.mkdtemp(prefix="ebb-vm-"))
    argv, env = command(kern, initrd, mem, cpus, list(append), work, numa, disks,
                        ns_per_instruction, emulator)
    start, lines, buf, why, status = time.monotonic(), [], b"", "", None
    proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env=env, start_new_session=True,
                            preexec_fn=before)
    GUESTS.add(proc.pid)
    sink = open(log, "w", buffering=1) if log else None
    try:
        fd = proc.stdout.fileno()
        while not why:
            left = start + timeout - time.monotonic()
            if left <= 0:
                why = f"no end within {timeout} s"
                break
            ready, _, _ = select.select([fd], [], [], left)
            if not ready:
                continue
            data = os.read(fd, 65536)
            if not data:
                break
            buf += data
            while b"\n" in buf:
                raw, buf = buf.split(b"\n", 1)
                line = raw.decode(errors="replace").rstrip("\r")
                lines.append(line)
                if sink:
                    sink.write(line + "\n")
                if MAPS_GONE in line:
                    why = (f"a process of the guest has no mapping left: {MAP_COUNT} is "
                           f"{MAP_COUNT.read_text().strip()}, and is to be {MAPS}")
                m = re.match(r"guest: exit (\d+)$", line)
                if m:
                    status = int(m[1])
                if on_line:
                    on_line(line, proc.pid)
    finally:
        try:
            os.killpg(proc.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        GUESTS.discard(proc.pid)
        proc.wait()
        if sink:
            sink.close()
        shutil.rmtree(work, ignore_errors=True)
    if status is None and not why:
        why = "the guest ended without a result"
    return Result(lines, status, why, time.monotonic() - start)


FAULT = re.compile(
    r"WARNING: |BUG: |Kernel panic|Oops|general protection|KASAN|UBSAN|possible recursive locking|"
    r"circular locking|inconsistent lock state|INFO: suspicious RCU|suspicious RCU usage|"
    r"INFO: task .* blocked|"
    r"rcu: INFO: |detected stall|bad unlock balance|held lock freed|list_(add|del) corruption|"
    r"sleeping function called|scheduling while atomic|Bad page|bad page|kmemleak: \d+ new|"
    r"kernel BUG|Segfault with no mm|unreferenced object|ODEBUG|INFO: trying to register|"
    r"INFO: HARDIRQ|irq lock inversion|refcount_t: |slab .* error|double free|soft lockup")


# Around a report of KCSAN, or KASAN.
RULE = "=" * 66
OURS = re.compile(r"\[(zram|zsmalloc)\]")


# Data races of zsmalloc in Linux 7.3 itself, as kcsan-series-0 shows: the shrinker adds up the
# classes' counts without their locks, and a reader of an object reads the fields beside `fullness`
# in a word of bit fields, while the class lock alone protects that.
LINUX = (r"(?:\S+ / zs_shrinker_count|zs_shrinker_count / \S+|"
         r"(?:fix_fullness_group|putback_zspage) / (?:zs_obj_\w+|zs_page_migrate)|"
         r"(?:zs_obj_\w+|zs_page_migrate) / (?:fix_fullness_group|putback_zspage))$")


def ours(kern):
    """What a report of KCSAN has in it if it is of our code. kcsan-series watches zsmalloc alone."""
    if not kern.name.startswith("kcsan-series"):
        return OURS
    return re.compile(rf"BUG: KCSAN: (?!(?:data-race in )?{LINUX})")


def races(lines):
    """(the reports of KCSAN, a list of lines each; the lines that are in none). The guest's
    own lines may be among those of a report, at worst in the middle of one."""
    found, rest, report = [], [], None
    for l in lines:
        if report is None:
            if RULE in l:
                report = [l]
            else:
                rest.append(l)
            continue
        report.append(l)
        if RULE in l:
            if any("BUG: KCSAN: " in r for r in report):
                found.append(report)
            else:
                rest += report
            report = None
    if report and any("BUG: KCSAN: " in r for r in report):
        found.append(report)    # the guest did not come to its end
    else:
        rest += report or []
    return found, rest


def title(report):
    return next(l[l.index("KCSAN: "):] for l in report if "BUG: KCSAN: " in l)


def kcsan(lines, ours=OURS):
    """What KCSAN did, as notes: its counters, and its reports that no stack of ours is in."""
    notes = [l[len("guest: "):] for l in lines if l.startswith("guest: kcsan ")]
    others = collections.Counter(title(r) for r in races(lines)[0] if not any(map(ours.search, r)))
    if others:
        notes.append(f"{others.total()} reports of KCSAN are of other code, "
                     f"{len(others)} kinds: {', '.join(others)}")
    return notes


def faults(lines, ours=OURS):
    """What the kernel complained about since the first process, a line each. What an
    SMP user-mode kernel with lockdep says as it brings up its CPUs is its own affair, and so
    is a data race with which the module has nothing to do."""
    begin = next((i for i, l in enumerate(lines) if l.startswith("guest: start")), 0)
    reports, lines = races(lines[begin:])
    found = [f"{t}, {n} times" for t, n in collections.Counter(
        title(r) for r in reports if any(map(ours.search, r))).items()]
    # Another CPU may complain in the middle of a report.
    lines += [l for r in reports for l in r if "BUG: KCSAN: " not in l]
    found += [l for l in lines if FAULT.search(l)]
    for l in lines:
        # Bad page (5), died (7), warned (9), soft lockup (14).
        m = re.match(r"guest: tainted (\d+)$", l)
        if m and int(m[1]) & (1 << 5 | 1 << 7 | 1 << 9 | 1 << 14):
            found.append(f"the kernel's taint flags say {m[1]}")
        if l == "guest: debug_locks 0":
            found.append("lockdep has switched itself off")
        if re.match(r"guest: kcsan .*setup_watchpoints 0 ", l):
            found.append("KCSAN has watched nothing")
    return found
