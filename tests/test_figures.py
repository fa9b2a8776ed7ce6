#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of scripts/figures, on made-up pages and JSON; prints TAP."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
SCRIPT = os.path.join(ROOT, "scripts", "figures")
FACTS = {"cpu_model": "A CPU", "cpus": 2, "kernel": "Linux 6.18.1-a x86_64", "commit": "0123abc",
         "command": "build/ebb bench made", "load_at_start": 0.26, "date": "2026-01-02T03:04:05Z"}
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
TAKEN = """
*Taken at 0123abc on A CPU, 2 CPUs, Linux 6.18, load 0.3, 2026-01-02: `build/ebb bench made`.*
"""
case = tap.Cases()


def tree(tmp, folder, rows, facts):
    """A tree with the script and, in one of its folders, made.json."""
    os.makedirs(os.path.join(tmp, "scripts"))
    os.makedirs(os.path.join(tmp, folder))
    shutil.copy(SCRIPT, os.path.join(tmp, "scripts"))
    os.symlink(os.path.join(ROOT, "bench"), os.path.join(tmp, "bench"))
    if rows is not None:
        doc = {"machine": facts, "rounds": 3, "samples": [1, 2, 3], "rows": rows}
        with open(os.path.join(tmp, folder, "made.json"), "w", encoding="utf-8") as f:
            json.dump(doc, f)


def run(tmp, *args):
    p = subprocess.run([sys.executable, os.path.join(tmp, "scripts", "figures"), *args],
                       capture_output=True, text=True, check=False, cwd=tmp)
    return p.returncode, p.stdout + p.stderr


def on_page(text, args, folder, rows, name="page.md", facts=None):
    """(status, output, the page after it)"""
    with tempfile.TemporaryDirectory() as tmp:
        tree(tmp, folder, rows, facts or FACTS)
        page = os.path.join(tmp, name)
        with open(page, "w", encoding="utf-8") as f:
            f.write(text)
        out = run(tmp, *args, page)
        with open(page, encoding="utf-8") as f:
            return *out, f.read()


def figures(text, *args, rows=ROWS, name="page.md"):
    """Beside a run."""
    return on_page(text, ["--json", "run", *args], "run", rows, name)


def published(text, *args, rows=ROWS, facts=None):
    return on_page(text, args, "docs/figures", rows, facts=facts)


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
    page = published(TABLE.format(**RIGHT), "--write", rows=rows)[2]
    must("| zram | 20.0 | 30.0 |" in page, page)


@case
def write_puts_the_published_figures_and_whose_they_are_and_nothing_else():
    good = TABLE.format(**RIGHT) + TAKEN
    page = published(TABLE.format(kernel="1", ours="2 (x)"), "--write")[2]
    must(page == good, f"the table is not as published: {page}")
    must(published(good, "--write")[2] == good, "a right table was changed")
    rc, out, page = on_page(good, ["--write", "--json", "run"], "run", ROWS)
    must(rc == 2 and page == good and "--keep" in out, f"a run that nobody kept is written: {out}")


@case
def a_published_page_is_compared_to_the_letter():
    good = TABLE.format(**RIGHT) + TAKEN
    rc, out, _ = published(good)
    ends(out, "6 passed, 0 failed, 0 skipped")
    must(rc == 0, rc)
    for old, new in (("20.0 [", "20.1 ["), ("[19.0-", "[18.0-"), ("0123abc", "0123abd"),
                     ("load 0.3", "load 0.2"), (TAKEN, "")):
        rc, out, _ = published(good.replace(old, new))
        must(rc == 1 and " 1 failed" in out, f"{old} is now {new}: {rc} {out}")
    rc, out, _ = published(good, rows=[dict(r, mean_ms=r["mean_ms"] + 0.1) for r in ROWS])
    must(rc == 1 and " 0 failed" not in out, f"stale data are taken for good: {out}")


