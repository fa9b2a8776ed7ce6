#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_report.py [--full] [CASE...] - the page of `make report`; prints TAP.

--full also draws the page of every bench's data and looks at it in Chromium, at the widths of a
phone and of a desk, light, dark and on paper (tests/report_browser.py).
"""
import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
DEBIANS = "/usr/bin/python3"
try:
    import jinja2, matplotlib   # noqa: E401,F401  asked for here, since a restart prints a plan
except ImportError:
    # As bench/report/run does.
    if os.path.exists(DEBIANS) and os.path.realpath(sys.executable) != os.path.realpath(DEBIANS):
        os.execv(DEBIANS, [DEBIANS, *sys.argv])
import report_data
import tap

ROOT = pathlib.Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench" / "report"
sys.path.insert(0, str(BENCH))
import chart
import formats
import picture
import plots
import plots_latency    # noqa: F401  these fill plots.PLOTS
import plots_memory     # noqa: F401
import plots_programs   # noqa: F401
import plots_release    # noqa: F401
case = tap.Cases()
# Lines, bars, dots and stacked bars, and few enough to draw quickly.
FEW = ("release.json", "density.json", "back.json", "malloc.json")
VOID = {"meta", "link", "br"}
NOWHERE = "/nonexistent"      # no published figures


def must(good, why):
    if not good:
        raise AssertionError(why)


def report():
    """bench/report/run as a module."""
    try:
        return report_data.module("report_run", "bench/report/run")
    except SystemExit as why:
        raise tap.Skip(str(why)) from None


class Reader(html.parser.HTMLParser):
    """What a page has: its tags, ids, links, and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.tags, self.links, self.texts = [], [], [], [], []
        self.feed(text)
        must(not self.open, f"these are not closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[k] for k in ("href", "src", "xlink:href", "srcset") if k in given]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        must(self.open and self.open[-1] == tag, f"</{tag}> in {self.open[-3:]}")
        self.open.pop()

    def handle_data(self, data):
        self.texts.append(data)

    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.texts))


def of(documents):
    """(the page, what is wrong) of a folder with these."""
    with tempfile.TemporaryDirectory() as tmp:
        report_data.write(tmp, documents)
        return report().page(tmp, NOWHERE)


def few(**other):
    every = report_data.every()
    return {**{name: every[name] for name in FEW}, **other}


@case
def each_plot_has_a_chart_of_what_its_bench_writes():
    with tempfile.TemporaryDirectory() as tmp:
        report_data.write(tmp, report_data.every())
        sources = formats.load(tmp, NOWHERE)
    for p in plots.PLOTS:
        source = sources[p.source]
        must(not source.problem and source.rows, f"{p.source}: {source.problem or 'no rows'}")
        made = p.chart(source.rows)
        must(re.search(r"\d", made.see) and not re.search("missing|not in this run", made.see),
             f"{p.name} says: {made.see}")
        for panel in made.panels:
            heads, lines = chart.table(panel)
            must(lines and all(len(line) == len(heads) for line in lines), f"{p.name}: {lines}")
    used = {p.source for p in plots.PLOTS}
    must(used == set(formats.SOURCES), f"no plot is of {set(formats.SOURCES) - used}")


@case
def each_plot_is_drawn():
    draw = report().draw
    with tempfile.TemporaryDirectory() as tmp:
        report_data.write(tmp, report_data.every())
        sources = formats.load(tmp, NOWHERE)
    for p in plots.PLOTS:
        svg = draw.svg(p.chart(sources[p.source].rows), p.name, p.title, False)
        must("<path" in svg, f"{p.name}: {svg[:200]}")


@case
def each_measure_that_is_left_out_is_missed_by_some_plot():
    """So the case above can fail: a bench that renames one of these is noticed."""
    every = report_data.every()
    for name, measure in (("kernel-release.json", "mean_ms"),
                          ("linux-release.json", "all_per_byte"),
                          ("tiers.json", "writeback_mb_per_s"), ("malloc.json", "alloc_ns"),
                          ("scale.json", "speedup_low"), ("nbd.json", "iops"),
                          ("dask.json", "seconds"), ("cache.json", "ops_per_s"),
                          ("kernel-units.json", "memory")):
        rows = [{k: v for k, v in r.items() if not k.startswith(measure)}
                for r in every[name]["rows"]]
        said = []
        for p in (p for p in plots.PLOTS if p.source == name):
            try:
                said.append(p.chart(formats.Rows(name, rows, 2)).see)
            except formats.Absent as e:
                said.append(str(e))
        must(any(re.search("missing|without|has no|have no", s) for s in said),
             f"{measure} of {name} is missed by none: {said}")


