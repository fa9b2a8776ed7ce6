#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_nbdkit.py BUILD [--full] - nbdkit with the plugin of a build, by its clients; prints TAP.

Each case starts nbdkit on a socket of its own, and talks to it by libnbd or by a program that
people use for it.  --full: more of the same, and a file system that is mounted.
"""
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
import tap
from nbdkit_rig import (FULL, MIB, PLUGIN, ROOT, SANITIZED, Server, content, in_background, nbd,
                        path, refused, run, seeded, start, wants)

case = tap.Cases()
UNITS = {"4k": 4096, "8k": 8192, "16k": 16384, "32k": 32768, "64k": 65536}


def full(fn):
    if FULL:
        case.append(fn)
    return fn


def fails(fn, *args, **more):
    """The errno of an NBD call that must fail."""
    try:
        fn(*args, **more)
    except nbd.Error as e:
        return e.errnum
    raise AssertionError("a call that must fail did not")


def holes_are_zeros(h, want):
    """The extents of the whole disk, which has the bytes in want; how many bytes are holes."""
    found, at, holes = [], 0, 0

    def collect(_context, offset, entries, _err):
        if not found or found[-1][0] != offset:
            found.append((offset, list(entries)))

    while at < len(want):
        found.clear()
        h.block_status(len(want) - at, at, collect)
        for length, flags in zip(found[0][1][::2], found[0][1][1::2]):
            if flags:
                assert flags == nbd.STATE_HOLE | nbd.STATE_ZERO, flags
                assert not any(want[at:at + length]), f"a hole of {length} at {at} has data"
                holes += min(length, len(want) - at)
            at += length
    return holes


# ---- what it says of itself ----

@case
def it_tells_its_codecs_units_and_parameters():
    out = run(["nbdkit", PLUGIN, "--dump-plugin"])
    assert "name=ebb\n" in out and "thread_model=parallel\n" in out, out
    assert "zstd" in out.split("ebb_codecs=")[1].splitlines()[0], out
    assert "ebb_units=4k, 8k, 16k, 32k, 64k\n" in out, out
    out = run(["nbdkit", PLUGIN, "--help"])
    for word in ("size=", "codec=", "level=", "unit=", "mem-limit=", "load=", "dump="):
        assert word in out, (word, out)


@case
def a_wrong_parameter_is_named_with_what_there_is():
    for parameters, words in {
        (): "size=SIZE is missing",
        ("size=1M", "colour=red"): "there are size, codec, level, unit, mem-limit, load, dump",
        ("size=1M", "codec=zip"): "there are lz4, lz4hc, zstd",
        ("size=1M", "unit=5k"): "4k, 8k, 16k, 32k or 64k",
        ("size=1M", "unit=2k"): "4k, 8k, 16k, 32k or 64k",
        ("size=1M", "unit=128k"): "4k, 8k, 16k, 32k or 64k",
        ("size=0",): "a byte at least",
        ("size=-1",): "size=-1",
        ("size=7E",): "too large",
        ("size=9P",): "too large",
        ("size=2P", "unit=4k"): "too large",
        ("size=1M", "level=23"): "from -5 to 22",
        ("size=1M", "codec=lz4hc", "level=x"): "level",
        ("size=1M", "mem-limit=lots"): "mem-limit=lots",
        ("size=1M", "load=/nonexistent"): "load=/nonexistent",
        ("size=1M", "load=/etc/passwd"): "no disk that dump= wrote",
        ("size=1M", "load=/tmp"): "/tmp",
        ("size=1M", "dump=/nonexistent/x"): "dump=/nonexistent/x",
        ("size=1M", "dump=x", "dump=y"): "dump was given twice",
    }.items():
        out = refused(*parameters)
        assert words in out, (parameters, out)


@case
def nbdinfo_sees_what_it_can():
    with Server("10G", "unit=16k") as s:
        info = json.loads(run(["nbdinfo", "--json", s.uri]))["exports"][0]
    for word in ("can_cache", "can_fast_zero", "can_flush", "can_fua", "can_multi_conn", "can_trim",
                 "can_zero"):
        assert info[word] is True, (word, info)
    assert info["export-size"] == 10 << 30
    assert not info["is_rotational"] and not info["is_read_only"]
    assert info["block_minimum" if "block_minimum" in info else "block_size_minimum"] == 1, info
    assert info["block_size_preferred"] == 16384, info


# ---- bytes ----

def agrees_with_an_array(unit, codec, steps):
    """Random requests to a disk whose size is no multiple of anything, beside an array."""
    rng = seeded(unit + codec)
    size = 3 * MIB + 12345
    want = bytearray(size)
    with Server(f"size={size}", f"unit={unit}", f"codec={codec}") as s:
        h = nbd.NBD()
        h.add_meta_context("base:allocation")
        h.connect_uri(s.uri)
        for _ in range(steps):
            n = min(rng.choice((1, 512, 4096, UNITS[unit], rng.randrange(1, 200000))), size)
            at = rng.randrange(size - n + 1)
            if rng.random() < 0.5:
                at -= at % (UNITS[unit] if rng.random() < 0.5 else 4096)
            fua = rng.choice((0, nbd.CMD_FLAG_FUA))
            what = rng.randrange(10)
            if what < 4:
                data = content(rng, n)
                h.pwrite(data, at, fua)
                want[at:at + n] = data
            elif what < 7:
                assert h.pread(n, at) == want[at:at + n], f"{n} bytes at {at}"
            elif what == 7:
                h.zero(n, at, fua | rng.choice((0, nbd.CMD_FLAG_NO_HOLE, nbd.CMD_FLAG_FAST_ZERO)))
                want[at:at + n] = bytes(n)
            elif what == 8:
                h.trim(n, at, fua)
                want[at:at + n] = bytes(n)
            else:
                h.cache(n, at)
                h.flush()
        for at in range(0, size, MIB):
            n = min(MIB, size - at)
            assert h.pread(n, at) == want[at:at + n], f"{n} bytes at {at}, at the end"
        holes_are_zeros(h, want)
        h.trim(size, 0)
        assert holes_are_zeros(h, bytes(size)) == size, "a trimmed disk is one hole"
        h.shutdown()


for _unit, _codec in (("4k", "lz4"), ("32k", "zstd"), ("64k", "lz4")) if not FULL else \
        [(u, c) for u in UNITS for c in ("lz4", "zstd", "lz4hc")]:
    case.append((f"random_requests_agree_with_an_array_{_unit}_{_codec}",
                  lambda u=_unit, c=_codec: agrees_with_an_array(u, c, 3000 if FULL else 500)))


@case
def connections_share_one_disk_and_do_not_mix_it_up():
    """Four write parts of the same units at once, and each reads back its own."""
    with Server("4M", "unit=64k", "codec=lz4") as s:
        wrong = []

        def work(who):
            rng, h = seeded(str(who)), s.client()
            mine = {}
            for _ in range(2000 if FULL else 400):
                at = rng.randrange(4 * MIB // 4096) * 4096 + who * 1024
                if at in mine and rng.random() < 0.5:
                    if h.pread(1024, at) != mine[at]:
                        wrong.append((who, at))
                else:
                    mine[at] = content(rng, 1024)
                    h.pwrite(mine[at], at)
            wrong.extend((who, at) for at, data in mine.items() if h.pread(1024, at) != data)
            h.shutdown()

        threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong, wrong[:10]


@case
def at_the_limit_writes_fail_with_enospc_and_nothing_is_lost():
    rng = seeded("limit")
    with Server("size=64M", "unit=32k", "mem-limit=8M") as s:
        h, stored, failed = s.client(), {}, 0
        while failed < 20:
            at = rng.randrange(64 * MIB // 65536) * 65536
            data = rng.randbytes(65536)
            try:
                h.pwrite(data, at)
                stored[at] = data
            except nbd.Error as e:
                assert e.errnum == errno.ENOSPC, e
                failed += 1
                # A request of two units may have changed the first.
                new, old = h.pread(65536, at), stored.get(at, bytes(65536))
                assert new in (old, data[:32768] + old[32768:]), "a unit is neither old nor new"
                stored[at] = new
        assert 50 < len(stored) < 200, len(stored)
        for at, data in stored.items():
            assert h.pread(65536, at) == data, f"at {at}"
        # What cannot be compressed is at the limit, and zeros are not; room comes back.
        h.zero(65536, 0)
        h.trim(32 * MIB, 32 * MIB)
        for at in range(32 * MIB, 34 * MIB, 65536):
            h.pwrite(rng.randbytes(65536), at)
        for at, data in stored.items():
            if 65536 <= at < 32 * MIB:
                assert h.pread(65536, at) == data, f"at {at}, after a trim"
        h.shutdown()
        assert s.log().count("mem-limit") == 1, s.log()


@case
def trimmed_memory_goes_back_to_the_system():
    if SANITIZED:
        raise tap.Skip("a sanitizer keeps freed memory")
    rng = seeded("trim")
    with Server("size=64M", "unit=32k") as s:
        h, before = s.client(), s.rss()
        # In small requests, since each of nbdkit's threads keeps room for its largest.
        for at in range(0, 64 * MIB, 65536):
            h.pwrite(rng.randbytes(65536), at)
        filled = s.rss()
        assert filled - before > 60 * MIB, (before, filled)
        h.trim(64 * MIB, 0)
        deadline = time.monotonic() + 10
        while s.rss() - before > 6 * MIB:
            assert time.monotonic() < deadline, (before, filled, s.rss())
            time.sleep(0.1)
        h.shutdown()


@case
def requests_past_the_end_are_refused():
    with Server("size=100000") as s:
        h = s.client()
        h.set_strict_mode(0)
        for fn, args in ((h.pread, (4096, 98304)), (h.zero, (4096, 98304)), (h.trim, (4096, 98304)),
                         (h.pwrite, (bytes(4096), 98304)), (h.pread, (1, 1 << 62))):
            assert fails(fn, *args) in (errno.EINVAL, errno.ENOSPC, errno.EOVERFLOW)
        h.pwrite(b"x" * (100000 - 98304), 98304)
        h.shutdown()


# ---- the life of a server ----

@case
def it_serves_from_the_background():
    pid, socket = in_background("16M")
    try:
        h = nbd.NBD()
        h.connect_uri(f"nbd+unix:///?socket={socket}")
        h.pwrite(b"in the background", 5)
        assert h.pread(17, 5) == b"in the background"
        h.shutdown()
    finally:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 20
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                if " Z " in f.read():
                    break
            time.sleep(0.02)


def fio(s, *args, rc=0):
    wants("fio")
    out = run(["fio", "--name=x", "--ioengine=nbd", f"--uri={s.uri}", "--group_reporting",
               *args], rc=None, timeout=300)
    if "Engine nbd not found" in out or "engine nbd not loadable" in out:
        raise tap.Skip("this fio has no engine nbd")
    assert rc is None or "err= 0" in out and "verify:" not in out, out[-2000:]
    return out


@case
def fio_verifies_what_eight_jobs_wrote():
    with Server("size=64M", "unit=32k", "codec=lz4") as s:
        fio(s, "--rw=randwrite", "--bs=4k", "--numjobs=8", "--size=8M", "--offset_increment=8M",
            "--iodepth=4", "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0",
            "--buffer_compress_percentage=50", *([] if FULL else ["--io_size=2M"]))


@case
def a_client_that_is_killed_takes_nothing_with_it():
    wants("fio")
    with Server("size=16M", "unit=32k") as s:
        h = s.client()
        h.pwrite(b"stays" * 1000, 12 * MIB)
        p = subprocess.Popen(["fio", "--name=x", "--ioengine=nbd", f"--uri={s.uri}",
                              "--rw=randwrite", "--bs=64k", "--size=8M", "--iodepth=8",
                              "--time_based", "--runtime=60"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             start_new_session=True)
        time.sleep(1)
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()
        assert h.pread(5000, 12 * MIB) == b"stays" * 1000
        for at in range(0, 8 * MIB, MIB):
            h.pread(MIB, at)
        h.shutdown()


@case
def a_server_that_is_killed_ends_its_clients_and_another_can_begin():
    s = Server("size=16M")
    h = s.client()
    h.pwrite(b"gone", 0)
    s.end(signal.SIGKILL)
    fails(h.pread, 4, 0)
    with Server("size=16M") as s2:
        h = s2.client()
        assert h.pread(4, 0) == bytes(4)
        h.shutdown()


# ---- other people's programs ----

def image(name, mib):
    """A file system with files of this machine."""
    wants("mkfs.ext4")
    there = path(name)
    if not os.path.exists(there):
        files = path("files")
        os.makedirs(files, exist_ok=True)
        with open("/proc/self/exe", "rb") as f:
            data = f.read()
        for i in range(mib // 8):
            with open(os.path.join(files, f"file{i}"), "wb") as f:
                f.write(data[i * 100000:][:2 * MIB])
        run(["mkfs.ext4", "-q", "-F", "-d", files, there, f"{mib}M"])
    return there


def same(a, b):
    run(["cmp", a, b])


@case
def nbdcopy_brings_a_file_system_there_and_back():
    wants("nbdcopy", "e2fsck")
    img, back = image("img", 32), path("back")
    for unit in ("4k", "32k"):
        with Server("size=32M", f"unit={unit}") as s:
            run(["nbdcopy", img, s.uri])
            run(["nbdcopy", s.uri, back])
        same(img, back)
        run(["e2fsck", "-fn", back])
        # What was a hole is one again.
        assert os.stat(back).st_blocks * 512 < 32 * MIB, os.stat(back).st_blocks
        os.unlink(back)


@case
def qemu_img_converts_and_compares():
    wants("qemu-img")
    img = image("img", 32)
    with Server("size=32M", "unit=16k") as s:
        run(["qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", img, s.uri])
        assert "identical" in run(["qemu-img", "compare", "-f", "raw", "-F", "raw", img, s.uri])
        run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", s.uri, path("x.qcow2")])
        assert "identical" in run(["qemu-img", "compare", path("x.qcow2"), s.uri])


@full
def a_file_system_is_mounted_by_nbdfuse_and_a_loop_device():
    wants("nbdfuse", "mkfs.ext4", "losetup", "fusermount3", "e2fsck")
    if os.geteuid():
        raise tap.Skip("only root mounts")
    if not os.path.exists("/dev/fuse"):
        raise tap.Skip("no /dev/fuse here")
    fuse, top = path("fuse"), path("top")
    os.makedirs(top, exist_ok=True)
    with open(fuse, "w", encoding="utf-8"):
        pass
    with Server("size=128M", "unit=32k") as s:
        # With more threads Debian 12's nbdfuse ends now and then by an assertion of its own.
        p = subprocess.Popen(["nbdfuse", "-s", "-C", "1", fuse, s.uri])
        loop = ""
        try:
            deadline = time.monotonic() + 20
            while os.stat(fuse).st_size != 128 * MIB:
                assert p.poll() is None and time.monotonic() < deadline, "nbdfuse does not serve"
                time.sleep(0.05)
            loop = run(["losetup", "-f", "--show", fuse], rc=None).strip()
            if not loop.startswith("/dev/loop"):
                raise tap.Skip(f"no loop device: {loop}")
            files_live_on(loop, top)
        finally:
            run(["umount", top], rc=None)
            if loop.startswith("/dev/loop"):
                run(["losetup", "-d", loop], rc=None)
            run(["fusermount3", "-u", fuse], rc=None)
            p.wait(20)


def files_live_on(disk, top):
    """Makes a file system, and copies a tree to it, twice, with a check after each."""
    run(["mkfs.ext4", "-q", disk])
    for copy in ("one", "two"):
        run(["mount", disk, top])
        run(["cp", "-r", os.path.join(ROOT, "core"), os.path.join(top, copy)])
        run(["cp", PLUGIN, os.path.join(top, copy)])
        run(["umount", top])
        run(["e2fsck", "-fn", disk])
    run(["mount", disk, top])
    for copy in ("one", "two"):
        run(["cmp", PLUGIN, os.path.join(top, copy, os.path.basename(PLUGIN))])
        os.unlink(os.path.join(top, copy, os.path.basename(PLUGIN)))
        run(["diff", "-r", os.path.join(ROOT, "core"), os.path.join(top, copy)])
    run(["fstrim", top], rc=None)
    run(["umount", top])
    run(["e2fsck", "-fn", disk])


if __name__ == "__main__":
    sys.exit(start(case))
