#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_tierd.py EBB RIG [CASE...] - `ebb tierd` on a made-up sysfs; prints TAP.

RIG is tierd_rig.so, by which this program plays the kernel and sees to it that nothing is allocated
once the daemon runs.  A device's pages are groups: so many, of one age, each a block of the pool.
"""
import contextlib
import errno
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import tap

EBB, RIG = map(os.path.realpath, sys.argv[1:3])
LIMIT_S = 30
HOUR = 3600
test = tap.Cases()


class Zram:
    """A device: what its files say, and what is written to them does."""
    UNITS = os.sysconf("SC_PAGE_SIZE") // 4096

    def __init__(self, sysfs, number, groups, backing="/dev/loop0\n", **files):
        self.where = os.path.join(sysfs, "block", f"zram{number}")
        self.groups = [dict(age=age, n=n, idle=False, tried=False) for age, n in groups]
        self.log, self.errors, self.written = [], {}, 0
        self.has_ages, self.clears, self.sleeping = True, True, False
        os.makedirs(self.where)
        for file in ("idle", "writeback", "recompress", "compact"):
            self.put(file, "")
        self.put("writeback_limit", "0\n")
        self.put("writeback_limit_enable", "0\n")
        self.put("recomp_algorithm", "#1: lzo lz4 [zstd] \n")
        self.put("backing_dev", backing)
        self.limit_bytes = int(files.get("mem_limit", "0"))
        self.show()
        for file, text in {"disksize": f"{1 << 30}\n", **files}.items():
            self.put(file, text)

    def put(self, file, text):
        path = os.path.join(self.where, file)
        new = f"{path}.{threading.get_ident()}"     # the kernel's, or a case's own
        with open(new, "w", encoding="ascii") as f:
            f.write(text)
        os.rename(new, path)

    def get(self, file):
        with open(os.path.join(self.where, file), encoding="ascii") as f:
            return f.read()

    def pages(self):
        return sum(g["n"] for g in self.groups)

    def show(self):
        size = sum(g["n"] // (2 if g["tried"] else 1) for g in self.groups) * 4096 * self.UNITS
        used = self.pages() * 4096 * self.UNITS
        self.put("mm_stat", f"{used} {size} {used} {self.limit_bytes} {used} 0 0 0 0\n")
        self.put("bd_stat", f"0 0 {self.written * self.UNITS}\n")

    def wrote(self, file, text, uptime):
        """The errno of a write."""
        self.log.append((file, text))
        if file in self.errors:
            return self.errors[file]
        if file in ("writeback_limit", "writeback_limit_enable"):
            self.put(file, text + "\n")
        elif file == "idle":
            if text != "all" and not self.has_ages:
                return errno.EINVAL
            if text == "all" or int(text) < uptime:
                for g in self.groups:
                    old = text == "all" or g["age"] > int(text)
                    g["idle"] = old or (g["idle"] and not self.clears)
        elif file == "recompress":
            for g in self.groups:
                g["tried"] |= g["idle"]
        elif file == "writeback":
            assert text == "idle", text
            return self.write_back()
        return 0

    def write_back(self):
        left = int(self.get("writeback_limit")) // self.UNITS
        limited = int(self.get("writeback_limit_enable"))
        for g in self.groups:
            n = min(g["n"], left) if limited else g["n"]
            if not g["idle"]:
                continue
            g["n"] -= n
            self.written += n
            left -= n
            if limited and g["n"]:
                break
        if not limited:
            return 0
        self.put("writeback_limit", f"{left * self.UNITS}\n")
        return 0 if left else errno.EIO

    def marks(self):
        return [text for file, text in self.log if file == "idle"]


class Daemon:
    def __init__(self, tmp, config, *args, release="7.3.0", uptime=100000):
        self.tmp, self.uptime, self.devices = tmp, uptime, {}
        os.makedirs(os.path.join(tmp, "block"), exist_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(os.path.join(tmp, "kernel"))
        self.socket.listen()
        self.state = os.path.join(tmp, "state")
        path = os.path.join(tmp, "conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(config)
        self.argv = [EBB, "tierd", "--sysfs", tmp, "--config", path, "--state", self.state, *args]
        self.env = dict(os.environ, LD_PRELOAD=RIG, RIG_SOCKET=os.path.join(tmp, "kernel"),
                        RIG_RELEASE=release)
        self.wrong = []

    def device(self, number, groups, **files):
        self.devices[f"zram{number}"] = d = Zram(self.tmp, number, groups, **files)
        return d

    def serve(self):
        peer, _ = self.socket.accept()
        while line := peer.recv(4096).decode():
            path, text = line.split(" ", 1)
            name, file = path.split("/")
            dev = self.devices.get(name)
            try:
                err = dev.wrote(file, text, self.uptime) if dev else errno.ENODEV
                if dev:
                    dev.show()
            except FileNotFoundError:
                err = errno.ENODEV      # the case took it away
            except (AssertionError, ValueError) as why:
                self.wrong.append(repr(why))
                err = errno.EPERM
            peer.send(f"{err} {self.uptime}".encode())

    @contextlib.contextmanager
    def running(self, status=0, stderr=""):
        threading.Thread(target=self.serve, daemon=True).start()
        with subprocess.Popen(self.argv, env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            try:
                yield p
            finally:
                p.send_signal(signal.SIGTERM)
                try:
                    self.out, err = (x.decode() for x in p.communicate(timeout=LIMIT_S))
                finally:
                    p.kill()
        assert not self.wrong, self.wrong
        assert p.returncode == status and re.fullmatch(stderr, err), (p.returncode, err)


def wait(what, seconds=LIMIT_S):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"not in time: {what.__code__.co_consts}"
        time.sleep(0.02)


def stays(what, seconds=1.6):
    """For a few of the daemon's rounds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert what()
        time.sleep(0.05)


