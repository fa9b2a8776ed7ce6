#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of scripts/figures, on made-up pages and JSON; prints TAP."""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap

SCRIPT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "scripts", "figures")
ROWS = [{"variant": v, "threads": n, "mean_ms": m, "mean_ms_min": m - 1, "mean_ms_max": m + 1,
         "pages": 12345}
        for v, n, m in (("kernel", 1, 20.0), ("kernel", 2, 30.0), ("sync", 1, 5.0),
                        ("sync", 2, 10.0))]
TABLE = """\
Text of 7 ms.
<!-- figures: made.json within 10 %
columns threads=1 | threads=2
row variant=kernel {{mean_ms .1f range}}
row variant=sync {{mean_ms .1f}} ({{mean_ms@variant=kernel / mean_ms .1f}}x)
row -
-->
| what | 1 | 2 |
|---|---|---|
| zram | {kernel} | 30.0 [29.0-31.0] |
| ours | 5.0 (4.0x) | {ours} |
| published | 99 | 98 |
"""
RIGHT = {"kernel": "20.0 [19.0-21.0]", "ours": "10.0 (3.0x)"}
CASES = []


def case(fn):
    CASES.append(fn)
    return fn


def figures(text, *args, rows=ROWS, name="page.md", machine=None):
    """(status, output, the page after it)"""
    with tempfile.TemporaryDirectory() as tmp:
        page = os.path.join(tmp, name)
        with open(page, "w", encoding="utf-8") as f:
            f.write(text)
        if rows is not None:
            with open(os.path.join(tmp, "made.json"), "w", encoding="utf-8") as f:
                json.dump({"machine": machine or {}, "rows": rows}, f)
        p = subprocess.run([sys.executable, SCRIPT, "--json", tmp, *args, page],
                           capture_output=True, text=True, check=False)
        with open(page, encoding="utf-8") as f:
            return p.returncode, p.stdout + p.stderr, f.read()


def must(good, why):
    if not good:
        raise AssertionError(why)


def ends(out, sums):
    must(out.rstrip().endswith(sums), f"expected '{sums}' at the end of: {out}")


@case
def columns_may_be_in_several_lines():
    split = "columns threads=1\ncolumns threads=2"
    rc, out, _ = figures(TABLE.format(**RIGHT).replace("columns threads=1 | threads=2", split))
    ends(out, "6 passed, 0 failed, 0 skipped")
    must(rc == 0, rc)


@case
def figures_of_the_last_run_pass():
    rc, out, _ = figures(TABLE.format(**RIGHT))
    ends(out, "6 passed, 0 failed, 0 skipped")
    must(rc == 0, rc)


@case
def a_figure_within_its_range_passes():
    ends(figures(TABLE.format(kernel="21.9 [1-2]", ours="9.1 (3.2x)"))[1],
         "6 passed, 0 failed, 0 skipped")


@case
def a_figure_past_its_range_is_named():
    rc, out, _ = figures(TABLE.format(kernel="22.9", ours="10.0 (3.0x)"))
    ends(out, "5 passed, 1 failed, 0 skipped")
    must(rc == 1 and "page.md:10: 22.9 is off by more than 10 %" in out, out)


@case
def a_quotient_past_its_range_is_named():
    rc, out, _ = figures(TABLE.format(kernel="20.0", ours="10.0 (3.9x)"))
    must(rc == 1 and "page.md:11: 3.9 is off" in out, out)


@case
def what_the_last_run_has_not_is_skipped_with_its_reason():
    rc, out, _ = figures(TABLE.format(**RIGHT), rows=ROWS[:1] + ROWS[2:])
    ends(out, "3 passed, 0 failed, 3 skipped")
    must(rc == 0 and "no mean_ms of variant=kernel threads=2" in out, out)


@case
def without_a_run_all_is_skipped():
    rc, out, _ = figures(TABLE.format(**RIGHT), rows=None)
    ends(out, "0 passed, 0 failed, 6 skipped")
    must(rc == 0 and "there is no made.json" in out, out)


@case
def a_range_whose_ends_read_alike_is_left_out():
    rows = [dict(r, mean_ms_min=r["mean_ms"] - 0.01, mean_ms_max=r["mean_ms"] + 0.01) for r in ROWS]
    page = figures(TABLE.format(**RIGHT), "--write", rows=rows)[2]
    must("| zram | 20.0 | 30.0 |" in page, page)


@case
def write_puts_the_figures_of_the_run_and_nothing_else():
    good = TABLE.format(**RIGHT)
    must(figures(TABLE.format(kernel="1", ours="2 (x)"), "--write")[2] == good,
         "the table is not the run's")
    must(figures(good, "--write")[2] == good, "a right table was changed")


