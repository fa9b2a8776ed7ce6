#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_lto.py - the libraries as distributions and cross compilers build them; prints TAP.

Link-time optimization leaves objects that hold no code: libebb.a must be of code all the same, with
the names of ebb.h and no others.
"""
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import tap

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
WORK = os.path.join(ROOT, "build", "check", "lto")
MAP = os.path.join(ROOT, "user", "api", "libebb.map")
MESON = shutil.which("meson", path="/usr/bin:" + os.environ["PATH"])
WAYS = {
    "with -flto=auto in CFLAGS": (["--buildtype=plain"], {"CFLAGS": "-O2 -flto=auto"}),
    "with fat objects": (["--buildtype=plain"], {"CFLAGS": "-O2 -flto=auto -ffat-lto-objects"}),
    "with -Db_lto=true": (["-Db_lto=true"], {}),
}


def run(argv, **more):
    more["env"] = {**os.environ, **more.get("env", {})}
    p = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, errors="replace", timeout=600,
                       check=False, cwd=ROOT, **more)
    assert p.returncode == 0, f"{' '.join(argv)}: exit {p.returncode}: {p.stdout[-1500:]}"
    return p.stdout


def built(way):
    """Both libraries, and a program on the static one that is linked without optimization."""
    options, env = WAYS[way]
    where = os.path.join(WORK, "build")
    shutil.rmtree(where, ignore_errors=True)
    run([MESON, "setup", where, "-Dtests=disabled", "-Dwerror=true", *options], env=env)
    run(["ninja", "-C", where, "-j", "2", "libebb.so.0.1.0", "libebb.a"])
    archive = os.path.join(where, "libebb.a")
    run(["scripts/exports", MAP, os.path.join(where, "libebb.so"), archive])
    sections = run(["readelf", "-WS", archive])
    assert ".text" in sections and ".gnu.lto_" not in sections, sections[:1000]
    exe = os.path.join(WORK, "example")
    run(["cc", "-fno-lto", "-o", exe, "examples/roundtrip.c", "-Iuser/api", archive, "-llz4", "-lzstd",
         "-llzo2", "-lpthread"])
    run([exe])


def cross():
    """An archive of one object with a public and an inner name: no library is needed for that."""
    cc = "aarch64-linux-gnu-gcc"
    if not shutil.which(cc):
        raise tap.Skip(f"no {cc} here")
    source, obj, inner, out = (os.path.join(WORK, n) for n in ("x.c", "x.o", "inner.a", "libx.a"))
    with open(source, "w", encoding="utf-8") as f:
        f.write("int inner(void);\nint inner(void) { return 1; }\n"
                "int ebb_open(void);\nint ebb_open(void) { return inner(); }\n")
    run([cc, "-ffreestanding", "-c", "-o", obj, source])
    if os.path.exists(inner):
        os.remove(inner)
    run(["ar", "rcs", inner, obj])
    run(["scripts/static-lib", out, MAP, cc, "-DA='a b'", "--", inner])
    lines = [x.split() for x in run(["nm", "-g", "--defined-only", out]).splitlines()]
    assert [x[2] for x in lines if len(x) == 3] == ["ebb_open"], lines
    assert "AArch64" in run(["readelf", "-h", out])


def main():
    tests = [("the libraries are right " + way, lambda way=way: built(way)) for way in WAYS]
    tests.append(("a cross compiler's objects meet its own tools", cross))
    os.makedirs(WORK, exist_ok=True)
    return tap.run(tests)


if __name__ == "__main__":
    sys.exit(main())
