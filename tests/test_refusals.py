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


# name, how, whether it is refused
CASES = [
    ("library, 32 bits", lambda: library("x86", "little", ["-m32"]), True),
    ("library, big-endian", lambda: library("s390x", "big", BIG), True),
    ("module, 32 bits", lambda: module("CONFIG_MODULES=y"), True),
    ("module, big-endian", lambda: module("CONFIG_MODULES=y", "CONFIG_64BIT=y", "CONFIG_CPU_BIG_ENDIAN=y"), True),
    # The rest of the file wants the kernel's own makefiles.
    ("module, 64 bits and little-endian", lambda: module("CONFIG_MODULES=y", "CONFIG_64BIT=y"), False),
    ("module, nothing configured, as for `clean`", module, False),
]

print(f"1..{len(CASES)}")
bad = 0
for i, (name, how, refused) in enumerate(CASES, 1):
    rc, out = how()
    lines = [x for x in out.splitlines() if re.search(r"error|\*\*\*", x, re.I)]
    good = (rc != 0 and len(lines) == 1 and NEEDS in lines[0]) if refused else NEEDS not in out
    bad += not good
    if not good:
        print("\n".join("# " + x for x in out.splitlines()[-20:]))
    print(f"{'ok' if good else 'not ok'} {i} - {name}: {'refused in one line' if refused else 'not refused'}")
sys.exit(bad != 0)
