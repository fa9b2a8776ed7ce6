#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_graft.py - what linux/graft does to a kernel source, on small made-up ones; prints TAP.

The trees are git repositories with the few files that graft reads. What it puts there is made up as
well, so that this project's own may change. One case takes the files of Debian's source where that
is here.
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap
ROOT = pathlib.Path(__file__).resolve().parents[1]
loader = importlib.machinery.SourceFileLoader("graft", str(ROOT / "linux/graft"))
graft = importlib.util.module_from_spec(importlib.util.spec_from_loader("graft", loader))
loader.exec_module(graft)

MAKEFILE = "obj-$(CONFIG_NUMA) += numa.o\nobj-$(CONFIG_ZSMALLOC)\t+= zsmalloc.o\nobj-y += x.o\n"
KCONFIG = ('config ZSMALLOC\n\ttristate\n\nmenu "Zsmalloc allocator options"\n\n'
           'config ZSMALLOC_STAT\n\tbool "s"\n\nendmenu\n\n'
           'menu "Slab allocator options"\nendmenu\n')
OURS = {
    "kernel/zsmalloc/Kbuild": "# not: other\nobj-$(CONFIG_ZSMALLOC) += zsmalloc.o\n"
                              "zsmalloc-y := $(patsubst %,core/%.o,one two) host/home.o zs.o\n",
    "kernel/zsmalloc/Kconfig": "config ZSMALLOC_EBB\n\tbool\n",
    "kernel/zsmalloc/README.md": "not of a kernel\n",
    "kernel/zsmalloc/zs.c": '#include "zs.h"\n#include "two.h"\n',
    "kernel/zsmalloc/zs.h": "",
    "kernel/host/home.c": '#include "host_impl.h"\n',
    "kernel/host/host_impl.h": '#include "probed.h"\n',
    "kernel/host/probed.h": "of a module's build\n",
    "core/one.c": '#include "one.h"\n',
    "core/one.h": '#include "deep.h"\n',
    "core/deep.h": "",
    "core/two.c": "",
    "core/two.h": "",
    "core/other.c": "",
    "core/other.h": "",
}
PUT = sorted("Kbuild Kconfig zs.c zs.h host/home.c host/host_impl.h host/probed.h core/one.c "
             "core/one.h core/deep.h core/two.c core/two.h".split())


def write(top, files):
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)


def git(tree, *argv):
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    env.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null")
    return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *argv],
                          cwd=tree, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextlib.contextmanager
def trees(real=None):
    """(a kernel source in git, where Ebb's files are)"""
    with tempfile.TemporaryDirectory(prefix="ebb-graft-") as tmp:
        tmp = pathlib.Path(tmp)
        tree, top = tmp / "tree", tmp / "ebb"
        write(top, OURS)
        shutil.copy(ROOT / "kernel/host/probe.sh", top / "kernel/host")
        if real:
            asked = [header for header, _ in graft.ANSWERS.values()]
            for name in [*graft.KNOWN, *graft.EDITS, *asked, "Kconfig"]:
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(real / name, tree / name)
        else:
            comment = "/* a comment, void zs_nothing(int); */\n"
            write(tree, {n: comment + "\n".join(w) + "\n" for n, w in graft.KNOWN.items()})
            write(tree, {"mm/Makefile": MAKEFILE, "mm/Kconfig": KCONFIG, "Kconfig": "",
                         "include/linux/gfp.h": "#define alloc_pages_bulk_node(...)\n",
                         "include/linux/hrtimer.h": "void hrtimer_init(void);\n",
                         "include/linux/mmzone.h": "\tNR_ZSPAGES,\n"})
        (tree / ".gitignore").write_text(".*\n!.gitignore\n*.o\n*.a\n")
        git(tree, "init", "-q", ".")
        git(tree, "add", "-A")
        git(tree, "commit", "-qm", "base")
        kept, graft.TOP = graft.TOP, top
        try:
            yield tree, top
        finally:
            graft.TOP = kept


def status(tree):
    return git(tree, "status", "--porcelain", "--ignored")


def run(*argv):
    """(exit status, stdout, stderr)"""
    said, wrong = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
        try:
            rc = graft.main(["graft", *(str(a) for a in argv)])
        except graft.Refused as e:
            return 1, said.getvalue(), str(e)
    return rc, said.getvalue(), wrong.getvalue()


def inside(tree):
    folder = tree / graft.WHERE
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*")
                  if p.is_file() and p.name != graft.LIST)


