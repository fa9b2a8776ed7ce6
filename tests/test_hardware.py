#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_hardware.py - what bench/kernel/hardware refuses, and what it would do; prints TAP.

The machine is made up: a folder with some files of /proc and /sys. A real one, which it has to
leave as it was, is tests/vm/guest/hardware.sh.
"""
import argparse
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest.mock

sys.dont_write_bytecode = True
import report_data
import tap

hardware = report_data.module("hardware", "bench/kernel/hardware")
away = hardware.away
MEMORY = "MemTotal: 8388608 kB\nMemFree: 4194304 kB\nMemAvailable: 4194304 kB\n"
SWAPS = "Filename\tType\tSize\tUsed\tPriority\n"
IN_TREE = f"lib/modules/{hardware.RELEASE}/kernel/drivers/block/zram/zram.ko.xz"
# A desktop: swap on zram0, zram1 without a size, a partition of low priority.
DESKTOP = {
    "proc/meminfo": MEMORY, "proc/modules": "zram 65536 2 - Live 0x0\n",
    "proc/swaps": SWAPS + "/dev/zram0 partition 2097148 1048576 100\n/dev/sda2 file 999 0 -2\n",
    "proc/zoneinfo": "Node 0, zone DMA\n    high   1024\nNode 0, zone Normal\n    high   4096\n",
    "sys/block/zram0/disksize": "2147483648", "sys/block/zram1/disksize": "0",
    IN_TREE: "",
}
ARGS = argparse.Namespace(mb=256, rounds=5, only=None, yes=False, module=None, programs=None)


@contextlib.contextmanager
def there(**changed):
    """That machine with other files (/ is __); None takes one away."""
    files = {**DESKTOP, **{k.replace("__", "/"): v for k, v in changed.items()}}
    with tempfile.TemporaryDirectory(prefix="ebb-hardware-") as tmp, \
            unittest.mock.patch.object(away, "ROOT", pathlib.Path(tmp)):
        for path, text in files.items():
            if text is not None:
                file = pathlib.Path(tmp) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
        yield


def refused(text, what, *args):
    """It raises Fail, in one line that has the text in it."""
    try:
        what(*args)
    except hardware.Fail as e:
        assert text in str(e) and "\n" not in str(e), e
        return
    assert False, f"not refused: {text}"


def memory_that_the_swap_needs_is_not_counted_as_free():
    with there():
        assert hardware.room_mb() == 4096 - 1024
    with there(proc__swaps=SWAPS + "/dev/zram0 partition 9999999 3200000 100\n"):
        refused("3125 MiB are swapped out to zram, and of 4096", hardware.room_mb)


def what_is_no_swap_and_what_would_be_preferred_is_refused():
    with there(sys__block__zram1__disksize="4096"):
        refused("/dev/zram1 is set up and is no swap", hardware.room_mb)
    with there(proc__swaps=SWAPS + "/dev/sda2 partition 999 0 100\n"):
        refused("/dev/sda2 has priority 100", hardware.room_mb)
    chosen = "/dev/zram0 partition 999 0 -2\n/dev/sda2 partition 999 0 -3\n"
    with there(proc__swaps=SWAPS + chosen):
        refused("the kernel has chosen the order of the swaps /dev/zram0, /dev/sda2", hardware.room_mb)


def a_zram_that_cannot_be_taken_out_is_refused():
    with there(proc__modules=""):
        assert hardware.in_tree().name == "zram.ko.xz"
    built_in = {"proc__modules": "", "sys__class__zram-control__hot_add": ""}
    with there(**built_in):
        refused("built into this kernel", hardware.in_tree)
    with there(**{IN_TREE: None}):
        refused("there is no zram.ko", hardware.in_tree)
    with there(sys__module__zram__srcversion="ANOTHER"):
        refused("is not the one that modprobe loads", hardware.in_tree)


def more_processes_than_memory_has_room_for_are_left_out():
    with unittest.mock.patch.object(os, "sched_getaffinity", lambda _: set(range(24))):
        assert hardware.counts(256, 2000) == ([1, 2, 4], [24])
        assert hardware.counts(256, 1500) == ([1, 2], [4, 24])
        assert hardware.counts(16, 999) == ([1, 2, 4, 24], [])
        refused("take a smaller --mb", hardware.counts, 256, 500)


def what_will_happen_is_said():
    with there():
        todo = hardware.plan(ARGS, [1, 2, 4])
        text = hardware.told(ARGS, todo, [1, 2, 4], [24])
    for words in ("swap /dev/zram0 (1024 MiB in use, priority 100) is switched off",
                  "15 times zram is loaded", "The module zram is unloaded", "--restore",
                  "a swap of 4096 MiB with priority 100", "1280 MiB of memory at most",
                  "24 processes are left out", "all free memory but 68 MiB, 45 times"):
        assert words in text, (words, text)
    assert len(todo) == 9 and all(len(line) <= 100 for line in text.splitlines()), text
    assert "kill" not in str(hardware.plan(argparse.Namespace(mb=16, only="munmap"), [1]))


def no_module_is_loaded_that_the_kernel_would_refuse():
    args = argparse.Namespace(module="/nowhere/zram.ko", programs="/nowhere")
    with there():
        assert hardware.build(args)[0].name == "zram.ko"
    for path, text in (("sys__kernel__security__lockdown", "none [integrity] confidentiality"),
                       ("sys__module__module__parameters__sig_enforce", "Y")):
        with there(**{path: text}):
            refused("loads signed modules only", hardware.build, args)


def the_programs_are_built_here():
    with there():
        folder = hardware.build(argparse.Namespace(module="zram.ko", programs=None))[1]
    for name in hardware.PROGRAMS:
        p = subprocess.run([folder / name, "--np", "0"], capture_output=True, text=True,
                           check=False)
        assert p.returncode == 2 and "'0' is not a number from 1 to 512" in p.stderr, p


def an_attribute_is_written_as_it_is_not_read():
    assert away.words("comp_algorithm", "lzo [lzo-rle] zstd") == ["lzo-rle"]
    assert away.words("recomp_algorithm", "#1: lzo [zstd]\n#2: [lz4] zstd") == \
        ["algo=zstd priority=1", "algo=lz4 priority=2"]
    assert away.words("writeback_limit", "7") == ["7"]


def a_device_that_did_not_come_back_is_named():
    with there(proc__swaps=SWAPS):
        was = away.snapshot([])
        assert set(was["devices"]) == {"zram0", "zram1"} and was["zram"]["loaded"]
        away.put_back(was)
    with there(proc__swaps=SWAPS, sys__block__zram0__disksize="4096"), \
            unittest.mock.patch.object(away, "unload", lambda: None):
        refused("zram0 was {'disksize': '2147483648', 'mem_limit': '0'}, is {'disksize': '4096'",
                away.put_back, was)


def root_and_someone_to_ask_are_expected():
    def said(*argv, **kw):
        p = subprocess.run([hardware.TOP / "bench/kernel/hardware", *argv], text=True, check=False,
                           stdin=subprocess.DEVNULL, capture_output=True, **kw)
        return p.returncode, p.stderr
    assert said("--rounds", "0")[0] == 2
    with unittest.mock.patch("sys.stdin.isatty", lambda: False):
        refused("--yes goes on without", hardware.agreed, ARGS)
    if os.geteuid() == 0 and not os.stat(hardware.TOP).st_mode & 1:
        raise tap.Skip("nobody else can read this folder")
    rc, text = said("--yes", **({"user": 65534} if os.geteuid() == 0 else {}))
    assert rc == 1 and re.fullmatch("hardware: root is expected, .*\n", text), text


if __name__ == "__main__":
    sys.exit(tap.run([memory_that_the_swap_needs_is_not_counted_as_free,
                      what_is_no_swap_and_what_would_be_preferred_is_refused,
                      a_zram_that_cannot_be_taken_out_is_refused,
                      more_processes_than_memory_has_room_for_are_left_out,
                      what_will_happen_is_said, no_module_is_loaded_that_the_kernel_would_refuse,
                      the_programs_are_built_here, an_attribute_is_written_as_it_is_not_read,
                      a_device_that_did_not_come_back_is_named,
                      root_and_someone_to_ask_are_expected]))
