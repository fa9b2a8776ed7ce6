#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_nbdkit_dump.py BUILD [--full] - the files of nbdkit's plugin: dump= and load=; prints TAP.

The format is written down in plugins/nbdkit/dump.h; this file has it a second time, with XXH64, to
make files whose sums are right and which are wrong all the same.
"""
import os
import signal
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import tap
from nbdkit_rig import (FULL, MIB, PLUGIN, SANITIZED, Server, content, in_background, path, refused,
                        run, seeded, start, wants)

case = tap.Cases()
MASK = (1 << 64) - 1
AT_END = MASK


# ---- the format ----

P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
                      0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def rotated(x, n):
    return (x << n | x >> (64 - n)) & MASK


def mixed(acc, word):
    return rotated((acc + word * P2) & MASK, 31) * P1 & MASK


def xxh64(data, seed):
    at = 0
    if len(data) >= 32:
        acc = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        while len(data) - at >= 32:
            acc = [mixed(a, w) for a, w in zip(acc, struct.unpack_from("<4Q", data, at))]
            at += 32
        h = sum(rotated(a, n) for a, n in zip(acc, (1, 7, 12, 18))) & MASK
        for a in acc:
            h = ((h ^ mixed(0, a)) * P1 + P4) & MASK
    else:
        h = (seed + P5) & MASK
    h = (h + len(data)) & MASK
    while len(data) - at >= 8:
        h = (rotated(h ^ mixed(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & MASK
        at += 8
    if len(data) - at >= 4:
        h = (rotated(h ^ struct.unpack_from("<I", data, at)[0] * P1 & MASK, 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotated(h ^ byte * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


def summed(packed, number):
    return packed + struct.pack("<Q", xxh64(packed, number))


def head(size, version=1, zero=0):
    return summed(struct.pack("<8sIIQ", b"ebb-disk", version, zero, size), 0)


def record(number, offset, data, length=None):
    """A record of bytes as they are, or of length bytes, if they are what zstd made of those."""
    return summed(struct.pack("<QIIQ", offset, len(data) if length is None else length, len(data),
                              xxh64(data, number)), number) + data


def end(records):
    return summed(struct.pack("<QIIQ", AT_END, 0, 0, records), records + 1)


def write(name, data):
    with open(path(name), "wb") as f:
        f.write(data)
    return path(name)


def read(name):
    with open(path(name), "rb") as f:
        return f.read()


def filled(name, size="2M", parameters=(), seed="dump"):
    """Dumps a disk with something on it; the bytes."""
    rng = seeded(seed)
    with Server(f"size={size}", f"dump={path(name)}", *parameters) as s:
        h = s.client()
        want = bytearray(h.get_size())
        for _ in range(12):
            n = min(rng.randrange(1, 60000), len(want) // 2)
            at = rng.randrange(len(want) - n)
            want[at:at + n] = content(rng, n)
            h.pwrite(want[at:at + n], at)
        h.shutdown()
    return want


def loaded(name, *parameters):
    with Server(f"load={path(name)}", *parameters) as s:
        h = s.client()
        size = h.get_size()
        have = b"".join(h.pread(min(MIB, size - at), at) for at in range(0, size, MIB))
        h.shutdown()
    return have


# ---- what is written is what is read ----

@case
def a_disk_comes_back_whatever_its_units_are():
    want = filled("a", "5000001", ("unit=64k", "codec=lz4"))
    for parameters in ((), ("unit=4k", "codec=lz4"), ("unit=16k", "codec=lz4hc")):
        assert loaded("a", *parameters) == want, parameters
    more = loaded("a", "size=6M")
    assert more == want + bytes(6 * MIB - len(want))
    assert "more than size=1048576" in refused(f"load={path('a')}", "size=1M")
    assert "mem-limit" in refused(f"load={path('a')}", "mem-limit=16k")


@case
def the_format_is_what_is_written_down():
    name = write("b", head(100000) + record(1, 5, b"hello") + record(2, 50000, b"x" * 50000) + end(2))
    assert loaded("b") == bytes(5) + b"hello" + bytes(49990) + b"x" * 50000
    # Zeros, and a file that is dumped anew under its own name.
    with Server(f"load={name}", f"dump={name}") as s:
        h = s.client()
        h.zero(100000, 0)
        h.shutdown()
    assert read("b") == head(100000) + end(0)
    assert loaded("b") == bytes(100000)


@case
def a_disk_that_is_dumped_and_loaded_again_and_again_stays():
    want = filled("c")
    for _ in range(5):
        with Server(f"load={path('c')}", f"dump={path('c')}"):
            pass
    assert loaded("c") == want


@case
def it_is_dumped_by_a_server_in_the_background():
    os.kill(in_background("1M", f"dump={path('d')}")[0], signal.SIGTERM)
    deadline = time.monotonic() + 20
    while not os.path.exists(path("d")):
        assert time.monotonic() < deadline, "no file"
        time.sleep(0.02)
    assert loaded("d") == bytes(MIB)


# ---- files that are damaged ----

def must_be_refused(name, why):
    out = refused(f"load={name}")
    assert name in out and any(word in out for word in (
        "damaged at byte", "cut off after", "no disk that dump= wrote", "of version")), (why, out)
    return out


@case
def a_file_that_is_cut_off_is_refused():
    filled("t", "300000")
    whole = read("t")
    rng = seeded("cut")
    lengths = range(len(whole)) if FULL and len(whole) < 2000 else \
        sorted({0, 1, 31, 32, 33, 63, 64, len(whole) - 1, len(whole) - 32, len(whole) - 33}
               | {rng.randrange(len(whole)) for _ in range(200 if FULL else 15)})
    for n in lengths:
        out = must_be_refused(write("cut", whole[:n]), f"{n} of {len(whole)} bytes")
        assert "cut off" in out, (n, out)


@case
def a_file_with_a_bit_that_flipped_is_refused():
    filled("f", "300000")
    whole = read("f")
    rng = seeded("flip")
    for at in [*range(0, 64, 3), *(rng.randrange(len(whole)) for _ in range(1000 if FULL else 40)),
               *range(len(whole) - 32, len(whole), 3)]:
        bad = bytearray(whole)
        bad[at] ^= 1 << rng.randrange(8)
        must_be_refused(write("flipped", bad), f"byte {at} of {len(whole)}")


@case
def a_file_whose_parts_were_moved_is_refused():
    a, b = record(1, 0, b"a" * 100), record(2, 1000, b"b" * 100)
    assert loaded_size(head(4096) + a + b + end(2)) == 4096
    for bad in (a + end(1) + b, b + a + end(2), a + a + end(2), a + end(2), b + end(1), end(0) + a,
                a + b + end(2) + b"more", a + b + end(2) + end(3)):
        must_be_refused(write("moved", head(4096) + bad), bad[:40])
    # It is told where the end is, not where the file ends.
    at = len(head(4096) + a)
    assert f"damaged at byte {at}: its end" in \
        must_be_refused(write("moved", head(4096) + a + summed(struct.pack(
            "<QIIQ", AT_END, 0, 0, 7), 2)), "a wrong count")


def loaded_size(data):
    write("sized", data)
    return len(loaded("sized"))


@case
def a_file_whose_sums_are_right_is_not_trusted():
    size = 1 << 20
    for why, data in {
        "a record that begins past the end": head(size) + record(1, size, b"x") + end(1),
        "a record that goes past the end": head(size) + record(1, size - 1, b"xy") + end(1),
        "a record that ends past 2^64": head(size) + record(1, MASK - 1, b"xyz") + end(1),
        "a record of no bytes": head(size) + record(1, 0, b"") + end(1),
        "one that is packed to nothing": head(size) + record(1, 0, b"", 10) + end(1),
        "one that is larger than it says": head(size) + record(1, 0, b"x" * 100, 10) + end(1),
        "one over the most": head(8 * size) + record(1, 0, b"x" * (size + 1)) + end(1),
        "one that would be over the most": head(8 * size) + record(1, 0, b"x" * 9, 1 << 31) + end(1),
        "one that overlaps": head(size) + record(1, 0, b"xyz") + record(2, 2, b"xyz") + end(2),
        "one that goes back": head(size) + record(1, 9, b"xyz") + record(2, 2, b"xyz") + end(2),
        "one that does not decompress": head(size) + record(1, 0, b"x" * 100, 4096) + end(1),
        "one that decompresses to less": head(size) + record(1, 0, bytes.fromhex(
            "28b52ffd200529000068656c6c6f"), 4096) + end(1),
        "a disk of no bytes": head(0) + end(0),
        "a disk of more than there can be": head(1 << 63) + end(0),
        "a word that must be 0": head(size, 1, 1) + end(0),
        "a later version": head(size, 2) + end(0),
        "an end with bytes": head(size) + summed(struct.pack("<QIIQ", AT_END, 1, 1, 0), 1),
        "no end": head(size) + record(1, 0, b"x"),
    }.items():
        must_be_refused(write("crafted", data), why)
    assert "too large" in refused("load=" + write("huge", head((1 << 63) - 1) + end(0)))


# ---- writing that fails ----

@case
def a_server_that_is_killed_leaves_the_file_as_it_was():
    want = filled("k")
    s = Server(f"load={path('k')}", f"dump={path('k')}")
    h = s.client()
    h.pwrite(b"never dumped", 0)
    s.end(signal.SIGKILL)
    assert os.path.exists(path("k.tmp"))
    with Server(f"load={path('k')}", f"dump={path('k')}"):
        pass
    assert loaded("k") == want and not os.path.exists(path("k.tmp"))


@case
def a_server_that_is_killed_while_it_dumps_leaves_the_file_as_it_was():
    want = filled("m")
    rng = seeded("m")
    s = Server("size=64M", f"dump={path('m')}", "codec=lz4")
    h = s.client()
    for at in range(0, 64 * MIB, MIB):
        h.pwrite(rng.randbytes(MIB), at)
    h.shutdown()
    s.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 20
    while os.path.getsize(path("m.tmp")) < MIB:
        assert time.monotonic() < deadline and s.process.poll() is None, s.log()
    s.end(signal.SIGKILL)
    assert os.path.exists(path("m.tmp")), "it was not in the middle"
    assert loaded("m") == want


@case
def two_servers_do_not_dump_to_one_file():
    with Server("size=1M", f"dump={path('two')}"):
        assert "another server" in refused("size=1M", f"dump={path('two')}")
        assert os.path.exists(path("two.tmp"))
    assert loaded("two") == bytes(MIB)


SLOW_LOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

/* Says that it is there, and waits until it may. */
int flock(int fd, int how)
{
	static int n;
	int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");

	if (!n++) {
		rename(getenv("MAY_LOCK"), getenv("WANTS_LOCK"));
		while (access(getenv("MAY_LOCK"), F_OK))
			usleep(1000);
	}
	return real(fd, how);
}
"""