@test
def pages_go_when_they_are_old_enough_and_no_others(tmp):
    t = Daemon(tmp, "writeback_age = 40\n")
    z = t.device(0, [(5000, 100), (41, 30), (39, 20)])
    with t.running():
        wait(lambda: z.written == 130)
        stays(lambda: z.written == 130)
    assert [g["n"] for g in z.groups] == [0, 0, 20]
    assert z.get("writeback_limit_enable") == "0\n"
    assert not os.path.exists(t.state)


@test
def an_age_past_the_uptime_writes_no_page_that_is_marked_for_another_reason(tmp):
    t = Daemon(tmp, "writeback_age = 5000\nrecompress_age = 8\n")
    z = t.device(0, [(100, 50)])
    t.uptime = 1000
    # What it learns with the first answer of the kernel.
    with t.running():
        wait(lambda: z.groups[0]["tried"])
        z.groups[0]["idle"] = True
        stays(lambda: not z.written)


@test
def recompression_takes_the_last_priority_in_slices(tmp):
    t = Daemon(tmp, "recompress_age = 8\nrecompress_cpu = 100\n")
    z = t.device(0, [(100, 64), (3, 10)], recomp_algorithm="#1: [lz4] zstd\n#2: lz4 [zstd] \n")
    with t.running():
        wait(lambda: z.groups[0]["tried"])
        state = lambda: open(t.state, encoding="ascii").read()
        wait(lambda: state() == f"zram0 0 0 0 0 {32 * 4096 * Zram.UNITS}\n")
        top = subprocess.run([EBB, "top", "--json", "--sysfs", tmp, "--state", t.state],
                             stdout=subprocess.PIPE, check=True).stdout.decode()
        assert re.search(rf'"recompress_saved_bytes": {32 * 4096 * Zram.UNITS}\b', top), top
        assert '"writeback_budget_bytes": 0' in top
    assert not z.groups[1]["tried"] and not z.written
    assert re.fullmatch(r"type=idle priority=2 max_pages=\d+",
                        next(text for file, text in z.log if file == "recompress"))


@test
def without_a_backing_device_or_an_algorithm_nothing_is_asked_for(tmp):
    t = Daemon(tmp, "writeback_age = 8\nrecompress_age = 8\nwriteback_high = 4K\n")
    z = t.device(0, [(100, 64)], backing="none\n", recomp_algorithm="\n")
    with t.running():
        stays(lambda: not [x for x in z.log if x[0] != "idle"])


@test
def a_start_has_a_24th_of_the_budget_and_each_hour_another(tmp):
    units = Zram.UNITS
    t = Daemon(tmp, f"writeback_age = 8\nwriteback_budget = {240 * units * 4}K\n")
    z = t.device(0, [(100, 500)])
    with t.running():
        wait(lambda: z.written == 10)
        stays(lambda: z.written == 10)
        t.uptime += HOUR
        wait(lambda: z.written == 20)
        stays(lambda: z.written == 20)      # and it was counted, in its hour
        t.uptime += 30 * HOUR
        wait(lambda: z.written == 260)
        stays(lambda: z.written == 260)
        t.uptime += 23 * HOUR
        stays(lambda: z.written == 260)
        t.uptime += 2 * HOUR
        wait(lambda: z.written == 500)