@case
def figures_of_dask_on_different_disks_are_in_different_panels():
    every = report_data.every()["dask.json"]["rows"]
    rows = [dict(row, disk=disk, seconds=seconds)
            for disk, seconds in (("250 MB/s", 40.0), ("machine's", 10.0)) for row in every]
    for p in (p for p in plots.PLOTS if p.source == "dask.json"):
        made = p.chart(formats.Rows(p.source, rows, 2))
        panels = [panel for panel in made.panels if panel.value == "seconds"]
        must(len(panels) == 4, f"2 workloads on 2 disks have {len(panels)} panels of seconds")
        for panel in panels:
            shown = {(point.low, point.high) for s in panel.series for point in s.points}
            must(len(shown) == 1, f"{panel.title} has figures of both disks: {shown}")


@case
def the_columns_are_those_of_bench_user():
    bench = ROOT / "bench" / "user"
    for name, columns in report_data.TABLES.items():
        text = (bench / f"{name}.c").read_text() + (bench / "bench.c").read_text()
        for column in columns:
            # MIB() appends the unit.
            must(f'"{column}"' in text or f'MIB({column[:-6].upper()}, "{column[:-6]}")' in text,
                 f"bench/user/{name}.c has no column {column}")
    text = (ROOT / "tests" / "measure_back.c").read_text()
    must(all(f'\\"{key}\\"' in text for key in ("figure", "target", "value")),
         "tests/measure_back.c writes other keys")


@case
def each_command_is_a_target_of_the_makefile():
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.M)
    for name, (command, _) in formats.SOURCES.items():
        must(not command.startswith("make ") or command[5:].replace("measure WHAT=", "measure-") in targets, f"{name}: {command}")


@case
def the_page_stands_by_itself_and_each_plot_says_where_it_is_from():
    text, wrong = of(few())
    must(not wrong, wrong)
    page = Reader(text)
    twice = {i for i in page.ids if page.ids.count(i) > 1}
    must(not twice, f"these ids are there twice: {sorted(twice)[:5]}")
    must(not {"script", "iframe", "object", "img"} & set(page.tags), "a script, frame or image")
    for link in page.links:
        must(link == "data:," or link.startswith("https://lore.kernel.org/")
             or link.startswith("#") and link[1:] in page.ids, f"a link to {link}")
    must("url(http" not in text and "@import" not in text, "something is fetched by a style")
    must("default-src 'none'" in text, "no policy that keeps the network out")
    must("#0fe0" not in text, "a colour that is no variable")
    drawn = [p for p in plots.PLOTS if p.source in FEW]
    for p in plots.PLOTS:
        body = text[text.index(f'<figure id="{p.name}">'):]
        body = body[:body.index("</figure>")]
        must(f"<code>{formats.SOURCES[p.source][0]}".replace(">b", "&gt;b") in body or
             formats.SOURCES[p.source][0].replace(">", "&gt;") in body, f"{p.name} has no command")
        if p in drawn:
            must(body.count("<svg") == 2 and body.count('role="img"') == 2, f"{p.name} has no plot")
            must(re.search(r'class="see">[A-Z0-9][^<]+\.</p>', body), f"{p.name} says nothing")
            must("CPU" in body or "does not say which machine" in body, f"{p.name}: no machine")
        else:
            must("Not measured here" in body and "<svg" not in body, f"{p.name} has no data")


@case
def figures_are_those_of_the_data_with_their_ranges():
    page = Reader(of(few())[0]).text()
    must("2.10 [1.89 to 2.52]" in page, "the mean of one thread is not in the table")
    must("the calls take 3.60 ms deferred and 8.40 ms freeing at once: 2.3 times less" in page,
         "what is to be seen is not computed from the data")
    must("2 of 3 targets are met; missed: reset_close." in page, "targets are not counted")


@case
def without_data_each_plot_says_which_command_makes_it():
    text, wrong = of({})
    must(not wrong and "<svg" not in text, wrong)
    must(text.count("Not measured here") == len(plots.PLOTS), "a plot does not say so")
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "page", "index.html")
        p = subprocess.run([sys.executable, BENCH / "run", "--json", f"{tmp}/none", "--out", out],
                           capture_output=True, text=True, check=False)
        must(p.returncode == 0 and os.path.exists(out) and "there is no folder" in p.stderr,
             p.stderr)


def body(text, name):
    text = text[text.index(f'<figure id="{name}">'):]
    return text[:text.index("</figure>")]


