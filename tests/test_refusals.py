#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_refusals.py MESON - a machine that Ebb is not for is refused in one line; prints TAP.

MESON is the command, which may have words of its own. A compiler for the machine is not needed:
the one that is here says of itself what that machine's would.
"""
import os
import re
import subprocess
import sys
import tempfile

import tap

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
MESON = sys.argv[1:] or ["meson"]
NEEDS = "Ebb needs a 64-bit little-endian machine"
BIG = ["-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__"]
CROSS = """[binaries]
c = {c}
ar = 'ar'
pkg-config = 'pkg-config'
[host_machine]
system = 'linux'
cpu_family = '{family}'
cpu = '{family}'
endian = '{endian}'
[properties]
needs_exe_wrapper = true
"""


def library(family, endian, flags):
    """What `meson setup` says for a compiler with these flags."""
    with tempfile.TemporaryDirectory(prefix="ebb-refusals-") as tmp:
        cross = os.path.join(tmp, "cross")
        with open(cross, "w", encoding="utf-8") as f:
            f.write(CROSS.format(c=["gcc", *flags], family=family, endian=endian))
        return run([*MESON, "setup", os.path.join(tmp, "build"), ROOT, "--cross-file", cross])


def module(*config):
    """What make says of kernel/Kbuild in a kernel of this configuration."""
    return run(["make", "--no-print-directory", "-rR", "-f", os.path.join(ROOT, "kernel/Kbuild"), "obj=kernel", "src=kernel",
                *config])


def run(argv):
    p = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                       check=False)
    return p.returncode, p.stdout


def refused(how, *args):
    rc, out = how(*args)
    lines = [x for x in out.splitlines() if re.search(r"error|\*\*\*", x, re.I)]
    assert rc and len(lines) == 1 and NEEDS in lines[0], out[-2000:]


def taken(how, *args):
    out = how(*args)[1]
    assert NEEDS not in out, out[-2000:]


sys.exit(tap.run([
    ("a library of 32 bits is refused in one line",
     lambda: refused(library, "x86", "little", ["-m32"])),
    ("a big-endian one as well", lambda: refused(library, "s390x", "big", BIG)),
    ("a module of 32 bits is refused in one line", lambda: refused(module, "CONFIG_MODULES=y")),
    ("a big-endian one as well", lambda: refused(
        module, "CONFIG_MODULES=y", "CONFIG_64BIT=y", "CONFIG_CPU_BIG_ENDIAN=y")),
    # The rest of the file wants the kernel's own makefiles.
    ("64 bits and little-endian are not",
     lambda: taken(module, "CONFIG_MODULES=y", "CONFIG_64BIT=y")),
    ("nor is what has no configuration, as `clean`", lambda: taken(module)),
]))