def refused(tree, word, *args):
    before = status(tree)
    rc, _, why = run(tree, *args)
    assert rc == 1 and word in why and "\n" not in why, (rc, why)
    assert status(tree) == before, status(tree)


def the_folder_has_what_its_kbuild_names_and_the_headers_of_that():
    with trees() as (tree, _):
        assert run(tree)[0] == 0
        assert inside(tree) == PUT, inside(tree)


def the_makefile_and_kconfig_name_the_folder():
    with trees() as (tree, _):
        run(tree)
        make, config = (tree / "mm/Makefile").read_text(), (tree / "mm/Kconfig").read_text()
        assert make.count("zsmalloc/") == 1, make
        assert "obj-$(CONFIG_ZSMALLOC)\t+= $(if $(CONFIG_ZSMALLOC_EBB)," in make, make
        menu = config[config.index('menu "Zsmalloc'):config.index("endmenu")]
        assert menu.endswith('source "mm/zsmalloc/Kconfig"\n\n'), menu


def which_objects(*config):
    with trees() as (tree, _):
        run(tree)
        (tree / "mm/show").write_text("include mm/Makefile\nall:\n\t@echo $(obj-y)\n")
        return subprocess.run(["make", "-s", "-f", "mm/show", "CONFIG_ZSMALLOC=y", *config],
                              cwd=tree, check=True, stdout=subprocess.PIPE,
                              text=True).stdout.split()


def the_folder_is_built_where_it_is_chosen_and_the_file_elsewhere():
    assert "zsmalloc/" in which_objects("CONFIG_ZSMALLOC_EBB=y")
    assert "zsmalloc.o" in which_objects()


def taken_out_the_tree_is_what_it_was():
    with trees() as (tree, _):
        before = {p: p.stat().st_mode for p in tree.rglob("*") if ".git/" not in str(p)}
        run(tree)
        assert status(tree)
        assert run(tree, "--out")[0] == 0
        assert status(tree) == "", status(tree)
        assert {p: p.stat().st_mode for p in tree.rglob("*") if ".git/" not in str(p)} == before


def what_a_build_left_in_the_folder_goes_with_it():
    with trees() as (tree, _):
        run(tree)
        left = "zs.o .zs.o.cmd built-in.a core/one.o modules.order zsmalloc.mod"
        write(tree / graft.WHERE, {n: "" for n in left.split()})
        assert run(tree, "--out")[0] == 0
        assert status(tree) == "", status(tree)


def put_in_twice_nothing_is_written_again():
    with trees() as (tree, _):
        run(tree)
        have = {n: (tree / graft.WHERE / n).stat().st_mtime_ns for n in PUT}
        make = (tree / "mm/Makefile").stat().st_mtime_ns
        assert run(tree)[0] == 0
        assert {n: (tree / graft.WHERE / n).stat().st_mtime_ns for n in PUT} == have
        assert (tree / "mm/Makefile").stat().st_mtime_ns == make


def what_changed_in_ebb_comes_into_the_tree_and_what_went_goes():
    with trees() as (tree, top):
        run(tree)
        (top / "core/one.c").write_text("int one;\n")
        assert run(tree)[0] == 0
        assert (tree / graft.WHERE / "core/one.c").read_text() == "int one;\n"
        assert "core/deep.h" not in inside(tree), inside(tree)
        assert run(tree, "--out")[0] == 0 and status(tree) == ""


def an_interrupted_one_is_taken_further():
    with trees() as (tree, top):
        run(tree)
        (top / "core/one.c").write_text("int one;\n")
        put, n = graft.put, []

        def broken(path, data):
            n.append(path)
            if len(n) == 3:
                raise OSError("no space")
            put(path, data)
        (top / "core/two.c").write_text("int two;\n")
        graft.put = broken
        try:
            run(tree)
            assert False, "it went on"
        except OSError:
            pass
        finally:
            graft.put = put
        assert run(tree)[0] == 0 and (tree / graft.WHERE / "core/two.c").read_text() == "int two;\n"
        assert run(tree, "--out")[0] == 0 and status(tree) == ""


def a_file_with_links_is_not_written_through_them():
    with trees() as (tree, _):
        other = tree.parent / "other"
        os.link(tree / "mm/Makefile", other)
        run(tree)
        assert other.read_text() == MAKEFILE


def headers_answer_for_the_compiler():
    with trees() as (tree, _):
        run(tree)
        text = (tree / graft.WHERE / "host/probed.h").read_text()
        for line in ("HAVE_ALLOC_PAGES_BULK_NODE 1", "HAVE_HRTIMER_SETUP 0", "HAVE_NR_ZSPAGES 1"):
            assert f"#define {line}\n" in text, text