@case
def a_server_that_starts_does_no_harm_to_one_that_ends():
    """It opened the other's file, which has got its name and is complete when the lock is free."""
    if SANITIZED:
        raise tap.Skip("a library that is loaded before is the sanitizer's")
    wants("cc")
    write("slow.c", SLOW_LOCK.encode())
    run(["cc", "-shared", "-fPIC", "-o", path("slow.so"), path("slow.c"), "-ldl"])
    may, asked = write("may", b""), path("asked")
    first = Server("size=1M", f"dump={path('race')}")
    h = first.client()
    h.pwrite(b"precious", 5000)
    h.shutdown()
    second = Server("size=2M", f"dump={path('race')}", wait=False, LD_PRELOAD=path("slow.so"),
                    MAY_LOCK=may, WANTS_LOCK=asked)
    deadline = time.monotonic() + 20
    while not os.path.exists(asked):
        assert time.monotonic() < deadline and second.process.poll() is None, second.log()
        time.sleep(0.01)
    assert first.end() == 0, first.log()
    whole = read("race")
    os.rename(asked, may)
    second.ready()
    assert read("race") == whole and loaded("race")[5000:5008] == b"precious"
    assert "another server" in refused("size=1M", f"dump={path('race')}")
    assert second.end() == 0, second.log()
    assert loaded("race") == bytes(2 * MIB) and not os.path.exists(path("race.tmp"))


