# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A Chart as SVG, by matplotlib, in the colours of the page that it stands in.

    svg(chart, name, narrow)    for a page, whose style has the colours and the legend
    picture(chart, ...)         a file that stands by itself, with its own style and legend

matplotlib knows fixed colours only. So each role gets a colour that nothing else has, and that
one is replaced by var(--plot-ROLE) afterwards. Text stays text, in the page's font. One unit of the
drawing is one pixel at its own width, so the letters of both widths have the size of the page's.
"""
import io
import re
import xml.etree.ElementTree as ET

import matplotlib
matplotlib.use("svg")
from matplotlib import pyplot, ticker  # noqa: E402

from chart import ROLES, number  # noqa: E402

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
WIDE, NARROW = 720, 328         # pixels
FONT = 12
MARKERS, GLYPHS = "os^Dvph*", "●■▲◆▼⬟⬢★"
NAMES = (*ROLES, "ink", "grid", "paper")
COLOUR = {name: f"#0fe0{at:02d}" for at, name in enumerate(NAMES)}

# Of text and lines. WCAG asks 4.5 to 1 for text; these have it on paper, in both themes.
LIGHT = {"paper": "#ffffff", "ink": "#24292f", "grid": "#d5dae0", "intree": "#b4420b",
         "built": "#8a6100", "sync": "#0b7362", "deferred": "#1d5fc4", "bulk": "#7b3fb5",
         "floor": "#656d76", "other": "#b02a78", "more": "#4d6b1f"}
DARK = {"paper": "#14181d", "ink": "#e3e7ec", "grid": "#353c45", "intree": "#ff9257",
        "built": "#dcb04a", "sync": "#48c7a8", "deferred": "#74aeff", "bulk": "#c79bf2",
        "floor": "#a2abb5", "other": "#f48bc0", "more": "#a9cc6e"}

matplotlib.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "ebb", "text.parse_math": False, "font.size": FONT,
    "axes.edgecolor": COLOUR["grid"], "axes.labelcolor": COLOUR["ink"], "text.color": COLOUR["ink"],
    "xtick.color": COLOUR["grid"], "ytick.color": COLOUR["grid"],
    "xtick.labelcolor": COLOUR["ink"], "ytick.labelcolor": COLOUR["ink"],
    "grid.color": COLOUR["grid"], "axes.grid": True, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": FONT,
    "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.labelsize": FONT,
    "xtick.labelsize": FONT, "ytick.labelsize": FONT, "figure.dpi": 72, "savefig.dpi": 72,
    "lines.linewidth": 2, "lines.markersize": 6, "xtick.minor.size": 0, "ytick.minor.size": 0,
    "font.family": "DejaVu Sans",
})


def style(selector=":root"):
    """The colours as CSS: light, dark where that is asked for, light on paper."""
    def block(colours):
        return selector + "{" + ";".join(f"--plot-{k}:{v}" for k, v in colours.items()) + "}"
    return (f"{block(LIGHT)}\n@media (prefers-color-scheme: dark){{{block(DARK)}}}\n"
            f"@media print{{{block(LIGHT)}}}")


def short(text, most=30):
    text = str(text)
    return text if len(text) <= most else text[:most - 1] + "…"


def spread(points):
    """Error bars of points: what matplotlib wants, below and above."""
    return [[max(0, p.value - p.low) for p in points], [max(0, p.high - p.value) for p in points]]


def draw_lines(ax, panel):
    for s in panel.series:
        points = sorted(s.points, key=lambda p: p.x)
        colour, x, values = COLOUR[s.role], [p.x for p in points], [p.value for p in points]
        if panel.band:
            ax.fill_between(x, [p.low for p in points], [p.high for p in points], color=colour,
                            alpha=0.35, linewidth=0)
        ax.plot(*((values, x) if panel.turned else (x, values)), color=colour,
                marker=MARKERS[s.mark % len(MARKERS)], linestyle=":" if s.faint else "-",
                linewidth=1.5 if s.faint or panel.band else 2)
        if not panel.band and any(p.low != p.high for p in points):
            ends = {"xerr" if panel.turned else "yerr": spread(points)}
            ax.errorbar(*((values, x) if panel.turned else (x, values)), fmt="none", ecolor=colour,
                        elinewidth=1, capsize=3, **ends)
    if panel.turned:
        ax.set_xlim(left=0)
        ax.set_yticks(sorted(panel.categories()))
        ax.set_xlabel(panel.value)
        ax.set_title("\n".join(t for t in (panel.title, panel.over) if t))
        return
    if panel.log:
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0)
    at = panel.categories()
    if panel.log_over:
        ax.set_xscale("log", base=2)
        ticks = sorted(at)
        ax.set_xticks([t for n, t in enumerate(ticks) if len(ticks) < 8 or n % 3 == 0])
    elif all(isinstance(x, int) for x in at) and len(at) < 8:
        ax.set_xticks(sorted(at))
    ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: number(v)))
    ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: number(v)))
    ax.yaxis.set_minor_formatter(ticker.NullFormatter())
    ax.set_xlabel(panel.over)
    # A long name beside the axis would not fit: it stands above it.
    ax.set_title("\n".join(t for t in (panel.title, panel.value) if t))


def lanes(panel):
    """Where each bar or dot of a category stands: the series share its height."""
    n = 1 if panel.kind == "stacked" else len(panel.series)
    return [0.8 / n * (at - (n - 1) / 2) if n > 1 else 0 for at in range(len(panel.series))], 0.8 / n


def draw_categories(ax, panel):
    names = panel.categories()
    row = {name: at for at, name in enumerate(names)}
    offset, height = lanes(panel)
    begin, ends = dict.fromkeys(names, 0.0), {}
    for at, s in enumerate(panel.series):
        shape = MARKERS[s.mark % len(MARKERS)]
        y = [row[p.x] + offset[at] for p in s.points]
        values, colour = [p.value for p in s.points], COLOUR[s.role]
        if panel.kind == "dots":
            ax.plot(values, y, color=colour, marker=shape, linestyle="none")
        else:
            left = [begin[p.x] for p in s.points] if panel.kind == "stacked" else 0
            ax.barh(y, values, height * 0.88, left=left, color=colour,
                    edgecolor=COLOUR["paper"], linewidth=1)
        if panel.kind != "stacked" and any(p.low != p.high for p in s.points):
            ink = COLOUR["ink"] if panel.kind == "bars" else colour
            ax.errorbar(values, y, xerr=spread(s.points), fmt="none", ecolor=ink, elinewidth=1,
                        capsize=2)
        for p, where in zip(s.points, y):
            begin[p.x] += p.value
            if panel.kind == "stacked":
                ends[p.x] = (begin[p.x], where, begin[p.x])
            else:
                ends[at, p.x] = (max(p.value, p.high), where, p.value)
    for end, where, value in ends.values():
        ax.annotate(number(value, panel.digits), (end, where), (5, 0), textcoords="offset points",
                    va="center", fontsize=FONT - 1)
    ax.set_yticks(range(len(names)), [short(n) for n in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
    low = min(v for _, _, v in ends.values())
    high = max(e for e, _, _ in ends.values())
    if panel.log:
        ax.set_xscale("log")
        ax.set_xlim(low / 2, high * 6)
        ax.xaxis.set_minor_formatter(ticker.NullFormatter())
    elif panel.kind == "dots":
        ax.margins(x=0.2)
        low = low if panel.mark is None else min(low, panel.mark)
        ax.set_xlim(low - (high - low) * 0.08, high + (high - low) * 0.25 + 1e-9)
    else:
        ax.set_xlim(0, high * 1.22 if high else 1)
    ax.xaxis.set_major_locator(ticker.LogLocator(numticks=5) if panel.log else
                               ticker.MaxNLocator(4))
    ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: number(v, panel.digits)))
    ax.set_title("\n".join(t for t in (panel.title, panel.value) if t))


def height_of(panel):
    """Of a panel, in pixels."""
    titles = 18 * bool(panel.title) + 18
    if panel.kind == "lines":
        return 230 + titles
    n = len(panel.series) if panel.kind in ("bars", "dots") else 1
    return titles + 40 + len(panel.categories()) * max(26, 17 * n + 8)


def figure(chart, narrow, legend=False):
    columns = 1 if narrow or len(chart.panels) == 1 else 2
    rows = -(-len(chart.panels) // columns)
    heights = [max(height_of(p) for p in chart.panels[r * columns:(r + 1) * columns])
               for r in range(rows)]
    more = 30 if legend else 0
    fig, axes = pyplot.subplots(
        rows, columns, figsize=((NARROW if narrow else WIDE) / 72, (sum(heights) + more) / 72),
        squeeze=False, layout="constrained", gridspec_kw={"height_ratios": heights})
    flat = list(axes.flat)
    for ax, panel in zip(flat, chart.panels):
        (draw_lines if panel.kind == "lines" else draw_categories)(ax, panel)
        if panel.mark is not None:
            line = ax.axhline if panel.kind == "lines" else ax.axvline
            line(panel.mark, color=COLOUR["ink"], linewidth=1, linestyle="--")
    for ax in flat[len(chart.panels):]:
        ax.set_visible(False)
    if legend:
        marks = [matplotlib.lines.Line2D([], [], color=COLOUR[s.role], marker=MARKERS[s.mark],
                                         label=s.name) for s in chart.legend()]
        fig.legend(handles=marks, loc="lower center", ncol=len(marks), frameon=False)
        fig.get_layout_engine().set(rect=(0, more / (sum(heights) + more), 1, 1))
    text = io.StringIO()
    fig.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    pyplot.close(fig)
    return text.getvalue()


def themed(text, name, title, told):
    """matplotlib's SVG for a page: our colours and font, and names that no other drawing has."""
    text = re.sub(r"#0fe0(\d\d)", lambda m: f"var(--plot-{NAMES[int(m[1])]})", text)
    text = re.sub(r"font: (?:[\w.]+ )*?((?:bold |700 )?)([\d.]+)px [^;\"]*",
                  lambda m: ("font-weight: 700; " if m[1] else "") + f"font-size: {m[2]}px", text)
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", XLINK)
    root = ET.fromstring(text)
    for of in root.findall(f"{{{SVG}}}metadata"):
        root.remove(of)
    for node in root.iter():
        for key, value in list(node.attrib.items()):
            if key == "id":
                node.set(key, f"{name}-{value}")
            elif key.endswith("href") and value.startswith("#"):
                node.set(key, f"#{name}-{value[1:]}")
            elif "url(#" in value:
                node.set(key, value.replace("url(#", f"url(#{name}-"))
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title")
    words = ET.Element(f"{{{SVG}}}title", id=f"{name}-title")
    words.text = title
    root.insert(0, words)
    if told:
        desc = ET.Element(f"{{{SVG}}}desc")
        desc.text = told
        root.insert(1, desc)
    return root


def svg(chart, name, title, narrow):
    root = themed(figure(chart, narrow), name + ("-narrow" if narrow else "-wide"), title, "")
    root.set("class", "narrow" if narrow else "wide")
    return ET.tostring(root, encoding="unicode")


def picture(chart, title, told):
    """A file of its own, which follows the theme of who looks at it."""
    root = themed(figure(chart, False, legend=True), "ebb", title, told)
    look = ET.Element(f"{{{SVG}}}style")
    look.text = style() + "\ntext{font-family:system-ui,-apple-system,'DejaVu Sans',sans-serif}"
    root.insert(2, look)
    _, _, width, height = root.get("viewBox").split()
    root.set("width", width)
    root.set("height", height)
    paper = ET.Element(f"{{{SVG}}}rect", width="100%", height="100%",
                       style="fill: var(--plot-paper)")
    root.insert(3, paper)
    return "<!-- SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause -->\n" + \
        ET.tostring(root, encoding="unicode") + "\n"
