# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The page of `make report` in Chromium, without a screen: what test_report.py --full has more.

    python3 tests/report_browser.py PAGE FOLDER     pictures of a page, to be looked at
"""
import base64
import contextlib
import os
import pathlib
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
import report_data
import tap

WIDTHS, THEMES = (360, 1280), ("light", "dark")
# Text and marks that are seen, with the contrast to what is behind them; text beyond its drawing.
LOOK = r"""
function parts(c) { const m = c.match(/[\d.]+/g); return m ? m.map(Number) : null; }
function light(c) {
  return c.slice(0, 3).map(x => x / 255)
    .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
    .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
}
function contrast(a, b) {
  const [x, y] = [light(a), light(b)].sort((p, q) => p - q);
  return (y + 0.05) / (x + 0.05);
}
function behind(e) {
  for (; e; e = e.parentElement) {
    const c = parts(getComputedStyle(e).backgroundColor);
    if (c && (c.length < 4 || c[3] > 0)) return c;
  }
  return [255, 255, 255];
}
const out = {texts: 0, low: [], cut: [], over: [], drawn: {}};
const wide = document.documentElement.clientWidth;
for (const e of document.querySelectorAll('body *')) {
  const box = e.getBoundingClientRect(), style = getComputedStyle(e);
  if (!box.width || !box.height || style.visibility === 'hidden' || !e.checkVisibility()) continue;
  const said = [...e.childNodes].filter(n => n.nodeType === 3 && n.data.trim());
  const svg = e.closest('svg');
  if (said.length && !e.closest('title, desc, style')) {
    out.texts++;
    const by = contrast(parts(svg ? style.fill : style.color), behind(e));
    if (by < 4.5) out.low.push([e.textContent.trim().slice(0, 40), by]);
    if (parseFloat(style.fontSize) * (svg ? svg.getBoundingClientRect().width /
        svg.viewBox.baseVal.width : 1) < 10)
      out.low.push([e.textContent.trim().slice(0, 40), style.fontSize]);
    if (svg) {
      const s = svg.getBoundingClientRect();
      if (box.left < s.left - 1 || box.right > s.right + 1 || box.top < s.top - 1 ||
          box.bottom > s.bottom + 1)
        out.cut.push(e.textContent.trim().slice(0, 40));
    }
  }
  if (!e.closest('.scroll') && (box.right > wide + 1 || box.left < -1))
    out.over.push(e.tagName + ' ' + e.textContent.trim().slice(0, 40));
  if (e.tagName === 'svg') {
    const f = e.closest('figure').id, c = e.getAttribute('class');
    out.drawn[f] = (out.drawn[f] || '') + c + ' ';
  }
}
out.scroll = document.documentElement.scrollWidth - wide;
out.fetched = performance.getEntriesByType('resource').map(r => r.name);
out.paper = getComputedStyle(document.body).backgroundColor;

