#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_install.py BUILD - what `make install` leaves, used as a stranger does; prints TAP.

BUILD is a build folder, which is installed below build/check/install and then moved, to be used
where it was not installed to.  `make` itself runs in a folder with a space in its name that is
links to this one.
"""
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import tap

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
BUILD = os.path.realpath(sys.argv[1])
WORK = os.path.join(ROOT, "build", "check", "install")
MOVED = os.path.join(WORK, "moved here")
SOURCES = ["Makefile", "bench", "cmake", "core", "examples", "man", "meson.build", "meson_options.txt",
           "plugins", "scripts", "tools", "user"]
MESON = shutil.which("meson", path="/usr/bin:" + os.environ["PATH"])
test = tap.Cases()


def run(argv, rc=0, **more):
    """Its output, errors included."""
    more["env"] = {**os.environ, **more.get("env", {})}
    more.setdefault("cwd", ROOT)
    p = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, errors="replace", timeout=600,
                       check=False, **more)
    assert p.returncode == rc, f"{' '.join(argv)}: exit {p.returncode}: {p.stdout[-1500:]}"
    return p.stdout


def files(top):
    return sorted(os.path.relpath(os.path.join(d, n), top)
                  for d, _, names in os.walk(top) for n in names)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def fresh(name):
    path = os.path.join(WORK, name)
    shutil.rmtree(path, ignore_errors=True)
    return path


def the_one(name):
    found = [p for p in files(MOVED) if os.path.basename(p) == name]
    assert len(found) == 1, (name, found)
    return os.path.join(MOVED, found[0])


@test
def all_is_installed_and_no_header_but_the_public_ones():
    root = fresh("root")
    fresh("moved here")
    run([MESON, "install", "-C", BUILD, "--no-rebuild", "--destdir", root])
    os.rename(root, MOVED)
    have = files(MOVED)
    for want in ("bin/ebb", "include/ebb.h", "include/ebb_units.h", "include/ebb_values.h",
                 "include/ebb_cache.h",
                 "libebb.so", "libebb.so.0", "libebb.a",
                 "pkgconfig/ebb.pc", "cmake/ebb/ebb-config.cmake",
                 "cmake/ebb/ebb-config-version.cmake", "man1/ebb.1", "man3/ebb.3", "man3/ebb_units.3",
                 "man3/ebb_values.3", "man3/ebb_cache.3", "system/ebb-tierd.service",
                 "doc/ebb/tierd.conf"):
        assert any(p.endswith("/" + want) for p in have), (want, have)
    headers = {os.path.basename(p) for p in have if p.endswith(".h")}
    # Of a plugin, which is there if its program is.
    headers.discard("ebb_secondary_cache.h")
    assert headers == {"ebb.h", "ebb_units.h", "ebb_values.h", "ebb_cache.h"}, headers
    assert "ebb 0." in run([the_one("ebb"), "--version"])


def example_by_pkg_config(flags, edit=""):
    pc = os.path.dirname(the_one("ebb.pc"))
    exe = os.path.join(WORK, "example")
    # The flags' own escapes keep a space within its word.
    run(["sh", "-ec", f'flags=$(pkg-config --cflags {flags} ebb{edit}); '
         f'eval "cc -o \'{exe}\' examples/roundtrip.c $flags"; "{exe}"'],
        env={"PKG_CONFIG_PATH": pc, "LD_LIBRARY_PATH": os.path.dirname(the_one("libebb.a"))})


@test
def pkg_config_finds_the_shared_library_where_it_was_moved_to():
    example_by_pkg_config("--libs")


@test
def pkg_config_finds_the_static_library_where_it_was_moved_to():
    # By name, since both lie in the same folder.
    example_by_pkg_config("--static --libs", " | sed 's/-lebb/-l:libebb.a/'")


CMAKE = """cmake_minimum_required(VERSION 3.13)
project(stranger C)
find_package(ebb {version} REQUIRED)
foreach(how ebb static)
  add_executable(use_${{how}} {example})
  target_link_libraries(use_${{how}} PRIVATE ebb::${{how}})