@test
def what_others_write_counts_for_the_budget(tmp):
    t = Daemon(tmp, f"writeback_age = 8\nwriteback_budget = {240 * Zram.UNITS * 4}K\n")
    z = t.device(0, [(100, 500)])
    with t.running():
        wait(lambda: z.written == 10)
        z.written += 300
        z.show()
        t.uptime += HOUR
        stays(lambda: z.written == 310)


@test
def a_users_limit_holds_and_counts_down(tmp):
    t = Daemon(tmp, "writeback_age = 8\n")
    z = t.device(0, [(100, 500)], writeback_limit=f"{70 * Zram.UNITS}\n",
                 writeback_limit_enable="1\n")
    with t.running():
        wait(lambda: z.written == 70)
        stays(lambda: z.written == 70)
    assert z.get("writeback_limit") == "0\n" and z.get("writeback_limit_enable") == "1\n"


@test
def above_the_high_mark_the_coldest_go_until_the_low_one(tmp):
    page = 4 * Zram.UNITS
    t = Daemon(tmp, f"writeback_high = {1000 * page}K\nwriteback_low = {700 * page}K\n")
    z = t.device(0, [(9000, 100), (500, 100), (60, 400), (5, 300), (0, 50)])
    with t.running():
        stays(lambda: not z.written, 1)
        z.groups[4]["n"] = 300
        z.show()
        wait(lambda: z.pages() <= 700)
        stays(lambda: z.pages() >= 660)
    assert [g["n"] for g in z.groups][:2] == [0, 0] and [g["n"] for g in z.groups][3:] == [300, 300]
    assert ("compact", "1") in z.log