@case
def a_server_whose_file_was_removed_takes_none_of_another():
    first = Server("size=1M", f"dump={path('gone')}")
    os.unlink(path("gone.tmp"))
    with Server("size=2M", f"dump={path('gone')}"):
        assert first.end() == 1, first.log()
        assert "removed or replaced" in first.log()
        assert os.path.exists(path("gone.tmp"))
    assert loaded("gone") == bytes(2 * MIB)


@case
def no_link_leads_a_dump_elsewhere():
    elsewhere = write("elsewhere", b"precious")
    for name, target in (("link", elsewhere), ("dangling", path("new"))):
        for end in ("", ".tmp"):
            os.symlink(target, path(name + end))
            out = refused("size=1M", f"dump={path(name)}")
            assert "symbolic link" in out and path(name + end) in out, out
            os.unlink(path(name + end))
            assert not os.path.exists(path(name + ".tmp"))
    assert read("elsewhere") == b"precious" and not os.path.exists(path("new"))
    # Nor does it take the place of what is no file.
    os.mkdir(path("folder"))
    assert "is a folder" in refused("size=1M", f"dump={path('folder')}")
    os.mkfifo(path("fifo"))
    assert "no regular file" in refused("size=1M", f"dump={path('fifo')}")
    # What somebody has under that name is no dump that was begun.
    write("letter.tmp", b"to my aunt")
    assert "something else" in refused("size=1M", f"dump={path('letter')}")
    assert read("letter.tmp") == b"to my aunt"