@case
def a_fresh_clone_draws_what_is_published_and_a_later_run_comes_before_it():
    run, every = report(), report_data.every()
    kept, mine = dict(every["store.json"]), dict(every["store.json"])
    kept["machine"] = {**report_data.FACTS, "commit": "0123abc"}
    with tempfile.TemporaryDirectory() as tmp:
        here, published = f"{tmp}/bench", f"{tmp}/figures"
        report_data.write(published, {"store.json": kept, "back.json": every["back.json"]})
        for at, date, whose in (("none yet", None, "Published"),
                                ("earlier", "2026-10-31T23:59:59Z", "Published"),
                                ("the kept one", kept["machine"]["date"], "Published"),
                                ("later", "2026-11-01T00:00:01Z", "This machine&#39;s run")):
            if date:
                mine["machine"] = {**report_data.FACTS, "date": date, "commit": "4567def-dirty"}
                report_data.write(here, {"store.json": mine})
            text, wrong = run.page(here, published)
            must(not wrong, wrong)
            commit = "0123abc" if whose == "Published" else "4567def-dirty"
            of = body(text, "cpu_store")
            must("<svg" in of and f"<br>{whose}: A CPU" in of and f"commit {commit}<" in of,
                 f"{at}: {of[-900:]}")
            must("Published" in body(text, "back"), "what only docs/figures has is not drawn")
            must("Not measured here" in body(text, "allocators"), "a plot without data")


@case
def each_file_that_is_published_is_drawn():
    kept = ROOT / formats.KEPT
    sources = formats.load(NOWHERE, kept)
    for path in kept.glob("*.json"):
        source = sources.get(path.name)
        must(not source or not source.problem, source and source.problem)
        must(formats.facts_of(formats.document(kept, path.name)[0]).keys() >= {"commit", "command"},
             f"{path.name} does not say which commit and command")
    for p in plots.PLOTS:
        if sources[p.source].rows:
            p.chart(sources[p.source].rows)


BROKEN = [
    (b"", "expected JSON"), (b"{\"rows\": [", "expected JSON"), (b"\xff\xfe\x00", "expected JSON"),
    (b"[]", "expected an object with a list"), (b"{}", "expected an object with a list"),
    (b"{\"rows\": {}}", "expected an object with a list"), (b"{\"rows\": []}", "one row at least"),
    (b"{\"rows\": [1]}", "expected an object as row 1"),
    (b"{\"rows\": [{\"threads\": 1}]}", "expected \"variant\" in each row, and row 1 has none"),
    (b"{\"rows\": [{\"variant\": \"sync\", \"threads\": 1, \"mean_ms\": \"<b>\"}]}",
     "mean_ms is '<b>', where a number was expected"),
    (b"{\"rows\": [{\"variant\": \"sync\", \"threads\": 1, \"mean_ms\": NaN}]}", "mean_ms is nan"),
    (b"{\"rows\": [{\"variant\": \"sync\", \"threads\": [1], \"mean_ms\": 1}]}",
     "release.json has"),
    (b"{\"rows\": [" + b", ".join(b"{\"variant\": \"sync\", \"threads\": %d, \"mean_ms\": 1}" % n
                                for n in range(1000)) + b"]}", "release.json has"),
    (b"{\"rows\": [{\"variant\": \"sync\", \"threads\": 1}]}", "release.json has no mean_ms"),
    (b"[" * 100000, "nested too deeply"),
]


@case
def a_file_that_cannot_be_used_is_named_and_the_rest_stands():
    run = report()
    with tempfile.TemporaryDirectory() as tmp:
        report_data.write(tmp, {"back.json": report_data.every()["back.json"]})
        name = os.path.join(tmp, "release.json")
        for data, words in BROKEN:
            with open(name, "wb") as f:
                f.write(data)
            text, wrong = run.page(tmp, NOWHERE)
            must(any(words in w for w in wrong), f"{data[:60]}: {wrong}")
            must(all(w.startswith("release.json") and "\n" not in w for w in wrong), wrong)
            must(Reader(text).text().count(wrong[0]) >= 1, f"the page does not say: {wrong[0]}")
            must(text.count("<svg") == 2, f"{data[:60]}: the other plot is gone")
        os.remove(name)
        os.mkdir(name)
        must("release.json cannot be used" in run.page(tmp, NOWHERE)[1][0], "a folder is no file")


@case
def figures_that_no_bench_gives_do_not_take_the_page_along():
    run, columns = report(), report_data.TABLES["release"]
    with tempfile.TemporaryDirectory() as tmp:
        for value in (0, -5, 1e-300, 1e300, 10 ** 400, True):
            rows = [{**dict.fromkeys(columns, value), "variant": v, "threads": n}
                    for v in ("sync", "deferred") for n in (1, 2)]
            facts = {**report_data.FACTS, "cpus": value, "memory_bytes": value}
            report_data.write(tmp, {"release.json": {"machine": facts, "rows": rows},
                                    "back.json": report_data.every()["back.json"]})
            text, wrong = run.page(tmp, NOWHERE)
            Reader(text)
            must('<figure id="back">' in text and text.count("<svg") >= 2, f"{value}: {wrong}")
            must(all(w.startswith("release.json") for w in wrong), wrong)


