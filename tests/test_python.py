#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_python.py [--full] - builds python/ as a wheel, installs it and runs its tests; prints TAP.

The virtual environment is build/python/check (full), with the versions of python/lock/.  --full:
zarr and what else the lock has, the oldest and the newest zarr, the types, the sdist, a libebb that
is installed, and other interpreters.
"""
import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zipfile

sys.dont_write_bytecode = True
import tap

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
WORK = os.path.join(ROOT, "build", "python")
DIST = os.path.join(WORK, "dist")
FULL = sys.argv[1:] == ["--full"]
VENV = os.path.join(WORK, "full" if FULL else "check")
OLDEST = (3, 11)
OTHERS = ("3.11", "3.12", "3.13", "3.14", "3.13t", "3.14t")


def run(argv, rc=0, timeout=900, **env):
    """Its output.  rc: the exit status that it must have; None: any, but no signal."""
    p = subprocess.run(argv, cwd=ROOT, env=dict(os.environ, **env), stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
    assert p.returncode == rc or (rc is None and p.returncode >= 0), \
        f"{' '.join(argv)}: exit status {p.returncode}\n" + "\n".join(p.stdout.splitlines()[-40:])
    return p.stdout


def tool(name, venv=None):
    return os.path.join(venv or VENV, "bin", name)


def environment(venv, locks, python=sys.executable):
    """A virtual environment with what the locks name; Skip if it cannot be had here."""
    stamp = os.path.join(venv, "pyebb-lock")
    said = python + "".join(open(os.path.join(ROOT, "python", "lock", k), encoding="utf-8").read()
                            for k in locks)
    if os.path.exists(stamp) and open(stamp, encoding="utf-8").read() == said:
        return
    shutil.rmtree(venv, ignore_errors=True)
    try:
        run([python, "-m", "venv", venv])
    except AssertionError as e:
        raise tap.Skip("python3 makes no virtual environment here; Debian has it in python3-venv: "
                       + str(e).splitlines()[-1]) from None
    words = [w for k in locks for w in ("-r", os.path.join("python", "lock", k))]
    out = run([tool("pip", venv), "install", "-q", "--retries", "1", "--timeout", "20", *words],
              rc=None)
    if run([tool("pip", venv), "check"], rc=None) and not os.path.exists(tool("pytest", venv)):
        shutil.rmtree(venv, ignore_errors=True)
        raise tap.Skip("what python/lock names cannot be had here: "
                       + (out.strip().splitlines() or ["no word"])[-1])
    with open(stamp, "w", encoding="utf-8") as f:
        f.write(said)


def sources():
    """A digest of what the wheel is made of."""
    digest = hashlib.sha256()
    for folder in ("core", "user", "python"):
        for where, dirs, names in sorted(os.walk(os.path.join(ROOT, folder))):
            dirs[:] = [d for d in dirs if d != "tests" and not d.startswith((".", "__"))]
            for name in sorted(names):
                path = os.path.join(where, name)
                digest.update(path.encode())
                with open(path, "rb") as f:
                    digest.update(f.read())
    return digest.hexdigest()


def build(what, where, venv, *arguments):
    """A wheel without build isolation; its path."""
    shutil.rmtree(where, ignore_errors=True)
    run([tool("pip", venv), "wheel", "-q", "--no-build-isolation", "--no-deps", "--no-index",
         "-w", where, *arguments, what],
        PATH=os.path.join(venv, "bin") + os.pathsep + os.environ["PATH"])
    (wheel,) = glob.glob(os.path.join(where, "*.whl"))
    return wheel


def the_wheel():
    found = glob.glob(os.path.join(DIST, "*.whl"))
    assert len(found) == 1, "the wheel was not built"
    return found[0]


def the_wheel_is_one_for_all_interpreters_and_has_no_lzo():
    stamp, now = os.path.join(WORK, "sources"), sources()
    if not (glob.glob(os.path.join(DIST, "*.whl")) and os.path.exists(stamp)
            and open(stamp, encoding="utf-8").read() == now):
        obj = os.path.join(WORK, "obj")
        shutil.rmtree(obj, ignore_errors=True)
        os.makedirs(WORK, exist_ok=True)
        build("./python", DIST, VENV, "--config-settings=build-dir=" + obj)
        with open(stamp, "w", encoding="utf-8") as f:
            f.write(now)
    wheel = the_wheel()
    assert "-cp311-abi3-linux_" in wheel, wheel
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("pyebb/_core.abi3.so", "pyebb/py.typed", "pyebb/_core.pyi"):
        assert name in names, f"{name} is not in the wheel"
    assert not any("lzo" in n for n in names), names
    run([tool("pip"), "install", "-q", "--no-index", "--no-deps", "--force-reinstall", wheel])
    out = run([tool("python"), "-c", "import pyebb; print(*pyebb.codecs(), pyebb.version())"])
    assert out.split()[:-1] == ["lz4", "lz4hc", "zstd"], out


def pytest_cases(name, python, arguments, timeout=900, **env):
    """Runs the tests; a TAP case for each test function."""
    with tempfile.TemporaryDirectory() as where:
        report = os.path.join(where, "report.xml")
        out = run([python, "-X", "dev", "-m", "pytest", "-q", "-p", "no:cacheprovider",
                   "--rootdir=python", "-c", "python/pyproject.toml", "--junitxml=" + report,
                   *arguments], rc=None, timeout=timeout, **env)
        assert os.path.exists(report), out[-2000:]
        functions = {}
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            key = case.get("classname").split(".")[-1] + ": " + case.get("name").split("[")[0]
            bad = [w for w in case if w.tag in ("failure", "error")]
            skip = [w for w in case if w.tag == "skipped"]
            word = (2, bad[0].get("message")) if bad else (0, skip[0].get("message")) if skip \
                else (1, "")
            functions[key] = max(functions.get(key, (0, "")), word)

    def show(verdict, why):
        def case():
            if verdict == 2:
                raise AssertionError(why + "\n" + "\n".join(out.splitlines()[-60:]))
            if verdict == 0:
                raise tap.Skip(why)
        return case

    assert functions, out[-2000:]
    return [(name + key, show(*word)) for key, word in functions.items()]


# ---- the full dose ----

ASYNCIO = ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"]


def the_types_are_what_the_stubs_say():
    out = run([tool("mypy"), "-p", "pyebb", "--config-file", "python/pyproject.toml",
               "--cache-dir", os.path.join(WORK, "mypy")], rc=None)
    assert "Success" in out, out
    out = run([tool("mypy"), "python/tests/typed.py", "--config-file", "python/pyproject.toml",
               "--cache-dir", os.path.join(WORK, "mypy")], rc=None)
    assert "Success" in out, out
    out = run([tool("stubtest"), "pyebb._core", "--allowlist", "python/tests/stubtest.txt",
               "--mypy-config-file", "python/pyproject.toml"], rc=None)
    assert "Success" in out, out


def the_sdist_builds_alone():
    """With its own copy of libebb, far from the checkout."""
    with tempfile.TemporaryDirectory() as where:
        run([tool("python"), "-c", "import mesonpy, os, sys; os.chdir('python'); "
             "mesonpy.build_sdist(sys.argv[1])", where],
            PATH=os.path.join(VENV, "bin") + os.pathsep + os.environ["PATH"])
        (sdist,) = glob.glob(os.path.join(where, "*.tar.gz"))
        names = run(["tar", "tzf", sdist])
        assert "/libebb/core/mm/pool.c" in names and "/LICENSES/" in names, names
        assert "lzo" not in names, names
        wheel = build(sdist, os.path.join(where, "wheel"), VENV)
        assert "abi3" in wheel
        try_wheel(wheel, where, sys.executable)


def try_wheel(wheel, where, python):
    """The wheel alone, in an environment with nothing else."""
    venv = os.path.join(where, "venv")
    run([python, "-m", "venv", venv])
    run([tool("pip", venv), "install", "-q", "--no-index", wheel])
    out = run([tool("python", venv), "-c", "import pyebb\n"
               "with pyebb.Store(codec='zstd') as s:\n"
               "    s['k'] = bytes(100000); s.check(); print(len(s['k']), len(s))"])
    assert out.split() == ["100000", "1"], out


def it_builds_against_an_installed_libebb():
    build_dir = os.path.join(ROOT, "build", "check", "gcc")
    if not os.path.exists(os.path.join(build_dir, "libebb.so")):
        raise tap.Skip("there is no build of stage gcc")
    with tempfile.TemporaryDirectory() as where:
        meson = shutil.which("meson", path="/usr/bin:" + os.environ["PATH"])
        run([meson, "install", "-C", build_dir, "--no-rebuild", "--destdir", where])
        (pc,) = glob.glob(where + "/**/ebb.pc", recursive=True)
        lib = os.path.dirname(os.path.dirname(pc))
        env = {"PKG_CONFIG_PATH": os.path.dirname(pc), "LD_LIBRARY_PATH": lib,
               "PATH": os.path.join(VENV, "bin") + os.pathsep + os.environ["PATH"]}
        run([tool("pip"), "wheel", "-q", "--no-build-isolation", "--no-deps", "--no-index", "-w",
             where, "--config-settings=setup-args=-Dlibebb=system", "./python"], **env)
        (wheel,) = glob.glob(where + "/*.whl")
        run([tool("pip"), "install", "-q", "--no-index", "--no-deps", "--target", where + "/site",
             wheel])
        out = run([tool("python"), "-c", "import pyebb; s = pyebb.Store({1: b'x'}); "
                   "print(s[1], 'lzo' in pyebb.codecs())"], LD_LIBRARY_PATH=lib,
                  PYTHONPATH=where + "/site")
        assert out.split() == ["b'x'", "True"], out


def with_zarr(lock, version):
    """The tests of zarr's stores with another zarr than full.txt's, on a Python of that version."""
    name = lock.removesuffix(".txt") + ": "
    python = interpreter(version)
    if not python:
        return [(name + "test_zarr", lambda: skip(f"there is no python{version} here"))]
    venv = os.path.join(WORK, lock.removesuffix(".txt"))
    try:
        environment(venv, ["check.txt", lock], python)
    except tap.Skip as why:
        return [(name + "test_zarr", lambda: skip(str(why)))]
    run([tool("pip", venv), "install", "-q", "--no-index", "--no-deps", "--force-reinstall",
         the_wheel()])
    return pytest_cases(name, tool("python", venv), [*ASYNCIO, "python/tests/test_zarr.py"],
                        EBB_TEST_SCALE="10")


def skip(why):
    raise tap.Skip(why)


def the_lower_bound_of_zarr_is_the_one_that_is_tested():
    with open(os.path.join(ROOT, "python", "pyproject.toml"), encoding="utf-8") as f:
        (least,) = re.findall(r'^zarr = \["zarr >= (.*)"\]$', f.read(), re.M)
    with open(os.path.join(ROOT, "python", "lock", "zarr-oldest.txt"), encoding="utf-8") as f:
        assert f"zarr=={least}\n" in f.readlines(), f"zarr-oldest.txt has no zarr=={least}"


def the_bench_runs():
    with tempfile.TemporaryDirectory() as where:
        out = os.path.join(where, "rows.json")
        run([tool("python"), "python/bench/store.py", "--smoke", "--json", out])
        with open(out, encoding="utf-8") as f:
            rows = json.load(f)["rows"]
        assert len(rows) == 2 * 3 * 2 * 3, len(rows)


def interpreter(version):
    """Of the system, or of pyenv."""
    found = shutil.which("python" + version)
    if found and not run([found, "-c", "print(1)"], rc=None).startswith("1"):
        found = None
    others = glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}*/bin/python{version}"))
    return found or next(iter(sorted(others)), None)


def free_threaded(version, python):
    """The stable ABI has no free-threaded form, so there is a wheel for it alone; and its tests run
    with no lock of the interpreter, which the module must not bring back."""
    venv = os.path.join(WORK, version)
    environment(venv, ["check.txt"], python)
    with tempfile.TemporaryDirectory() as where:
        wheel = build("./python", where, venv,
                      "--config-settings=setup-args=-Dpython.allow_limited_api=false",
                      "--config-settings=build-dir=" + os.path.join(WORK, "obj-" + version))
        assert "t-linux_" in wheel, wheel
        run([tool("pip", venv), "install", "-q", "--no-index", "--no-deps", "--force-reinstall",
             wheel])
    out = run([tool("python", venv), "-c", "import pyebb, sys; print(sys._is_gil_enabled())"])
    assert out.split() == ["False"], out
    for _, case in pytest_cases("", tool("python", venv), ["-m", "not long", "python/tests"],
                                EBB_TEST_SCALE="10"):
        with contextlib.suppress(tap.Skip):
            case()


def on_another_interpreter(version):
    def case():
        python = interpreter(version)
        if not python:
            raise tap.Skip(f"there is no python{version} here")
        if version.endswith("t"):
            return free_threaded(version, python)
        with tempfile.TemporaryDirectory() as where:
            try_wheel(the_wheel(), where, python)
    return f"the_wheel_works_on_python{version}", case


def main():
    try:
        if sys.version_info < OLDEST:
            raise tap.Skip(f"Python {sys.version_info[0]}.{sys.version_info[1]} is older than 3.11")
        environment(VENV, ["check.txt", "full.txt"] if FULL else ["check.txt"])
    except tap.Skip as why:
        print(why)
        return 77
    try:
        the_wheel_is_one_for_all_interpreters_and_has_no_lzo()
    except AssertionError as why:
        def failed(why=why):
            raise why
        return tap.run([("the_wheel_builds", failed)])
    more = [("the_wheel_is_one_for_all_interpreters_and_has_no_lzo", lambda: None)]
    scale = os.environ.get("EBB_TEST_SCALE", "100")
    if FULL:
        more += pytest_cases("", tool("python"), [*ASYNCIO, "python/tests"],
                             EBB_TEST_SCALE=scale)
        more += pytest_cases("debug allocator: ", tool("python"),
                             ["-p", "no:asyncio", "python/tests/test_store.py",
                              "python/tests/test_cache.py", "python/tests/test_arrays.py"],
                             EBB_TEST_SCALE="10", PYTHONMALLOC="debug")
        more += with_zarr("zarr-oldest.txt", "3.11") + with_zarr("zarr-newest.txt", "3.13")
        more += [the_lower_bound_of_zarr_is_the_one_that_is_tested,
                 the_types_are_what_the_stubs_say, the_sdist_builds_alone,
                 it_builds_against_an_installed_libebb, the_bench_runs]
        more += [on_another_interpreter(v) for v in OTHERS]
    else:
        more += pytest_cases("", tool("python"), ["-m", "not long", "python/tests"], EBB_TEST_SCALE="10")
    return tap.run(more)


if __name__ == "__main__":
    sys.exit(main())