endforeach()
"""


def cmake(version, rc=0):
    if not shutil.which("cmake"):
        raise tap.Skip("no cmake here")
    top = fresh("cmake")
    write(os.path.join(top, "CMakeLists.txt"),
          CMAKE.format(version=version, example=os.path.join(ROOT, "examples", "roundtrip.c")))
    prefix = os.path.dirname(os.path.dirname(the_one("ebb")))
    out = run(["cmake", "-S", top, "-B", os.path.join(top, "b"), "-DCMAKE_PREFIX_PATH=" + prefix], rc)
    return top, out


@test
def find_package_gives_both_libraries():
    top, _ = cmake("0.1")
    run(["cmake", "--build", os.path.join(top, "b")])
    for how in ("ebb", "static"):
        run([os.path.join(top, "b", "use_" + how)])
        needs = run(["readelf", "-d", os.path.join(top, "b", "use_" + how)])
        assert ("libebb.so.0" in needs) == (how == "ebb"), needs


@test
def find_package_refuses_a_version_that_differs():
    for version in ("0.2", "1.0", "0.0"):
        assert "compatible" in cmake(version, 1)[1], version


def linked_tree():
    """A folder with a space in its name to run make in; its build is kept for the next time."""
    top = os.path.join(WORK, "a tree")
    os.makedirs(top, exist_ok=True)
    for name in SOURCES:
        if not os.path.islink(os.path.join(top, name)):
            os.symlink(os.path.join(ROOT, name), os.path.join(top, name))
    return top


def make(*argv):
    return run(["make", "--no-print-directory", *argv], cwd=linked_tree())


@test
def make_installs_into_folders_with_spaces_and_takes_it_away_again():
    top = linked_tree()
    dest = os.path.join(top, "dest dir")
    shutil.rmtree(dest, ignore_errors=True)
    before = set(os.listdir(top)) | {"build", "dest dir"}
    to = ["DESTDIR=dest dir", "PREFIX=/opt/an ebb"]
    make("install", "MESON_OPTIONS=-Dtests=disabled -Dlibdir=lib", *to)
    assert set(os.listdir(top)) <= before, os.listdir(top)
    have = files(dest)
    assert have and all(p.startswith("opt/an ebb/") for p in have), have
    run([os.path.join(dest, "opt", "an ebb", "bin", "ebb"), "--version"])
    # Another's files stay, and so does what went to another place.
    write(os.path.join(dest, "opt", "an ebb", "lib", "cmake", "other"), "")
    make("install", "DESTDIR=" + os.path.join(top, "dest dir", "2"))
    make("uninstall", *to)
    left = [p for p in files(dest) if not p.startswith("2/")]
    assert left == ["opt/an ebb/lib/cmake/other"], left
    assert len(files(os.path.join(dest, "2"))) == len(have)
    assert not os.path.exists(os.path.join(dest, "opt", "an ebb", "lib", "cmake", "ebb"))


@test
def meson_options_come_into_an_old_build():
    dest = os.path.join(linked_tree(), "dest")
    make("MESON_OPTIONS=-Dtests=disabled -Dlibdir=lib")
    for options, libdir in ((["MESON_OPTIONS=-Dlibdir=lib64"], "lib64"), ([], "lib64"),
                            (["MESON_OPTIONS=-Dlibdir=lib"], "lib")):
        shutil.rmtree(dest, ignore_errors=True)
        make("install", "DESTDIR=dest", "PREFIX=/usr", *options)
        assert os.path.exists(os.path.join(dest, "usr", libdir, "libebb.a")), (options, files(dest))


@test
def the_plugin_goes_where_nbdkit_looks_or_below_a_prefix_of_ones_own():
    if not os.path.exists(os.path.join(BUILD, "nbdkit-ebb-plugin.so")):
        raise tap.Skip("the plugin was not built")
    where = run(["pkg-config", "--variable=plugindir", "nbdkit"]).strip()
    dest = os.path.join(linked_tree(), "dest")
    for prefix, folder in (("/usr/local", where.lstrip("/")), ("/opt/e", "opt/e/lib/nbdkit/plugins")):
        shutil.rmtree(dest, ignore_errors=True)
        make("install", "DESTDIR=dest", "PREFIX=" + prefix,
             "MESON_OPTIONS=-Dtests=disabled -Dlibdir=lib -Dnbdkit=enabled")
        plugin = os.path.join(dest, folder, "nbdkit-ebb-plugin.so")
        assert os.path.exists(plugin), files(dest)
        assert any(p.endswith("man1/nbdkit-ebb-plugin.1") for p in files(dest)), files(dest)
        make("uninstall", "DESTDIR=dest", "PREFIX=" + prefix)
        assert not files(dest), files(dest)
    # Found by its rpath: nobody has told the loader of this prefix.
    run(["sh", "-ec", f"readelf -d '{BUILD}/nbdkit-ebb-plugin.so' | grep -q libebb.so.0"])


PROGRAM = """#include <cstdio>
#include <ebb_secondary_cache.h>