@case
def names_of_the_data_are_text_whatever_they_have_in_them():
    evil = "<script>alert(1)</script>&\"'$\\frac{x}$\x00\x1b]]>\ud800" + "W" * 200
    rows = [{"figure": evil, "target": 1, "value": 2},
            {"figure": "$\\frac{x}$", "target": 1, "value": 2}]
    text, wrong = of({"back.json": {"machine": {"cpu_model": evil, "cpus": 1}, "rows": rows}})
    must(not wrong, wrong)
    page = Reader(text)
    must("script" not in page.tags and "<script" not in text.lower(), "a script got in")
    must("\x00" not in text and "\x1b" not in text and "]]>" not in text, "a control character")
    must("alert(1)" in page.text(), "the name is not shown as it is")
    drawn = text[text.index("<svg"):text.index("</svg>")]
    must(">$\\frac{x}$<" in drawn, "a formula was made of a name")


@case
def numbers_are_short_and_counts_are_exact():
    for value, digits, want in ((0, 3, "0"), (0.0123, 3, "0.0123"), (3.7, 3, "3.70"),
                                (103.2, 3, "103"),
                                (12345, 3, "12,345"), (12345.6, 3, "12,346"), (1.0146, 5, "1.0146"),
                                (15.8, 0, "15.8"), (-2.5, 2, "-2.5"), (1e-9, 3, "1.00e-09"),
                                (1e300, 3, "1.00e+300")):
        must(chart.number(value, digits) == want, f"{value}: {chart.number(value, digits)}")


def luminance(colour):
    parts = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    return sum(by * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4)
               for by, c in zip((0.2126, 0.7152, 0.0722), parts))


def contrast(one, other):
    a, b = sorted((luminance(one), luminance(other)))
    return (b + 0.05) / (a + 0.05)


@case
def colours_can_be_told_from_the_paper_in_both_themes():
    must(abs(contrast("#ffffff", "#767676") - 4.54) < 0.01, "the formula is not WCAG's")
    report()
    import draw
    for theme in (draw.LIGHT, draw.DARK):
        for role in ("ink", *chart.ROLES):
            by = contrast(theme[role], theme["paper"])
            must(by >= 4.5, f"{role} {theme[role]} on {theme['paper']}: {by:.2f}, expected 4.5")


@case
def the_picture_is_of_the_pages_table():
    must(picture.wrong(ROOT) == "", picture.wrong(ROOT))
    with tempfile.TemporaryDirectory() as tmp:
        os.mkdir(f"{tmp}/docs")
        os.mkdir(f"{tmp}/kernel")
        shutil.copy(ROOT / picture.FILE, f"{tmp}/docs")
        text = (ROOT / picture.PAGE).read_text()
        other = re.sub(r"(\| a?lower bound[^|]*\| )[\d.]+", r"\g<1>7.7", text)
        must(other != text, f"{picture.PAGE}'s table has no lower bound")
        pathlib.Path(tmp, picture.PAGE).write_text(other)
        must("other figures" in picture.wrong(tmp), "a changed figure is not noticed")
        os.remove(f"{tmp}/docs/release.svg")
        must("cannot be compared" in picture.wrong(tmp), "a missing picture is not noticed")


@case
def the_picture_has_its_own_colours_and_no_link():
    run = report()
    made, told = picture.of_page(ROOT / picture.PAGE)
    text = run.draw.picture(made, picture.TITLE, told)
    kept = (ROOT / picture.FILE).read_text()
    for svg in (text, kept):
        must("prefers-color-scheme: dark" in svg and f"<desc>{told}</desc>" in svg,
             "no style, no desc")
        must(not re.search(r'(href|src)="(?!#)', svg) and "<script" not in svg, "a link")


@case
def a_library_that_is_missing_is_named_with_the_command_that_installs_it():
    for name in ("matplotlib", "jinja2"):
        with tempfile.TemporaryDirectory() as tmp:
            pathlib.Path(tmp, f"{name}.py").write_text(f"raise ImportError('x', name='{name}')\n")
            p = subprocess.run([sys.executable, BENCH / "run", "--out", f"{tmp}/x.html"],
                               env=dict(os.environ, PYTHONPATH=tmp), capture_output=True, text=True,
                               check=False)
            must(p.returncode == 1 and "scripts/deps report" in p.stderr
                 and ("jinja2" in p.stderr or name in p.stderr) and "Traceback" not in p.stderr,
                 p.stderr)


if __name__ == "__main__":
    if "--full" in sys.argv:
        import report_browser
        case += report_browser.cases(report, of)
    sys.exit(tap.run(case, [a for a in sys.argv[1:] if a != "--full"]))