return out;
"""


@contextlib.contextmanager
def browser():
    """A driver of Chromium; Skip says what is missing."""
    try:
        from selenium import webdriver
        from selenium.common.exceptions import WebDriverException
    except ImportError as e:
        raise tap.Skip(f"no {e.name} for python3; scripts/deps full as root installs it") from None
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        raise tap.Skip("no chromium and chromedriver; scripts/deps full as root installs them")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for word in ("--headless=new", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
                 *(["--no-sandbox"] if os.geteuid() == 0 else [])):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    try:
        it = webdriver.Chrome(service=webdriver.chrome.service.Service(driver), options=options)
    except WebDriverException as e:
        raise tap.Skip(f"Chromium does not start: {str(e).splitlines()[0]}") from None
    it.set_page_load_timeout(300)
    it.set_script_timeout(300)
    try:
        yield it
    finally:
        it.quit()


def show(it, path, width, theme, media="screen"):
    it.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600})
    it.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "media": media, "features": [{"name": "prefers-color-scheme", "value": theme}]})
    it.get(pathlib.Path(path).resolve().as_uri())


def faults(it, path, width, theme, media="screen"):
    """(what the page is wrong in, what LOOK found)"""
    it.get_log("browser")
    show(it, path, width, theme, media)
    # Tables are folded; what is in them is looked at, too.
    it.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    found = it.execute_script(LOOK)
    wrong = [f"the console says {line['message'][:200]}" for line in it.get_log("browser")]
    wrong += [f"'{text}' is hard to read: {by}" for text, by in found["low"]]
    wrong += [f"'{text}' is cut off by its plot" for text in found["cut"]]
    wrong += [f"{what} is beyond the page" for what in found["over"]]
    wrong += [f"it is {found['scroll']} pixels too wide"] if found["scroll"] > 0 else []
    wrong += [f"it fetches {name}" for name in found["fetched"]]
    return [f"{width} pixels, {theme}, {media}: {w}" for w in wrong], found


PLANTED = """<style>@media (min-width: 1px) { body { background: #fff; color: #222; } }</style>
<p style="width: 3000px">wide</p><p style="color: #aaa">faint</p><p style="font-size: 7px">tiny</p>
<figure id="f"><svg class="wide" viewBox="0 0 100 20" width="100" height="20" overflow="visible">
<text x="90" y="10" style="font-size: 12px">cut off here</text></svg></figure>
<script>console.error("said by the page")</script><img src="missing.png" alt="">"""


def cases(report, of):
    """(name, function) of each; report and of are test_report.py's."""
    def planted():
        with browser() as it, tempfile.TemporaryDirectory() as tmp:
            path = pathlib.Path(tmp, "bad.html")
            path.write_text(f"<!DOCTYPE html><html><body>{PLANTED}</body></html>")
            wrong = "\n".join(faults(it, path, 360, "light")[0])
        for word in ("said by the page", "'faint' is hard", "'tiny' is hard", "is cut off",
                     "is beyond the page", "pixels too wide", "missing.png"):
            assert word in wrong, f"nothing of '{word}' in: {wrong}"

    def whole_page():
        run = report()
        with browser() as it, tempfile.TemporaryDirectory() as tmp:
            text, wrong = of(report_data.every())
            assert not wrong, wrong
            path = pathlib.Path(tmp, "index.html")
            path.write_text(text, encoding="utf-8")
            for width in WIDTHS:
                for theme in THEMES:
                    wrong, found = faults(it, path, width, theme)
                    assert not wrong, "\n".join(wrong[:20])
                    which = "narrow " if width < 600 else "wide "
                    drawn = {p.name: which for p in run.plots.PLOTS}
                    assert found["drawn"] == drawn, f"{width} pixels: {found['drawn']}"
                    assert found["texts"] > 500, found["texts"]
                    dark = found["paper"] != "rgb(255, 255, 255)"
                    assert dark == (theme == "dark"), f"{theme}: paper is {found['paper']}"
            wrong, found = faults(it, path, 700, "dark", "print")
            assert not wrong, "\n".join(wrong[:20])
            assert found["paper"] == "rgb(255, 255, 255)", f"printed on {found['paper']}"
            assert set(found["drawn"].values()) == {"wide "}, found["drawn"]

    def empty_page():
        with browser() as it, tempfile.TemporaryDirectory() as tmp:
            path = pathlib.Path(tmp, "index.html")
            long = "W" * 300
            path.write_text(of({"back.json": {"machine": {"cpu_model": long}, "rows": [
                {"figure": long, "target": 1, "value": 1e9}]}, "dask.json": [long]})[0],
                encoding="utf-8")
            for width in WIDTHS:
                wrong, _ = faults(it, path, width, "light")
                assert not wrong, "\n".join(wrong[:20])

    def readme_picture():
        with browser() as it:
            path = pathlib.Path(report_data.ROOT, "docs", "release.svg")
            for theme in THEMES:
                it.get_log("browser")
                show(it, path, 760, theme)
                ink, paper = it.execute_script(
                    "const c = e => getComputedStyle(document.querySelector(e)).fill;"
                    "return [c('text'), c('rect')]")
                assert (ink == "rgb(36, 41, 47)") == (theme == "light"), f"{theme}: {ink}"
                assert ink != paper and not it.get_log("browser"), f"{theme}: {ink} on {paper}"

    return [("a planted fault of each kind is seen in the browser", planted),
            ("no error, overflow or faint text at 360 and 1280 pixels, light, dark, on paper",
             whole_page),
            ("long names and missing data do not make the page wider", empty_page),
            ("the picture of kernel/README.md follows the theme", readme_picture)]


def main():
    path, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    with browser() as it:
        for width in WIDTHS:
            for theme in THEMES:
                show(it, path, width, theme)
                height = it.execute_script("return document.documentElement.scrollHeight")
                for at in range(0, height, 2400):
                    shot = it.execute_cdp_cmd("Page.captureScreenshot", {
                        "captureBeyondViewport": True, "clip": {
                            "x": 0, "y": at, "width": width, "height": min(2400, height - at),
                            "scale": 1}})
                    name = f"{width}-{theme}-{at // 2400:02}.png"
                    pathlib.Path(folder, name).write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    main()