int main()
{
	std::shared_ptr<rocksdb::SecondaryCache> blocks;
	ebb::EbbSecondaryCacheOptions options;

	options.capacity = size_t{1} << 24;
	rocksdb::Status s = ebb::NewEbbSecondaryCache(options, &blocks);
	std::puts(s.ok() ? blocks->Name() : s.ToString().c_str());
	return !s.ok();
}
"""


@test
def a_program_of_rocksdb_links_the_plugin():
    if not os.path.exists(os.path.join(BUILD, "librocksdb_ebb.so")):
        raise tap.Skip("the plugin was not built: no librocksdb-dev or no g++ here")
    write(os.path.join(WORK, "program.cc"), PROGRAM)
    # The libraries lie where the loader was not told of.
    libs = os.path.dirname(the_one("librocksdb_ebb.so"))
    out = run(["sh", "-ec", "flags=$(pkg-config --cflags --libs rocksdb_ebb); "
               f"eval \"c++ -std=c++17 -o '{WORK}/program' '{WORK}/program.cc' $flags\"; "
               f"'{WORK}/program'"],
              env={"PKG_CONFIG_PATH": os.path.dirname(the_one("rocksdb_ebb.pc")),
                   "LD_LIBRARY_PATH": libs})
    assert out == "EbbSecondaryCache\n", out


def deps(meson_version, have):
    """scripts/deps as an ordinary user on a Debian with all packages but meson's and ninja's."""
    tools = fresh("path")
    stubs = {"dpkg-query": "for p; do :; done\n"
                           "case $p in meson|ninja-build) exit 1 ;; esac\nprintf installed",
             "id": "echo 1000", "meson": f"echo {meson_version}", "ninja": "echo 1.11"}
    for name, text in stubs.items():
        if name in have or name in ("dpkg-query", "id"):
            write(os.path.join(tools, name), f"#!/bin/sh\n{text}\n")
            os.chmod(os.path.join(tools, name), 0o755)
    for name in ("sh", "printf", "sort", "head"):
        os.symlink(shutil.which(name), os.path.join(tools, name))
    return subprocess.run([shutil.which("sh"), "scripts/deps", "build"], cwd=ROOT,
                          env={"PATH": tools}, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)


@test
def a_meson_that_is_no_package_will_do():
    for version in ("1.0.0", "1.10.2", "2.0"):
        p = deps(version, ("meson", "ninja"))
        assert p.returncode == 0, (version, p.stdout)
    for version, have, missing in (("0.64.1", ("meson", "ninja"), "meson"),
                                   ("1.4", ("meson",), "ninja-build"),
                                   ("1.4", ("ninja",), "meson")):
        p = deps(version, have)
        assert p.returncode == 1 and p.stdout.split()[-1] == missing, (version, have, p.stdout)


def main():
    os.makedirs(WORK, exist_ok=True)
    for name in ("MAKEFLAGS", "MAKELEVEL", "DESTDIR", "PREFIX", "MESON_OPTIONS"):
        os.environ.pop(name, None)
    return tap.run(test)


if __name__ == "__main__":
    sys.exit(main())
