# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""This machine's zram put away, with its swap and some settings, and back as it was.

    snapshot(depends)    what a run changes, in a form that JSON keeps
    put_away(was, ...)   swap, devices, module; settings as they are given
    put_back(was)        all as the snapshot says, from any state in between; Fail says what is not
    unload()             swap on zram is switched off, and the module unloaded

A device is all its attributes that can be read and written, the limit of its memory, and of its
swap the priority and the header, in which are label and UUID. What is written to algorithm_params,
and with what options swapon was called, nothing tells: for a device of zram-generator, systemd does
both again.
"""
import base64
import contextlib
import os
import pathlib
import re
import subprocess
import time

from boots import harness
from harness import Fail

ROOT = pathlib.Path("/")        # tests have one of their own
SETTINGS = ("proc/sys/vm/page-cluster", "proc/sys/vm/overcommit_memory",
            "proc/sys/vm/percpu_pagelist_high_fraction", "sys/module/zswap/parameters/enabled")


def read(path):
    """The text of a file, "" if there is none."""
    try:
        return (ROOT / path).read_text().strip()
    except OSError:
        return ""


def write(path, text):
    try:
        (ROOT / path).write_text(text)
    except OSError as e:
        raise Fail(f"/{path} does not take '{text}': {e.strerror}") from None


def must(*argv, **kw):
    """What a command prints. The terminal's Ctrl-C does not reach it."""
    p = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, start_new_session=True, check=False,
                       env=dict(os.environ, LC_ALL="C"), **kw)
    if p.returncode:
        said = (p.stderr or p.stdout).strip().splitlines() or [f"exit status {p.returncode}"]
        raise Fail(f"{' '.join(map(str, argv))}: {said[-1]}")
    return p.stdout.strip()


def tries(*argv):
    """The same where a failure is an answer, "" then."""
    with contextlib.suppress(Fail, FileNotFoundError):
        return must(*argv)
    return ""


def settle():
    """udev, if there is one, has looked at what is new, and holds nothing."""
    tries("udevadm", "settle", "--timeout=10")


def swaps():
    """Device -> (MiB in use, priority)."""
    rows = [line.split() for line in read("proc/swaps").splitlines()[1:]]
    return {r[0]: (int(r[3]) // 1024, int(r[4])) for r in rows}


def zram_swaps():
    return {dev: of for dev, of in swaps().items() if dev.startswith("/dev/zram")}


def loaded():
    return bool(re.search(r"^zram ", read("proc/modules"), re.M))


def zrams():
    return {p.name for p in (ROOT / "sys/block").glob("zram*")}


def unit(name):
    """zram-generator's, of a device."""
    return f"systemd-zram-setup@{name}.service"


def device(name):
    folder = ROOT / "sys/block" / name
    have = {f.name: read(f) for f in folder.iterdir() if f.is_file() and
            f.stat().st_mode & 0o600 == 0o600 and f.name not in ("uevent", "events_poll_msecs")}
    have["mem_limit"] = (read(folder / "mm_stat").split() + ["0"] * 4)[3]
    used = swaps().get(f"/dev/{name}")
    if used:
        managed = tries("systemctl", "is-active", unit(name)) == "active"
        with open(ROOT / "dev" / name, "rb") as f:
            header = "" if managed else base64.b64encode(f.read(os.sysconf("SC_PAGESIZE"))).decode()
        # A priority below 0 is the kernel's choice.
        have["swap"] = {"priority": max(used[1], -1), "unit": managed, "header": header}
    return have


def snapshot(depends):
    """depends: the modules that will be loaded beside zram."""
    return {"zram": {"loaded": loaded()}, "devices": {d: device(d) for d in sorted(zrams())},
            "settings": {p: read(p) for p in SETTINGS if read(p)},
            "depends": {d: bool(read(f"sys/module/{d}/initstate")) for d in depends}}


def unload():
    for dev in zram_swaps():
        must("swapoff", dev)
    for left in range(50, -1, -1):
        settle()
        try:
            return loaded() and must("rmmod", "zram")
        except Fail:
            if not left:
                raise
            time.sleep(0.2)


def put_away(was, settings):
    """settings: the texts of SETTINGS, None where it stays."""
    for name, dev in was["devices"].items():
        if "swap" in dev:
            must("swapoff", f"/dev/{name}")
            if dev["swap"]["unit"]:     # systemd would reset a later zram0 when this one is gone
                must("systemctl", "stop", unit(name))
    unload()
    for path, text in zip(SETTINGS, settings):
        if text and path in was["settings"]:
            write(path, text)


def words(attribute, text):
    """What is written to an attribute that shall read as `text`."""
    if attribute == "comp_algorithm":
        return re.findall(r"\[(\S+)\]", text)
    if attribute == "recomp_algorithm":
        return [f"algo={a} priority={n}" for n, a in re.findall(r"#(\d+):.*\[(\S+)\]", text)]
    return [text]


def set_up(name, dev):
    """A device that nobody uses. Some attributes are for before it has its size, some for after
    it, so a refusal says nothing: what came of it is looked at in the end."""
    write(f"sys/block/{name}/reset", "1")
    others = [a for a in sorted(dev) if a not in ("swap", "disksize")]
    for attribute in [*others, "disksize", *others]:
        if device(name).get(attribute) != dev[attribute]:
            for text in words(attribute, dev[attribute]):
                with contextlib.suppress(Fail):
                    write(f"sys/block/{name}/{attribute}", text)
    if "swap" not in dev:
        return
    with open(ROOT / "dev" / name, "r+b") as f:
        f.write(base64.b64decode(dev["swap"]["header"]))
        f.flush()
        os.fsync(f.fileno())
    if not dev["swap"]["header"]:
        must("mkswap", f"/dev/{name}")
    priority = dev["swap"]["priority"]
    must("swapon", *(["-p", priority] if priority >= 0 else []), f"/dev/{name}")


def devices_back(devices):
    must("modprobe", "zram")
    for _ in range(256):
        if zrams() >= set(devices):
            break
        read("sys/class/zram-control/hot_add")
    for name in zrams() - set(devices):
        write("sys/class/zram-control/hot_remove", name[4:])
    settle()
    for name, dev in devices.items():
        if "swap" in dev and dev["swap"]["unit"]:
            tries("systemctl", "start", f"dev-{name}.swap")
        if device(name) != dev:
            if f"/dev/{name}" in swaps():
                must("swapoff", f"/dev/{name}")
            settle()
            set_up(name, dev)


def put_back(was):
    wrong = []

    def step(what, *args):
        try:
            what(*args)
        except (Fail, OSError) as e:
            wrong.append(str(e))

    try:
        same = snapshot(was["depends"]) == was
    except (Fail, OSError):
        same = False
    if not same:
        step(unload)
        if was["zram"]["loaded"] and not loaded():
            step(devices_back, was["devices"])
        for path, text in was["settings"].items():
            step(write, path, text)
        for name, there in was["depends"].items():
            if not there:
                tries("modprobe", "-r", name)
    now = snapshot(was["depends"])
    wrong += [f"{name} was {text}, is {now[part].get(name)}" for part, had in was.items()
              for name, text in had.items() if now[part].get(name) != text]
    if wrong:
        raise Fail("not all is as it was: " + "; ".join(wrong))