@test
def a_round_ends_when_others_free_memory_meanwhile(tmp):
    page = 4 * Zram.UNITS
    t = Daemon(tmp, f"writeback_high = {20000 * page}K\nwriteback_low = {100 * page}K\n")
    z = t.device(0, [(9000, 30000), (5, 10)])
    real = z.write_back

    def frees():
        err = real()
        if z.written:
            z.groups[0]["n"] = 50
        return err
    z.write_back = frees
    with t.running():
        wait(lambda: z.written)
        stays(lambda: z.written <= 8192 // Zram.UNITS)


@test
def marks_in_percent_are_of_mem_limit(tmp):
    page = 4096 * Zram.UNITS
    t = Daemon(tmp, "writeback_high = 90%\nwriteback_low = 50%\n")
    z = t.device(0, [(9000, 600), (5, 300)], mem_limit=f"{1000 * page}")
    with t.running():
        stays(lambda: not z.written, 1)
        z.groups[1]["n"] = 310
        z.show()
        wait(lambda: z.pages() <= 500)
        stays(lambda: z.pages() >= 460)


@test
def with_writeback_auto_the_limit_is_left_alone(tmp):
    page = 4 * Zram.UNITS
    t = Daemon(tmp, f"writeback_high = {1000 * page}K\nwriteback_low = {700 * page}K\n")
    z = t.device(0, [(9000, 400), (60, 400), (0, 300)], writeback_auto="1\n")
    with t.running():
        wait(lambda: z.pages() == 700)
        stays(lambda: z.pages() == 700)
    assert not [x for x in z.log if "limit" in x[0]] and "all" not in z.marks()


@test
def a_kernel_without_ages_is_served_by_marks(tmp):
    for release, has_ages in (("6.12.9", True), ("7.3.0", False)):
        t = Daemon(os.path.join(tmp, release), "writeback_age = 4\nrecompress_age = 1\n",
                   release=release)
        z = t.device(0, [(9000, 40)])
        z.has_ages, z.clears = has_ages, False
        begun = time.monotonic()
        with t.running():
            wait(lambda: "all" in z.marks())
            wait(lambda: z.groups[0]["tried"])
            assert not z.written
            wait(lambda: z.written == 40)
        assert time.monotonic() - begun >= 4
        assert not has_ages or set(z.marks()) == {"all"}, z.marks()


@test
def devices_come_and_go_and_are_reset(tmp):
    t = Daemon(tmp, "writeback_age = 8\n[zram3]\nwriteback_age = 0\n")
    with t.running():
        z = t.device(7, [(100, 20)], disksize="0\n")
        other = t.device(3, [(100, 20)])
        stays(lambda: not z.log and not other.log)
        z.put("disksize", "1048576\n")
        wait(lambda: z.written == 20)
        z.groups[0]["n"] = 20
        z.put("disksize", "0\n")
        z.errors["idle"] = errno.EINVAL
        stays(lambda: z.written == 20, 1.2)
        del z.errors["idle"]
        z.put("disksize", "1048576\n")
        wait(lambda: z.written == 40)
        os.rename(z.where, f"{tmp}/gone")
        del t.devices["zram7"]
        wait(lambda: "zram7" not in open(t.state, encoding="ascii").read())
        z = t.device(7, [(100, 20)])
        wait(lambda: z.written == 20)
        assert not other.written


@test
def an_error_is_said_once(tmp):
    t = Daemon(tmp, "writeback_age = 8\n")
    z = t.device(0, [(100, 20)])
    z.errors["writeback"] = errno.ENOSPC
    with t.running(stderr=r"ebb: \S+/block/zram0/writeback: cannot write \"idle\": "
                          r"No space left on device\n"):
        wait(lambda: [x for x in z.log if x[0] == "writeback"][3:])
        del z.errors["writeback"]
        wait(lambda: z.written == 20)


@test
def a_dry_run_shows_what_it_would_write(tmp):
    t = Daemon(tmp, "writeback_age = 40\nrecompress_age = 8\n", "--dry-run")
    z = t.device(0, [(100, 20)])
    before = {f: z.get(f) for f in os.listdir(z.where)}
    with t.running():
        time.sleep(1.5)
    where = f"{tmp}/block/zram0"
    want = [f"echo 99999 >{where}/idle", f"echo 40 >{where}/idle",
            f"echo 8192 >{where}/writeback_limit", f"echo 1 >{where}/writeback_limit_enable",
            f"echo idle >{where}/writeback", f"echo 0 >{where}/writeback_limit_enable",
            f"echo 8 >{where}/idle", f"echo type=idle priority=1 max_pages=64 >{where}/recompress"]
    assert t.out.splitlines()[:len(want)] == want, t.out
    assert not z.log and before == {f: z.get(f) for f in os.listdir(z.where)}


@test
def what_is_wrong_with_a_configuration_is_said(tmp):
    for text, line, expected in (
            ("writeback_age = 1h\n", 1, r"writeback_age = 1h: expected seconds, 0 to 4294967295"),
            ("\n# x\nrecompress_age = 4294967296", 3, "recompress_age = 4294967296: expected sec"),
            ("recompress_cpu = 0", 1, "recompress_cpu = 0: expected percent of one CPU, 1 to 100"),
            ("writeback_budget = 8 G", 1, "writeback_budget = 8 G: expected bytes, as 8G"),
            ("writeback_budget = 16777216T", 1, "writeback_budget = 16777216T: expected bytes"),
            ("writeback_high = 101%", 1, "writeback_high = 101%: expected bytes.*or percent of mem"),
            ("writeback_high = 1G\nwriteback_low = 2G\n", 2, "writeback_low = 2147483648: expected"),
            ("writeback_high = 5%\nwriteback_low = 7%\n", 2, "writeback_low = 7%: expected no more"),
            ("age = 7", 1, "age: no such key; expected writeback_age, "),
            ("writeback_age", 1, r"writeback_age: expected key = value, or \[zramN\]"),
            ("writeback_age =", 1, "writeback_age = : expected seconds"),
            ("[sda]", 1, r"\[sda\]: expected the name of a device, as \[zram0\]"),
            ("[zram1]\n[zram1]\n", 2, r"\[zram1\]: expected one section of a device")):
        conf = os.path.join(tmp, "conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write(text)
        p = subprocess.run([EBB, "tierd", "--config", conf, "--sysfs", tmp, "--dry-run"],
                           stderr=subprocess.PIPE, timeout=LIMIT_S, check=False)
        err = p.stderr.decode()
        assert p.returncode == 1 and re.match(rf"ebb: {conf}:{line}: {expected}", err) and \
            err.count("\n") == 1, (text, err)


@test
def the_configuration_that_is_shipped_is_right(tmp):
    with open(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))),
                           "tools/systemd/tierd.conf"), encoding="utf-8") as f:
        t = Daemon(tmp, f.read())
    z = t.device(0, [(4000, 20), (700, 30)])
    with t.running():
        wait(lambda: z.written == 20 and z.groups[1]["tried"])


if __name__ == "__main__":
    sys.exit(tap.run(test, sys.argv[3:]))