@case
def nobody_else_may_read_a_dump():
    """Nor who had the file open that a dump or its begin takes the place of."""
    was = head(MIB) + end(0)
    for name in ("p", "p.tmp"):
        os.chmod(write(name, was), 0o644)
    with open(path("p"), "rb") as old, open(path("p.tmp"), "rb") as begun:
        filled("p")
        assert old.read() == was and begun.read() == was
    st = os.stat(path("p"))
    assert (st.st_mode & 0o7777, st.st_uid, st.st_nlink) == (0o600, os.geteuid(), 1), st
    assert len(read("p")) > len(was)


@case
def a_full_disk_leaves_the_file_as_it_was():
    if os.geteuid():
        raise tap.Skip("only root mounts a small file system")
    top = path("small")
    os.makedirs(top)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", top], check=False,
                      stderr=subprocess.DEVNULL).returncode:
        raise tap.Skip("no tmpfs can be mounted here")
    try:
        want = filled("small/disk", "100000")
        s = Server("size=2M", f"load={top}/disk", f"dump={top}/disk")
        h = s.client()
        h.pwrite(seeded("full").randbytes(MIB), MIB)
        h.shutdown()
        assert s.end() == 1, s.log()
        assert "No space left on device" in s.log(), s.log()
        assert os.listdir(top) == ["disk"], os.listdir(top)
        assert loaded("small/disk") == want
        # The process that runs a command ends with the command's status, but for this.
        write("noise", seeded("full").randbytes(MIB))
        for command, status in (("true", 0), (f"nbdcopy {path('noise')} $uri", 1)):
            out = run(["nbdkit", "-U", "-", PLUGIN, "size=1M", f"dump={top}/other",
                       "--run", command], rc=status)
            assert ("No space left on device" in out) == bool(status), out
        assert sorted(os.listdir(top)) == ["disk", "other"], os.listdir(top)
        assert loaded("small/other") == bytes(MIB)
    finally:
        run(["umount", top])


if __name__ == "__main__":
    sys.exit(start(case))
