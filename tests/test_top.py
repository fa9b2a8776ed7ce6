#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_top.py [EBB [CASE...]] - `ebb top` on made-up trees of sysfs; prints TAP.

EBB is the command to run: the argument, or the environment's EBB, or build/ebb; CASEs are the only
ones to be run.  A tree is a folder with block/zramN/FILE in it, whose texts are those of kernels.
"""
import fcntl
import functools
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

import tap

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
EBB = os.path.realpath(sys.argv[1] if len(sys.argv) > 1 else
                       os.environ.get("EBB", os.path.join(ROOT, "build", "ebb")))
LIMIT_S = 60
PAGE = os.sysconf("SC_PAGE_SIZE")
ENTER, LEAVE = b"\033[?1049h", b"\033[?1049l"
TERM = dict(os.environ, TERM="xterm")

# Linux 7.3 with every option; older, without writeback, 7 figures in mm_stat; Ebb's.
STAT = "  100 0 2048 5 400 0 8192 7 0 0 0 0 0 0 0 0 0\n"
FULL = {
    "disksize": "4294967296\n", "initstate": "1\n", "comp_algorithm": "lzo-rle [zstd] lz4 \n",
    "mm_stat": f" {1000 * PAGE}  1000000  1200000  500000000  2000000  100  20  30  40\n",
    "stat": STAT, "io_stat": "  1  2  0  77\n", "bd_stat": "  200  300  400\n",
    "backing_dev": "/dev/loop7\n", "writeback_limit": "25600\n", "writeback_limit_enable": "1\n",
    "diskseq": "9\n",
}
MINIMAL = {
    "disksize": "67108864\n", "comp_algorithm": "[lzo] \n", "stat": "0 0 0 0 0 0 0 0 0 0 0\n",
    "mm_stat": "0 0 0 0 0 0 0\n", "io_stat": "0 0 0 0\n",
}
OURS = dict(FULL, release_stat=" 12288 65536 3 0 1 0\n", release_limit="1048576\n",
            diskseq="10\n")
STATE = "zram99 1 2 3 4 5\nzram10 8388608 1048576 24576 20480 5000\n"
for _name in ("bd_stat", "backing_dev", "writeback_limit", "writeback_limit_enable"):
    del OURS[_name]

test = tap.Cases()


def write(path, text):
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())


def replace(path, text):
    """At once, for who reads meanwhile."""
    write(path + ".new", text)
    os.rename(path + ".new", path)


def device(sysfs, name, files, **more):
    where = os.path.join(os.fsencode(sysfs), b"block", os.fsencode(name))
    os.makedirs(where, exist_ok=True)
    for file, text in {**files, **more}.items():
        if text is not None:
            write(os.path.join(where, os.fsencode(file)), text)
    return os.fsdecode(where)


def three(tmp):
    """One device of each kind; zram10 after zram2."""
    for name, files in (("zram10", OURS), ("zram0", FULL), ("zram2", MINIMAL)):
        device(tmp, name, files)
    for name in ("sda", "loop0"):
        device(tmp, name, {"stat": STAT})
    write(os.path.join(tmp, "state"), STATE)
    return tmp


def top(sysfs, *args, status=0, stderr=""):
    p = subprocess.run([EBB, "top", "--sysfs", sysfs, "--state", f"{sysfs}/state", *args],
                       stdin=subprocess.DEVNULL, env=TERM, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=LIMIT_S, check=False)
    out, err = p.stdout.decode(), p.stderr.decode()
    assert p.returncode == status and (err == stderr if isinstance(stderr, str) else stderr(err)), \
        f"{args}: exit {p.returncode}, stderr {err!r}, stdout {out[-500:]!r}"
    return out


def devices(sysfs, *args, **more):
    return {d["device"]: d for d in json.loads(top(sysfs, "--json", *args, **more))["devices"]}


def rows(text):
    """A table as (title -> word of the row) for each device; words have no spaces in them."""
    lines = [x.split() for x in text.splitlines()]
    return {words[0]: dict(zip(lines[0], words)) for words in lines[1:]}


def prometheus(text):
    """
    (name, frozenset of labels) -> value, and name -> type, of the text format 0.0.4: every line is
    of its grammar, a family is in one piece and announced once.
    """
    samples, types, now = {}, {}, None
    word, label = r"[a-zA-Z_:][a-zA-Z0-9_:]*", r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if m := re.fullmatch(rf"# HELP ({word}) (\S.*)", line):
            assert m[1] not in types, line
            now = m[1]
        elif m := re.fullmatch(rf"# TYPE ({word}) (counter|gauge)", line):
            assert m[1] == now and now not in types, line
            types[now] = m[2]
        else:
            m = re.fullmatch(rf"({word})(?:\{{({label}(?:,{label})*)\}})? (\d+(?:\.\d{{6}})?)", line)
            assert m and m[1] == now and now in types, line
            pairs = re.findall(label, m[2] or "")
            labels = {k: re.sub(r"\\(.)", lambda c: "\n" if c[1] == "n" else c[1], v) for k, v in pairs}
            key = m[1], frozenset(labels.items())
            assert len(labels) == len(pairs) and key not in samples, line
            value = m[m.lastindex]
            assert ("." in value) == m[1].endswith("_seconds"), line
            samples[key] = float(value) if "." in value else int(value)
    for name in types:
        assert name.startswith("ebb_zram_"), name
        assert any(key[0] == name for key in samples), name
        assert (types[name] == "counter") == name.endswith("_total"), name
    return samples, types


@test
def the_table_shows_each_device_by_number_with_what_it_has(tmp):
    text = top(three(tmp), "--once")
    assert len({len(x) for x in text.splitlines()}) == 1, text
    got = rows(text)
    assert list(got) == ["zram0", "zram2", "zram10"], text
    k = PAGE // 1024
    assert got["zram0"] == {
        "device": "zram0", "algorithm": "zstd", "size": "4.0G", "stored": got["zram0"]["stored"],
        "compr": "977K", "used": "1.1M", "ratio": f"{(1000 * PAGE - 200 * 4096) / 1200000:.2f}",
        "same": f"{100 * k}K" if k == 4 else got["zram0"]["same"], "objects": got["zram0"]["objects"],
        "huge": f"{30 * k}K", "backed": "800K", "read": "1.0M", "write": "4.0M",
        "free": f"{77 * k}K" if k == 4 else got["zram0"]["free"], "held": "-",
        "bd-read": "1.2M", "bd-write": "1.6M", "budget": "100M", "24h": "-",
        "backing": "/dev/loop7"}, got
    assert got["zram2"] == dict(
        dict.fromkeys(got["zram0"], "0"), device="zram2", algorithm="lzo", size="64M", ratio="-",
        huge="-", backed="-", held="-", budget="-", backing="-",
        **{x: "-" for x in ("bd-read", "bd-write", "24h")}), got
    assert [got["zram10"][x] for x in ("held", "backed", "bd-read", "budget", "24h")] == \
        ["12K", "-", "-", "-", "1.0M/8.0M"]


@test
def json_has_every_figure_in_bytes_and_null_for_what_is_not_there(tmp):
    doc = json.loads(top(three(tmp), "--json"))
    assert abs(doc["time_unix_ms"] / 1000 - time.time()) < 60 and set(doc) == {"time_unix_ms", "devices"}
    got = {d["device"]: d for d in doc["devices"]}
    ratio = (1000 * PAGE - 200 * 4096) / 1200000
    assert abs(got["zram0"].pop("memory_ratio") - ratio) < 1e-5
    rates = [f"{x}_bytes_per_s" for x in ("read", "written", "freed", "backing_read", "backing_written")]
    rates.append("interval_s")
    held = dict.fromkeys(["held_back_bytes", "held_back_max_bytes", "held_back_limit_bytes",
                          "writeback_budget_bytes", "writeback_24h_bytes", "writeback_aged_bytes",
                          "writeback_ahead_bytes", "recompress_saved_bytes"])
    assert got["zram0"] == {
        "device": "zram0", "algorithm": "zstd", "backing_dev": "/dev/loop7", "disksize_bytes": 4 << 30,
        "stored_bytes": 1000 * PAGE, "compressed_bytes": 1000000, "memory_used_bytes": 1200000,
        "memory_limit_bytes": 500000000, "memory_used_max_bytes": 2000000, "same_bytes": 100 * PAGE,
        "objects_bytes": 900 * PAGE - 200 * 4096, "huge_bytes": 30 * PAGE, "backed_bytes": 200 * 4096,
        "compacted_bytes": 20 * PAGE, "read_bytes": 2048 * 512, "written_bytes": 8192 * 512,
        "freed_bytes": 77 * PAGE, "failed_reads": 1, "failed_writes": 2,
        "backing_read_bytes": 300 * 4096, "backing_written_bytes": 400 * 4096,
        "writeback_limit_bytes": 25600 * 4096, "writeback_limit_enabled": 1,
        **held, **dict.fromkeys(rates)}, got["zram0"]
    zero = {k: 0 for k in got["zram0"] if k not in rates and k not in held}
    for key in ("huge_bytes", "backing_dev", "backed_bytes", "backing_read_bytes",
                "backing_written_bytes", "writeback_limit_bytes", "writeback_limit_enabled"):
        zero[key] = None
    assert got["zram2"] == dict(zero, **held, **dict.fromkeys(rates), device="zram2", algorithm="lzo",
                                disksize_bytes=64 << 20, memory_ratio=None), got["zram2"]
    assert got["zram10"]["objects_bytes"] == 900 * PAGE and got["zram10"]["backed_bytes"] is None
    assert [got["zram10"][k] for k in held] == [12288, 65536, 1048576, 8 << 20, 1 << 20, 24576,
                                                20480, 5000]


@test
def prometheus_has_a_sample_for_each_figure_that_is_there_and_no_other(tmp):
    samples, types = prometheus(top(three(tmp), "--prometheus"))
    docs = devices(tmp)
    want = {("ebb_zram_devices", frozenset()): 3, ("ebb_zram_unreadable_files", frozenset()): 0,
            ("ebb_zram_info", frozenset({"device": "zram0", "algorithm": "zstd",
                                         "backing_dev": "/dev/loop7"}.items())): 1}
    for name, algorithm in (("zram2", "lzo"), ("zram10", "zstd")):
        want["ebb_zram_info", frozenset({"device": name, "algorithm": algorithm}.items())] = 1
    for name, doc in docs.items():
        for key, value in doc.items():
            if isinstance(value, int):
                metric = next(x for x in (f"ebb_zram_{key}", f"ebb_zram_{key}_total") if x in types)
                want[metric, frozenset({("device", name)})] = value
    assert samples == want, set(samples.items()) ^ set(want.items())
    assert {x for x in types if types[x] == "counter"} == {
        f"ebb_zram_{x}_total" for x in ("compacted_bytes", "read_bytes", "written_bytes", "freed_bytes",
                                        "failed_reads", "failed_writes", "backing_read_bytes",
                                        "backing_written_bytes", "writeback_aged_bytes",
                                        "writeback_ahead_bytes", "recompress_saved_bytes")}, types
    units = re.compile(r"_bytes(_total)?$")
    assert {x for x in types if not units.search(x)} == {
        "ebb_zram_" + x for x in ("devices", "unreadable_files", "info", "writeback_limit_enabled",
                                  "failed_reads_total", "failed_writes_total")}, types


@test
def a_budget_that_does_not_hold_is_off(tmp):
    device(tmp, "zram0", FULL, writeback_limit="0\n", writeback_limit_enable="0\n", backing_dev="none\n")
    device(tmp, "zram1", FULL, writeback_limit="0\n")
    device(tmp, "zram2", FULL, writeback_limit=f"{2 ** 64 - 1}\n")
    got = rows(top(tmp, "--once"))
    assert [got[f"zram{n}"]["budget"] for n in range(3)] == ["off", "0", "16E"], got
    assert got["zram0"]["backing"] == "-" and devices(tmp)["zram0"]["backing_dev"] is None
    assert devices(tmp)["zram2"]["writeback_limit_bytes"] > 2 ** 63
    samples, _ = prometheus(top(tmp, "--prometheus"))
    assert samples["ebb_zram_writeback_limit_bytes", frozenset({("device", "zram2")})] == 2 ** 64 - 1


@test
def a_day_without_a_bound_is_what_was_written(tmp):
    for n in range(3):
        device(tmp, f"zram{n}", OURS)
    write(os.path.join(tmp, "state"), "zram0 0 1048576 0 0 0\nzram1 0 2048 0 0 0\nzram2 0")
    got = rows(top(tmp, "--once"))
    assert [got[f"zram{n}"]["24h"] for n in range(3)] == ["1.0M", "2.0K", "-"], got


@test
def a_file_that_makes_no_sense_is_named_and_the_rest_is_shown(tmp):
    keys = {
        "disksize": "disksize_bytes", "mm_stat": "stored_bytes memory_used_bytes same_bytes huge_bytes "
        "objects_bytes memory_ratio", "stat": "read_bytes written_bytes",
        "io_stat": "freed_bytes failed_reads", "bd_stat": "backed_bytes objects_bytes memory_ratio",
        "writeback_limit": "writeback_limit_bytes", "release_stat": "held_back_bytes",
        "comp_algorithm": "algorithm", "backing_dev": "backing_dev",
    }
    whole = dict(OURS, **FULL)
    device(tmp, "zram1", whole)
    good = devices(tmp)["zram1"]
    for file, gone in keys.items():
        text = whole[file]
        bad = [b"", b"\n", text[:-1], text.replace("\n", "\0\n"), b"x" * 4096 + b"\n", b"\xff\xfe\n",
               "-" + text.strip() + "\n", f"{2 ** 64}\n", text.strip() + "x\n", "1,5\n"]
        if file == "comp_algorithm":
            bad = [b"", b"\n", "lz4\n", "[]\n", "[lz4\n"]
        elif file == "backing_dev":
            bad = [b"", "/dev/loop7", b"/" + b"x" * 4095 + b"\nrest\n"]
        elif file in ("stat", "mm_stat"):
            bad.remove(text.strip() + "x\n")    # behind what is wanted
            bad.append("1 2 3 4 5 6 7x 8 9\n")
            bad += ["1 2 3 4 5 6 7 x\n"] if file == "mm_stat" else []
        elif file == "release_stat":
            bad = [b"", "12\n", "12 x\n"]
        for bytes_ in bad:
            device(tmp, "zram1", whole, **{file: bytes_})
            path = f"{tmp}/block/zram1/{file}"
            told = functools.partial(lambda p, e: e.startswith(f"ebb: {p}: expected") and
                                     e.count("\n") == 1, path)
            got = devices(tmp, status=1, stderr=told)["zram1"]
            want = {k: None if k in gone.split() else v for k, v in good.items()}
            if gone.startswith("stored"):
                want.update({k: None for k in good if k.startswith(("memory", "compr", "compa"))})
            for key in ("failed_writes",) if file == "io_stat" else ():
                want[key] = None
            for key in ("backing_read_bytes", "backing_written_bytes") if file == "bd_stat" else ():
                want[key] = None
            for key in ("held_back_max_bytes",) if file == "release_stat" else ():
                want[key] = None
            assert got == want, (file, bytes_, set(got.items()) ^ set(want.items()))
        samples, _ = prometheus(top(tmp, "--prometheus", status=1, stderr=told))
        assert samples["ebb_zram_unreadable_files", frozenset()] == 1
        assert list(rows(top(tmp, "--once", status=1, stderr=told))) == ["zram1"]
        device(tmp, "zram1", whole)


@test
def a_file_that_is_no_file_is_not_waited_for(tmp):
    where = device(tmp, "zram0", FULL, io_stat=None, bd_stat=None)
    os.mkfifo(where + "/io_stat")
    os.mkdir(where + "/bd_stat")
    os.remove(where + "/stat")
    os.symlink("stat", where + "/stat")
    got = devices(tmp, status=1, stderr=lambda e: sorted(e.splitlines())[:2] == [
        f"ebb: {where}/{x}: expected a regular file" for x in ("bd_stat", "io_stat")] and
        sorted(e.splitlines())[2].startswith(f"ebb: {where}/stat: "))["zram0"]
    assert got["freed_bytes"] is None and got["stored_bytes"] == 1000 * PAGE


@test
def later_fields_and_unknown_files_do_no_harm(tmp):
    device(tmp, "zram0", dict(FULL, mm_stat=FULL["mm_stat"].strip() + " 5 words behind\n",
                              bd_stat="1 2 3 x\n", novel_stat="?"))
    got = devices(tmp)["zram0"]
    assert (got["huge_bytes"], got["backing_written_bytes"]) == (30 * PAGE, 3 * 4096), got


@test
def figures_of_two_moments_do_not_go_below_nothing(tmp):
    device(tmp, "zram0", FULL, mm_stat="4096 1 8192 0 0 5 0 0 0\n", bd_stat=f"{2 ** 60} 0 0\n")
    got = devices(tmp)["zram0"]
    assert got["objects_bytes"] == 0 and got["memory_ratio"] == 0, got
    device(tmp, "zram0", FULL, mm_stat="4096 1 8192 0 0 500 0 0 0\n", bd_stat="0 0 0\n")
    assert devices(tmp)["zram0"]["objects_bytes"] == 0


@test
def names_that_are_no_device_are_not_shown(tmp):
    for name in (b"zram", b"zramX", b"zram0\n", b"zram1 2", b"zram-1", b"zram01", b"zram0\033[2J", b"zram\xff",
                 b'zram0"} 1', b"zram99999999999", b"zram2147483648", b"azram0"):
        device(tmp, name, FULL)
    os.makedirs(f"{tmp}/block/zram5")           # no disksize: no zram device, or no longer
    write(f"{tmp}/block/zram6", "a file\n")
    for name in ("zram7", "zram07", "zram2147483647"):
        device(tmp, name, MINIMAL)
    assert [d["device"] for d in json.loads(top(tmp, "--json"))["devices"]] == ["zram7", "zram2147483647"]
    assert top(tmp, "--once").count("\n") == 3


@test
def a_name_in_a_file_cannot_forge_anything(tmp):
    evil = b'/a"b\\c\nzram9 \033]0;owned\007\r' + "\u202e".encode()
    latin = b"/dev/caf\xe9" + b"x" * 200
    device(tmp, "zram0", FULL, backing_dev=evil + b"\n", comp_algorithm=b'lz4 [z"}\\ \033[2J] lzo\n')
    device(tmp, "zram1", FULL, backing_dev=latin + b"\n", comp_algorithm=b"[" + b"a" * 100 + b"]\n")
    device(tmp, "zram2", FULL, backing_dev="/ä/" + "é" * 60 + "\n")
    text = top(tmp, "--once")
    assert len(text.splitlines()) == 4 and "\033" not in text and "\u202e" not in text, text
    got = rows(text.replace("\\x20", "_"))
    assert got["zram1"]["algorithm"] == "a" * 23 + "~" and len(got["zram1"]["backing"]) == 24, got
    assert got["zram1"]["backing"].startswith("/dev/caf\\xe9xx"), got
    assert got["zram2"]["backing"] == "/ä/" + "é" * 20 + "~", got
    docs = devices(tmp)
    assert docs["zram0"]["backing_dev"].encode() == evil and docs["zram0"]["algorithm"] == 'z"}\\ \033[2J'
    assert docs["zram1"]["backing_dev"] == "/dev/caf\\xe9" + "x" * 200
    samples, _ = prometheus(top(tmp, "--prometheus"))
    for name, doc in docs.items():
        labels = {k: doc[k] for k in ("device", "algorithm", "backing_dev")}
        assert samples["ebb_zram_info", frozenset(labels.items())] == 1, (name, samples)


@test
def no_device_is_one_line_and_an_empty_list(tmp):
    os.mkdir(tmp + "/block")
    for args in ((), ("--once",)):
        assert top(tmp, *args) == f"no zram device in {tmp}/block\n"
    assert json.loads(top(tmp, "--json"))["devices"] == []
    assert prometheus(top(tmp, "--prometheus"))[0] == {
        ("ebb_zram_devices", frozenset()): 0, ("ebb_zram_unreadable_files", frozenset()): 0}


@test
def wrong_command_lines_and_a_wrong_root_are_told_in_one_line(tmp):
    def told(value):
        return lambda e: e.startswith("ebb: ") and value in e and e.count("\n") == 1
    os.mkdir(tmp + "/block")
    for value in ("0", "-1", "1s", "1e3", "nan", "inf", "0x10", ".", "1.2.3", "0.01", "100000", "9" * 400):
        top(tmp, "--interval", value, status=2, stderr=told("--interval " + value))
    top(tmp, "--interval=", status=2, stderr=told("--interval"))
    top(tmp, "--json", "--prometheus", status=2, stderr=told("--prometheus"))
    top(tmp, "--once", "--interval", "1", status=2, stderr=told("--once"))
    top(tmp, "--prometheus", "--interval", "1", status=2, stderr=told("--prometheus"))
    top(tmp, "zram0", status=2, stderr=told("zram0"))
    top(tmp + "/no\nwhere", "--once", status=1, stderr=told("/no\\x0awhere/block"))


@test
def without_a_terminal_there_is_one_table_and_no_escape_code(tmp):
    three(tmp)
    assert top(tmp) == top(tmp, "--once") and "\033" not in top(tmp)
    env = dict(TERM, TERM="dumb")
    for args, env in (("--once", TERM), ("", env), ("", {k: v for k, v in TERM.items() if k != "TERM"})):
        master, slave = terminal(24, 80)
        with subprocess.Popen([EBB, "top", "--sysfs", tmp, "--state", f"{tmp}/state",
                               *args.split()], stdin=slave, stdout=slave,
                              stderr=slave, env=env) as p:
            os.close(slave)
            out = read_all(master)
            assert p.wait(LIMIT_S) == 0 and b"\033" not in out, out
            assert out.decode().replace("\r\n", "\n") == top(tmp, "--once"), out


class Lines:
    """`ebb top` with --interval, whose output is read by the line."""

    def __init__(self, sysfs, *args):
        self.p = subprocess.Popen([EBB, "top", "--sysfs", sysfs, "--state", f"{sysfs}/state",
                                   *args], stdin=subprocess.DEVNULL, env=TERM,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def line(self):
        assert select.select([self.p.stdout], [], [], LIMIT_S)[0], "no line in time"
        return self.p.stdout.readline()

    def until(self, good):
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            got = {d["device"]: d for d in json.loads(self.line())["devices"]}
            if good(got):
                return got
        raise AssertionError("no such line in time")

    def __exit__(self, *_):
        self.p.kill()
        self.p.communicate()


@test
def rates_are_what_counters_grew_by_each_second(tmp):
    where = os.path.join(tmp, "first")
    os.rename(device(tmp, "zram0", OURS), where)
    os.symlink(where, f"{tmp}/block/zram0")     # as in sysfs
    with Lines(tmp, "--json", "--interval", "0.3") as run:
        first = json.loads(run.line())["devices"][0]
        assert first["read_bytes_per_s"] is None and first["read_bytes"] == 2048 * 512
        run.until(lambda d: d["zram0"]["read_bytes_per_s"] == 0)
        replace(where + "/io_stat", f"0 0 0 {77 + 1000}\n")
        replace(where + "/stat", STAT.replace("2048", str(2048 + 6000)))
        seen = {"read": 0, "freed": 0}
        while not all(seen.values()):
            got = run.until(lambda d: True)
            for key in seen:
                seen[key] += got["zram0"][f"{key}_bytes_per_s"] * got["zram0"]["interval_s"]
        assert abs(seen["read"] / (6000 * 512) - 1) < 1e-5, seen
        assert abs(seen["freed"] / (1000 * PAGE) - 1) < 1e-5, seen
        assert 0.05 < got["zram0"]["interval_s"] < LIMIT_S
        assert got["zram0"]["written_bytes_per_s"] == 0
        assert got["zram0"]["backing_read_bytes_per_s"] is None
        # A reset takes the counters back to nothing: no rate, rather than a large or a negative
        # one.
        replace(where + "/stat", "0 0 0 0 0 0 0 0 0 0 0\n")
        got = run.until(lambda d: d["zram0"]["read_bytes"] == 0)
        assert got["zram0"]["read_bytes_per_s"] is None, got
        # Another device under the same name.
        run.until(lambda d: d["zram0"]["read_bytes_per_s"] == 0)
        second = shutil.copytree(where, os.path.join(tmp, "second"))
        write(second + "/stat", STAT)
        write(second + "/diskseq", "11\n")
        os.symlink(second, f"{tmp}/link")
        os.rename(f"{tmp}/link", f"{tmp}/block/zram0")
        got = run.until(lambda d: d["zram0"]["read_bytes"])
        assert got["zram0"]["read_bytes_per_s"] is None, got


@test
def a_device_that_goes_between_two_looks_is_left_out(tmp):
    three(tmp)
    with Lines(tmp, "--json", "--interval", "0.05") as run:
        run.until(lambda d: list(d) == ["zram0", "zram2", "zram10"])
        os.rename(f"{tmp}/block/zram2", f"{tmp}/block/gone")
        run.until(lambda d: list(d) == ["zram0", "zram10"])
        os.rename(f"{tmp}/block/gone", f"{tmp}/block/zram2")
        run.until(lambda d: list(d) == ["zram0", "zram2", "zram10"])


@test
def a_device_that_goes_during_a_look_is_left_out_whole(tmp):
    device(tmp, "zram0", FULL)
    write(os.path.join(tmp, "state"), "zram1 1 2 3 4 5\n")
    over = threading.Event()

    def churn():
        # As the kernel does: disksize is the first to go.
        while not over.is_set():
            where = device(tmp, "new", dict(OURS, **FULL))
            os.rename(where, f"{tmp}/block/zram1")
            time.sleep(0.001)
            for file in sorted(os.listdir(f"{tmp}/block/zram1"), key=lambda x: x != "disksize"):
                os.remove(f"{tmp}/block/zram1/{file}")
            os.rmdir(f"{tmp}/block/zram1")

    t = threading.Thread(target=churn)
    t.start()
    try:
        whole = None
        with Lines(tmp, "--json", "--interval", "0.05") as run:
            for _ in range(20):
                got = run.until(lambda d: "zram0" in d)
                if "zram1" in got:
                    now = {k: v for k, v in got["zram1"].items() if not k.endswith("_s")}
                    whole = whole or now
                    assert now == whole and None not in now.values(), now
            run.p.terminate()
            assert run.p.communicate()[1] == ""
        for _ in range(30):
            top(tmp, "--once")
    finally:
        over.set()
        t.join()


@test
def with_an_interval_one_table_follows_the_other(tmp):
    where = device(three(tmp), "zram2", MINIMAL)
    with Lines(tmp, "--interval", "0.1") as run:
        first = "".join(run.line() for _ in range(4))
        assert [rows(first)["zram0"][x] for x in ("read/s", "write/s", "free/s")] == ["-"] * 3, first
        assert run.line() == "\n"
        second = "".join(run.line() for _ in range(4))
        assert rows(second)["zram0"]["read/s"] == rows(second)["zram0"]["bd-read/s"] == "0", second
        assert rows(second)["zram10"]["bd-read/s"] == "-" and "\033" not in first + second, second
        # A wrong file is named once, not in each round.
        replace(where + "/io_stat", "x\n")
        while rows(second)["zram2"]["free/s"] != "-":
            assert run.line() == "\n"
            second = "".join(run.line() for _ in range(4))
        for _ in range(5 * 3):
            run.line()
        run.p.send_signal(signal.SIGINT)
        err = run.p.communicate(timeout=LIMIT_S)[1]
        assert run.p.returncode == 130 and err.count("\n") == 1 and where + "/io_stat" in err, err


@test
def a_long_wait_ends_with_a_signal(tmp):
    three(tmp)
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with Lines(tmp, "--json", "--interval", "86400") as run:
            run.line()
            run.p.send_signal(sig)
            assert run.p.wait(LIMIT_S) == 128 + sig


@test
def an_output_that_is_full_or_closed_is_a_failure(tmp):
    three(tmp)
    if os.path.exists("/dev/full"):
        for args in (("--once",), ("--json",), ("--prometheus",), ("--interval", "1"),
                     ("--json", "--interval", "1")):
            with open("/dev/full", "wb") as full:
                p = subprocess.run([EBB, "top", "--sysfs", tmp, *args], stdout=full, env=TERM, check=False,
                                   stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
            assert p.returncode == 1 and p.stderr.count("\n") == 1, (args, p.returncode, p.stderr)
    with Lines(tmp, "--interval", "0.05") as run:
        run.line()
        run.p.stdout.close()
        assert run.p.wait(LIMIT_S) in (1, -signal.SIGPIPE)
        run.p.stdout = None


@test
def any_bytes_in_the_files_give_an_answer(tmp):
    seed = int(os.environ.get("EBB_TEST_SEED", time.time_ns()))
    rng = random.Random(seed)
    files = dict(OURS, **FULL)
    pieces = [b"0", b" ", b"\n", b"\0", b"-", b"[", b"]", b"9" * 25, b"\xff", b"\033", b"none", b"\t"]
    for _ in range(40 * int(os.environ.get("EBB_TEST_SCALE", "100")) // 100 + 5):
        text = {}
        for file, good in files.items():
            data = bytearray(good.encode())
            for _ in range(rng.randrange(3)):
                at = rng.randrange(len(data) + 1)
                data[at:at + rng.randrange(4)] = rng.choice(pieces)
            text[file] = bytes(data)
        device(tmp, "zram0", text)
        for args in ("--json", "--prometheus", "--once"):
            p = subprocess.run([EBB, "top", "--sysfs", tmp, "--state", f"{tmp}/state", args],
                               stdout=subprocess.PIPE, timeout=LIMIT_S,
                               stderr=subprocess.PIPE, check=False, stdin=subprocess.DEVNULL)
            why = f"seed {seed}: {args} {text}: {p.returncode} {p.stderr!r} {p.stdout!r}"
            assert p.returncode == (1 if p.stderr else 0), why
            out = p.stdout.decode()
            if args == "--json":
                json.loads(out)
            elif args == "--prometheus":
                prometheus(out)
            else:
                assert out.count("\n") == 2, why


# ---- on a terminal ----

def terminal(height, width):
    try:
        master, slave = pty.openpty()
    except OSError as why:
        raise tap.Skip(f"no terminal can be had: {why}") from None
    resize(master, height, width)
    return master, slave


def resize(master, height, width):
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


def read_all(master):
    """Until nobody has the other end."""
    out = b""
    while select.select([master], [], [], LIMIT_S)[0]:
        try:
            more = os.read(master, 4096)
        except OSError:
            more = b""
        if not more:
            break
        out += more
    return out


class Screen:
    """A command on a terminal that is its controlling one; its output, and what it shows."""

    def __init__(self, argv, height=24, width=80):
        self.master, self.slave = terminal(height, width)
        self.before = termios.tcgetattr(self.slave)
        self.out = b""
        self.p = subprocess.Popen(argv, stdin=self.slave, stdout=self.slave, stderr=self.slave,
                                  env=TERM, start_new_session=True,
                                  preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def __enter__(self):
        return self

    def wait_for(self, good):
        """Reads until good(output since the last call) is true; returns that."""
        end = time.monotonic() + LIMIT_S
        since = b""
        while not good(since):
            assert time.monotonic() < end, f"not in time: {since[-2000:]!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                since += os.read(self.master, 65536)
        self.out += since
        return since

    def frame(self):
        """The lines of a frame that is whole."""
        since = self.wait_for(lambda b: b.count(b"\033[H") >= 2)
        return frames(since)[-2]

    def restored(self):
        return termios.tcgetattr(self.slave) == self.before

    def end(self):
        """Exit status of the command; the rest is read meanwhile."""
        end = time.monotonic() + LIMIT_S
        while self.p.poll() is None:
            assert time.monotonic() < end, "it does not end"
            if select.select([self.master], [], [], 0.05)[0]:
                self.out += os.read(self.master, 65536)
        while select.select([self.master], [], [], 0)[0]:
            self.out += os.read(self.master, 65536)
        return self.p.returncode

    def __exit__(self, *_):
        if self.p.poll() is None:
            self.p.kill()
        self.p.wait()
        os.close(self.master)
        os.close(self.slave)


def frames(out):
    return [re.sub(r"\033\[[0-9;?]*[A-Za-z]", "", x).replace("\r", "").split("\n")
            for x in out.decode(errors="replace").split("\033[H")]


def on_terminal(sysfs, *args, **more):
    return Screen([EBB, "top", "--sysfs", sysfs, "--state", f"{sysfs}/state", *args], **more)


@test
def on_a_terminal_it_refreshes_in_place_until_q(tmp):
    where = device(three(tmp), "zram0", FULL)
    with on_terminal(tmp, "--interval", "0.1", height=30, width=200) as screen:
        lines = screen.frame()
        assert lines[0].startswith("ebb top: 3 devices, every 0.1 s") and "q ends" in lines[0], lines
        got = rows("\n".join(lines[2:6]))
        assert got["zram0"]["used"] == "1.1M" and got["zram0"]["backing"] == "/dev/loop7", lines
        assert not screen.restored() and screen.out.count(ENTER) == 1 and LEAVE not in screen.out
        replace(where + "/disksize", "8589934592\n")
        screen.wait_for(lambda b: b"8.0G" in b)
        replace(where + "/bd_stat", "\033[2Jwrong\n")
        screen.wait_for(lambda b: b"zram0/bd_stat: expected" in b)
        shutil.rmtree(tmp + "/block")
        os.mkdir(tmp + "/block")
        screen.wait_for(lambda b: b"no zram device in" in b)
        os.write(screen.master, b"xyz")
        screen.frame()
        os.write(screen.master, b"q")
        assert screen.end() == 0 and screen.restored(), screen.out[-200:]
        assert screen.out.endswith(LEAVE) and screen.out.count(LEAVE) == 1


@test
def lines_fit_a_terminal_of_any_size_and_follow_it(tmp):
    where = device(three(tmp), "zram0", FULL, backing_dev="/dev/disk/by-id/" + "ä" * 300 + "\n")
    write(where + "/io_stat", "x\n")
    with on_terminal(tmp, "--interval", "86400", height=24, width=80) as screen:
        screen.wait_for(lambda b: b"io_stat: expected" in b)
        lines = frames(screen.out)[-1]
        # Two tables, which show everything: at most 80 columns each but for what is backing.
        assert sum(x.startswith("device") for x in lines) == 2, lines
        assert any(x.rstrip().endswith("backed") for x in lines) and any("read/s" in x for x in lines), lines
        for height, width, whole in ((24, 200, 8), (50, 40, 13), (3, 20, 13), (1, 1, 13),
                                     (13, 80, 13)):
            resize(screen.master, height, width)
            n = min(height, whole)
            out = screen.wait_for(lambda b, n=n, last=b"\033[J" if n < height else b"":
                                  b.count(b"\033[K") == n and b.endswith(last))
            lines = frames(out)[-1][:n]
            assert max(map(len, lines)) <= width and out.count(b"\033[H") == 1, (height, width, lines)
            assert out.count(b"\n") == (n if n < height else n - 1), (height, width, out)
        os.write(screen.master, b"q")
        assert screen.end() == 0 and screen.restored()


@test
def every_way_out_gives_the_terminal_back(tmp):
    three(tmp)
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT,
                signal.SIGSEGV, signal.SIGPIPE, signal.SIGALRM, signal.SIGUSR1, signal.SIGXCPU):
        with on_terminal(tmp, "--interval", "86400") as screen:
            screen.wait_for(lambda b: b"zram10" in b)
            assert not screen.restored()
            screen.p.send_signal(sig)
            caught = sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            assert screen.end() == (128 + sig if caught else -sig), (
                sig, screen.p.returncode, screen.out[-300:])
            assert screen.restored() and screen.out.count(LEAVE) == 1, (sig, screen.out[-300:])
    # A failure in the middle.
    with on_terminal(tmp, "--interval", "0.1") as screen:
        screen.wait_for(lambda b: b"zram10" in b)
        os.rename(tmp + "/block", tmp + "/elsewhere")
        assert screen.end() == 1 and screen.restored(), screen.out[-300:]
        assert screen.out.index(b"ebb: ") > 0 and screen.out.count(LEAVE) == 1
        os.rename(tmp + "/elsewhere", tmp + "/block")
    # As typed.
    for key, status in ((b"\x03", 130), (b"\x1c", -signal.SIGQUIT)):
        with on_terminal(tmp) as screen:
            screen.wait_for(lambda b: b"zram10" in b)
            os.write(screen.master, key)
            assert screen.end() == status and screen.restored(), (key, screen.p.returncode)


@test
def what_failed_is_said_on_the_terminal_that_was_there_before(tmp):
    three(tmp)
    with on_terminal(tmp, "--interval", "0.1") as screen:
        screen.wait_for(lambda b: b"zram10" in b)
        os.rename(tmp + "/block", tmp + "/elsewhere")
        assert screen.end() == 1, screen.out[-300:]
        assert screen.out.rindex(LEAVE) < screen.out.rindex(b"ebb: "), screen.out[-300:]


@test
def a_stop_gives_the_terminal_back_and_going_on_takes_it_again(tmp):
    three(tmp)
    with Screen(["/bin/sh", "-mc", f"'{EBB}' top --sysfs '{tmp}' --interval 86400; echo stopped; "
                 "read x; fg; echo over $?"]) as screen:
        for _ in range(2):
            screen.wait_for(lambda b: ENTER in b and b"zram10" in b)
            if screen.out.count(ENTER) == 1:
                os.write(screen.master, b"\x1a")
                out = screen.wait_for(lambda b: b"stopped" in b)
                assert LEAVE in out and screen.restored(), out
                os.write(screen.master, b"\n")
        assert not screen.restored()
        os.write(screen.master, b"q")
        out = screen.wait_for(lambda b: b"over" in b)
        assert b"over 0" in out and LEAVE in out and screen.restored(), out


@test
def a_terminal_that_goes_away_ends_it(tmp):
    three(tmp)
    master, slave = terminal(24, 80)
    with subprocess.Popen([EBB, "top", "--sysfs", tmp, "--interval", "86400"], stdin=slave, stdout=slave,
                          stderr=subprocess.DEVNULL, env=TERM) as p:
        os.close(slave)
        try:
            assert select.select([master], [], [], LIMIT_S)[0] and os.read(master, 4096)
            os.close(master)
            p.wait(LIMIT_S)
        finally:
            p.kill()


if __name__ == "__main__":
    # What nohup or a script's `&` ignores would stay ignored in the command.
    for _sig in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(_sig, signal.SIG_DFL)
    sys.exit(tap.run(test, sys.argv[2:]))