@case
def a_row_that_two_runs_claim_is_refused():
    rc, out, _ = figures(TABLE.format(**RIGHT), rows=ROWS + [dict(ROWS[0], mean_ms=3.0)])
    must(rc == 1 and "2 rows have a mean_ms" in out, out)


@case
def a_mark_that_cannot_be_followed_is_a_failure():
    for bad in ("<!-- figures: made.json\n-->\n", TABLE.format(**RIGHT).replace("row -\n", ""),
                TABLE.format(**RIGHT).replace("{mean_ms .1f range}", "{mean_ms}"),
                TABLE.format(**RIGHT).replace("columns", "colums")):
        rc, out, _ = figures(bad)
        must(rc == 1 and " 0 failed" not in out, out)


@case
def a_value_in_prose_is_compared_and_written():
    text = ("It takes <!-- figure: made.json variant=sync threads=1 {mean_ms .1f} within 10 %% -->"
            "%s ms.\n")
    ends(figures(text % "5.2")[1], "1 passed, 0 failed, 0 skipped")
    ends(figures(text % "6.2")[1], "0 passed, 1 failed, 0 skipped")
    must(figures(text % "6.2", "--write")[2] == text % "5.0", "not written")


@case
def a_value_in_a_manual_page_is_of_the_next_line():
    text = '.\\" figure: made.json variant=sync threads=1 {pages d} within 1 %%\nsome %s pages\n'
    ends(figures(text % "12,300", name="page.1")[1], "1 passed, 0 failed, 0 skipped")
    ends(figures(text % "13,300", name="page.1")[1], "0 passed, 1 failed, 0 skipped")


@case
def figures_without_a_mark_are_listed():
    rc, out, _ = figures(TABLE.format(**RIGHT), "--unmarked")
    must(rc == 0 and out.count("\n") == 1 and "Text of 7 ms." in out, out)


@case
def the_marks_of_the_tree_are_understood():
    p = subprocess.run([sys.executable, SCRIPT, "--json", "/nonexistent"],
                       capture_output=True, text=True, check=False)
    must(p.returncode == 0 and " 0 failed" in p.stdout and not p.stdout.endswith(" 0 skipped\n"),
         p.stdout + p.stderr)


@case
def the_readmes_picture_is_of_its_table():
    root = os.path.dirname(os.path.dirname(SCRIPT))

    def judged(folder):
        p = subprocess.run([sys.executable, SCRIPT, "--json", "/nonexistent",
                            os.path.join(folder, "README.md")], capture_output=True, text=True,
                           check=False)
        return p.returncode, p.stdout + p.stderr
    rc, out = judged(root)
    must(rc == 0 and "1 passed, 0 failed" in out, out)
    with tempfile.TemporaryDirectory() as tmp:
        os.mkdir(os.path.join(tmp, "docs"))
        for name, old, new in (("README.md", "", ""), ("docs/release.svg", " 103 ms", " 13 ms")):
            with open(os.path.join(root, name), encoding="utf-8") as f:
                text = f.read()
            with open(os.path.join(tmp, name), "w", encoding="utf-8") as f:
                f.write(text.replace(old, new) if old else text)
        rc, out = judged(tmp)
        must(rc == 1 and "docs/release.svg has other figures" in out, out)


@case
def the_machine_is_written_and_not_judged():
    text = "<!-- machine: made.json -->\nTaken on: a machine\nof two lines.\n\nMore.\n"
    rc, out, page = figures(text)
    ends(out, "0 passed, 0 failed, 0 skipped")
    must((rc, page) == (0, text), page)
    rc, out, page = figures(text, "--write", rows=None)
    must((rc, page) == (0, text), f"there is no file: {page}")
    facts = {"cpu_model": "A processor of a very long name with which the line cannot be one " * 2,
             "cpus": 2, "kernel": "Linux 6.18.1-a x86_64", "date": "2026-01-02T03:04:05Z"}
    rc, out, page = figures(text, "--write", machine=facts)
    ends(out, "0 passed, 0 failed, 0 skipped")
    must("2 CPUs, Linux 6.18, 2026-01-02.\n\nMore.\n" in page.replace(", \n", " "), page)
    must("of two lines" not in page and max(map(len, page.splitlines())) <= 100, page)
    must(figures(page, "--write", machine=facts)[2] == page, "a second time it is another text")


@case
def a_mark_of_a_machine_has_a_file():
    rc, out, _ = figures("<!-- machine: -->\nTaken on: a machine.\n")
    must(rc == 1 and "not understood" in out, out)


if __name__ == "__main__":
    sys.exit(tap.run(CASES))