def a_question_of_the_probe_without_an_answer_is_refused():
    with trees() as (tree, top):
        with open(top / "kernel/host/probe.sh", "a", encoding="utf-8") as f:
            f.write("have SOMETHING_NEW \"$@\" <<'END'\nEND\n")
        refused(tree, "SOMETHING_NEW")


def every_interface_that_is_missing_is_named():
    for name, wanted in graft.KNOWN.items():
        for w in wanted:
            with trees() as (tree, _):
                text = (tree / name).read_text()
                other = w.replace("(", "(int, ", 1) if "(" in w else ""
                (tree / name).write_text(text.replace(w, other))
                git(tree, "commit", "-qam", "other")
                refused(tree, f"{name} has no '{w}'")


def a_function_of_zsmalloc_that_ebb_lacks_is_named():
    with trees() as (tree, _):
        with open(tree / "include/linux/zsmalloc.h", "a", encoding="utf-8") as f:
            f.write("void zs_free_bulk(struct zs_pool *pool);\n"
                    "void zs_explode(struct zs_pool *pool);\n")
        git(tree, "commit", "-qam", "other")
        refused(tree, "has zs_explode()")


def other_build_files_are_refused():
    for name, text in (("mm/Makefile", "obj-y += zsmalloc.o\n"),
                       ("mm/Makefile", MAKEFILE + MAKEFILE),
                       ("mm/Kconfig", KCONFIG.replace("Zsmalloc", "Zs"))):
        with trees() as (tree, _):
            (tree / name).write_text(text)
            git(tree, "commit", "-qam", "other")
            refused(tree, name)
            refused(tree, name, "--out")


def no_kernel_source_is_refused():
    with tempfile.TemporaryDirectory() as tmp:
        rc, _, why = run(tmp)
        assert rc == 1 and "it has no mm/ and Kconfig" in why, why


def what_was_changed_in_the_tree_is_not_lost():
    for change in ("zs.c", "new.c"):
        with trees() as (tree, _):
            run(tree)
            (tree / graft.WHERE / change).write_text("mine\n")
            refused(tree, change)
            refused(tree, change, "--out")
            assert (tree / graft.WHERE / change).read_text() == "mine\n"


def a_folder_of_somebody_else_is_refused():
    with trees() as (tree, _):
        write(tree, {"mm/zsmalloc/main.c": ""})
        git(tree, "add", "-A")
        git(tree, "commit", "-qm", "other")
        refused(tree, "mm/zsmalloc/main.c")


def out_of_a_tree_that_has_nothing_changes_nothing():
    with trees() as (tree, _):
        rc, said, _ = run(tree, "--out")
        assert rc == 0 and "nothing to take out" in said, said
        assert status(tree) == ""


def debians_source_is_known():
    p = subprocess.run([ROOT / "tests/vm/kernels", "source", "uml-smp"], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if p.returncode:
        raise tap.Skip(p.stderr.strip().splitlines()[-1])
    with trees(pathlib.Path(p.stdout.strip())) as (tree, _):
        rc, _, why = run(tree)
        assert rc == 0, why
        probed = (tree / graft.WHERE / "host/probed.h").read_text()
        assert probed.count(" 1\n") == len(graft.ANSWERS)
        run(tree, "--out")
        assert status(tree) == ""


TESTS = [
    the_folder_has_what_its_kbuild_names_and_the_headers_of_that,
    the_makefile_and_kconfig_name_the_folder,
    the_folder_is_built_where_it_is_chosen_and_the_file_elsewhere,
    taken_out_the_tree_is_what_it_was,
    what_a_build_left_in_the_folder_goes_with_it,
    put_in_twice_nothing_is_written_again,
    what_changed_in_ebb_comes_into_the_tree_and_what_went_goes,
    an_interrupted_one_is_taken_further,
    a_file_with_links_is_not_written_through_them,
    headers_answer_for_the_compiler,
    a_question_of_the_probe_without_an_answer_is_refused,
    every_interface_that_is_missing_is_named,
    a_function_of_zsmalloc_that_ebb_lacks_is_named,
    other_build_files_are_refused,
    no_kernel_source_is_refused,
    what_was_changed_in_the_tree_is_not_lost,
    a_folder_of_somebody_else_is_refused,
    out_of_a_tree_that_has_nothing_changes_nothing,
    debians_source_is_known,
]


if __name__ == "__main__":
    sys.exit(tap.run(TESTS))