@case
def a_table_without_data_says_of_which_commit_it_is():
    text = TABLE.format(**RIGHT)
    rc, out, _ = published(text, rows=None)
    must(rc == 1 and "there is no docs/figures/made.json" in out, out)
    must(published(text, rows=ROWS[:1] + ROWS[2:])[0] == 1, "a cell without data passes")
    old = text.replace("made.json within", "made.json of 0123abc, 2026-01-02 within")
    for rows in (None, ROWS[:1]):       # of those figures some may be there again
        rc, out, _ = published(old, rows=rows)
        must(rc == 1 and "Of commit 0123abc, 2026-01-02; its data were not kept" in out, out)
        rc, out, page = published(old, "--write", rows=rows)
        must(rc == 0 and page == old + "\n*Of commit 0123abc, 2026-01-02; its data were not kept.*\n",
             f"{out} {page}")
        rc, out, _ = published(page, rows=rows)
        ends(out, "their data were not kept: 1\n0 passed, 0 failed, 0 skipped")
        must(rc == 0, out)
    rc, out, _ = published(page)
    must(rc == 1 and "has these figures now" in out, f"the data came, and nobody says it: {out}")
    must(published(page, "--write")[2] == text + TAKEN, "the table is not as published")
    ends(figures(page)[1], "6 passed, 0 failed, 0 skipped")


@case
def a_cell_with_a_dash_was_not_measured():
    text = TABLE.format(kernel="-", ours="-").replace("| 30.0 [29.0-31.0] |", "| 30.0 |") + TAKEN
    rows = [dict(r, mean_ms=None) if r["threads"] == 1 and r["variant"] == "kernel" else r
            for r in ROWS]
    rc, out, page = published(text.replace("5.0 (4.0x)", "-"), "--write", rows=rows)
    must(rc == 0 and "| zram | - | 30.0 [29.0-31.0] |\n| ours | - | 10.0 (3.0x) |" in page, page)


@case
def tables_of_one_file_in_a_row_say_it_once():
    one = TABLE.format(**RIGHT)
    page = published(one + "\n" + one, "--write")[2]
    must(page == one + "\n" + one + TAKEN, page)
    page = published(page.replace(one + TAKEN, "## More\n\n" + one), "--write")[2]
    must(page == one + TAKEN + "\n## More\n\n" + one + TAKEN, page)


@case
def keep_takes_a_run_with_its_facts_and_the_pages_can_be_written_of_it():
    with tempfile.TemporaryDirectory() as tmp:
        rows = [dict(r, third=r["mean_ms"] / 3) for r in ROWS]
        tree(tmp, "build/bench", rows, dict(FACTS, commit="0123abc-dirty"))
        rc, out = run(tmp, "--keep", "made.json")
        must(rc == 0 and "of 0123abc-dirty" in out, out)
        with open(os.path.join(tmp, "docs/figures/made.json"), encoding="utf-8") as f:
            text = f.read()
        doc = json.loads(text)
        must(doc["machine"] == dict(FACTS, commit="0123abc-dirty") and doc["rounds"] == 3, text)
        must("samples" not in doc and max(map(len, text.splitlines())) < 200, text)
        must([{k: v for k, v in r.items() if k != "third"} for r in doc["rows"]] == ROWS and
             doc["rows"][0]["third"] == 6.66667, text)
        with open(os.path.join(tmp, "page.md"), "w", encoding="utf-8") as f:
            f.write(TABLE.format(kernel="1", ours="2"))
        rc, out = run(tmp, "--write", "page.md")
        with open(os.path.join(tmp, "page.md"), encoding="utf-8") as f:
            must(rc == 0 and f.read() == TABLE.format(**RIGHT) + TAKEN.replace("abc", "abc-dirty"), out)


@case
def keep_refuses_a_run_of_no_commit():
    for commit in (None, "", "unknown"):
        with tempfile.TemporaryDirectory() as tmp:
            tree(tmp, "build/bench", ROWS, dict(FACTS, commit=commit))
            rc, out = run(tmp, "--keep", "made.json")
            must(rc == 1 and "does not say of which commit" in out and
                 not os.path.exists(os.path.join(tmp, "docs")), out)


@case
def a_commit_that_was_changed_is_dirty_unless_pages_were():
    with tempfile.TemporaryDirectory() as tmp:
        os.mkdir(os.path.join(tmp, "scripts"))
        shutil.copy(os.path.join(ROOT, "scripts", "commit"), os.path.join(tmp, "scripts"))
        said = []
        for name in ("a.c", "README.md", "a.c"):
            with open(os.path.join(tmp, name), "a", encoding="utf-8") as f:
                f.write("more\n")
            if not said:
                for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "a"]):
                    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org",
                                    *words], cwd=tmp, check=True)
            said.append(subprocess.run([os.path.join(tmp, "scripts", "commit")], check=True,
                                       capture_output=True, text=True).stdout.strip())
        must(len(said[0]) == 7 and said == [said[0], said[0], said[0] + "-dirty"], said)


@case
def a_row_that_two_runs_claim_is_refused():
    rc, out, _ = figures(TABLE.format(**RIGHT), rows=ROWS + [dict(ROWS[0], mean_ms=3.0)])
    must(rc == 1 and "2 rows have a mean_ms" in out, out)


@case
def a_mark_that_cannot_be_followed_is_a_failure():
    for bad in ("<!-- figures: made.json\n-->\n", TABLE.format(**RIGHT).replace("row -\n", ""),
                TABLE.format(**RIGHT).replace("{mean_ms .1f range}", "{mean_ms}"),
                TABLE.format(**RIGHT).replace("columns", "colums"),
                TABLE.format(**RIGHT).replace("made.json within", "made.json of May within")):
        rc, out, _ = figures(bad)
        must(rc == 1 and " 0 failed" not in out, out)


@case
def a_value_in_prose_is_compared_and_written():
    text = ("It takes <!-- figure: made.json variant=sync threads=1 {mean_ms .1f} within 10 %% -->"
            "%s ms.\n")
    ends(figures(text % "5.2")[1], "1 passed, 0 failed, 0 skipped")
    ends(figures(text % "6.2")[1], "0 passed, 1 failed, 0 skipped")
    must(published(text % "5.1")[0] == 1 and published(text % "5.0")[0] == 0, "5.0 is published")
    must(published(text % "6.2", "--write")[2] == text % "5.0", "not written")


@case
def a_value_in_a_manual_page_is_of_the_next_line():
    text = '.\\" figure: made.json variant=sync threads=1 {pages d} within 1 %%\nsome %s pages\n'
    ends(figures(text % "12,300", name="page.1")[1], "1 passed, 0 failed, 0 skipped")
    ends(figures(text % "13,300", name="page.1")[1], "0 passed, 1 failed, 0 skipped")


@case
def the_pages_of_the_tree_are_as_published():
    p = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    must(p.returncode == 0, p.stdout + p.stderr)
    ends(p.stdout, " 0 failed, 0 skipped")


@case
def the_marks_of_the_tree_are_understood():
    p = subprocess.run([sys.executable, SCRIPT, "--json", "/nonexistent"],
                       capture_output=True, text=True, check=False)
    must(p.returncode == 0 and " 0 failed" in p.stdout and not p.stdout.endswith(" 0 skipped\n"),
         p.stdout + p.stderr)


@case
def the_picture_is_of_its_pages_table():
    def judged(folder):
        p = subprocess.run([sys.executable, SCRIPT, "--json", "/nonexistent",
                            os.path.join(folder, "kernel/README.md")], capture_output=True,
                           text=True, check=False)
        return p.returncode, p.stdout + p.stderr
    rc, out = judged(ROOT)
    must(rc == 0 and "1 passed, 0 failed" in out, out)
    with tempfile.TemporaryDirectory() as tmp:
        for name in ("docs", "kernel"):
            os.mkdir(os.path.join(tmp, name))
        for name, planted in (("kernel/README.md", ""), ("docs/release.svg", r" 9\1 ms")):
            with open(os.path.join(ROOT, name), encoding="utf-8") as f:
                text = f.read()
            with open(os.path.join(tmp, name), "w", encoding="utf-8") as f:
                f.write(re.sub(r" (\d[\d.]*) ms", planted, text) if planted else text)
        rc, out = judged(tmp)
        must(rc == 1 and "docs/release.svg has other figures" in out, out)


if __name__ == "__main__":
    sys.exit(tap.run(case))
