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
import textwrap
import xml.etree.ElementTree as ET

import matplotlib
matplotlib.use("svg")
from matplotlib import font_manager, pyplot, ticker  # noqa: E402

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
    "axes.spines.top": False, "axes.spines.right": False, "axes.labelsize": FONT,
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


def pixels(text):
    """How wide a line of text is, in the widest font that the page may have."""
    face = font_manager.get_font(font_manager.findfont("DejaVu Sans"))
    face.set_size(FONT, 72)
    face.set_text(text)
    return face.get_width_height()[0] / 64


def wrapped(text, width, most=2):
    """At most so many lines of so many pixels."""
    letters = max(4, int(width / (FONT * 0.58)))
    lines = textwrap.wrap(str(text), letters) or [""]
    cut = len(lines) > most
    lines = lines[:most]
    lines[-1] += "…" if cut else ""
    for at, line in enumerate(lines):
        while pixels(line) > width:
            line = line.rstrip("…")[:-1] + "…"
        lines[at] = line
    return "\n".join(lines)


def tick(value, _=None):
    """A number at an axis."""
    for unit, word in ((1e9, " G"), (1e6, " M")):
        if abs(value) >= unit:
            return f"{value / unit:.6g}{word}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"


def spread(points):
    """Error bars of points: what matplotlib wants, below and above."""
    return [[max(0, p.value - p.low) for p in points], [max(0, p.high - p.value) for p in points]]


def decades(low, high):
    """Where a logarithmic axis has numbers: within two decades, at 2 and 5, too."""
    return ticker.LogLocator(subs=(1, 2, 5) if high / low < 100 else (1,), numticks=6)


def draw_lines(ax, panel):
    for s in panel.series:
        points = sorted(s.points, key=lambda p: p.x)
        colour, x, values = COLOUR[s.role], [p.x for p in points], [p.value for p in points]
        at = (values, x) if panel.turned else (x, values)
        if panel.band:
            ax.fill_between(x, [p.low for p in points], [p.high for p in points], color=colour,
                            alpha=0.35, linewidth=0)
        ax.plot(*at, color=colour, marker=shape(s), linestyle=":" if s.faint else "-",
                linewidth=1.5 if s.faint or panel.band else 2)
        if not panel.band and any(p.low != p.high for p in points):
            ends = {"xerr" if panel.turned else "yerr": spread(points)}
            ax.errorbar(*at, fmt="none", ecolor=colour, elinewidth=1, capsize=3, **ends)
    if panel.turned:
        ax.set_xlim(left=0)
        ax.set_yticks(sorted(panel.categories()))
        ax.set_xlabel(panel.value)
    else:
        if panel.log:
            ax.set_yscale("log")
            ax.yaxis.set_major_locator(decades(*ax.get_ylim()))
            ax.yaxis.set_minor_locator(ticker.NullLocator())
        else:
            ax.set_ylim(bottom=0)
        ticks = sorted(panel.categories())
        if panel.log_over:
            ax.set_xscale("log", base=2)
            ax.xaxis.set_minor_locator(ticker.NullLocator())
            ax.set_xticks([t for n, t in enumerate(ticks) if len(ticks) < 8 or n % 3 == 0])
        elif len(ticks) < 8:
            ax.set_xticks(ticks)
        ax.set_xlabel(panel.over)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(ticker.FuncFormatter(tick))


def shape(series):
    return MARKERS[series.mark % len(MARKERS)]


def draw_categories(ax, panel, width, same):
    """width: of the axes, in pixels; the figures beside bars and dots have to fit in.  same: panels
    of dots that have the axis of this one."""
    names = panel.categories()
    row = {name: at for at, name in enumerate(names)}
    # The series share the height of a category, but where they stand end to end.
    lanes = 1 if panel.kind == "stacked" else len(panel.series)
    height = 0.8 / lanes
    begin, ends = dict.fromkeys(names, 0.0), {}
    for at, s in enumerate(panel.series):
        lane = height * (at - (lanes - 1) / 2) if lanes > 1 else 0
        y, values = [row[p.x] + lane for p in s.points], [p.value for p in s.points]
        colour = COLOUR[s.role]
        if panel.kind == "dots":
            ax.plot(values, y, color=colour, marker=shape(s), linestyle="none")
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
    # So that a line across does not go through a figure.
    behind = None if panel.mark is None else {"facecolor": COLOUR["paper"], "edgecolor": "none",
                                              "pad": 0.5}
    for end, where, value in ends.values():
        ax.annotate(number(value, panel.digits), (end, where), (5, 0), textcoords="offset points",
                    va="center_baseline", fontsize=FONT - 1, bbox=behind)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
    ax.yaxis.set_minor_locator(ticker.NullLocator())
    for n, other in enumerate(p for of in same for s in of.series for p in s.points):
        ends["same", n] = (max(other.value, other.high), None, other.value)
    lowest = min(p.low for of in [panel, *same] for s in of.series for p in s.points)
    high = max(e for e, _, _ in ends.values())
    label = max(len(number(v, panel.digits)) for _, _, v in ends.values()) * FONT * 0.58 + 10
    free = max(0.3, 1 - label / width)      # of the width, left of the figures
    if panel.log:
        low = lowest / 1.5
        ax.set_xscale("log")
        ax.set_xlim(low, low * (high / low) ** (1 / free))
        # None where only figures stand: a number at the end would be cut off.
        ax.xaxis.set_major_locator(ticker.FixedLocator(
            [at for at in decades(low, high).tick_values(low, high) if low <= at <= high]))
    else:
        low = 0
        if panel.kind == "dots":
            low = min(lowest, panel.mark if panel.mark is not None else lowest)
            low -= ((high - low) or abs(high) or 1) * 0.08
        ax.set_xlim(low, low + (max(high, panel.mark or 0) - low or 1) / free)
        ax.xaxis.set_major_locator(ticker.MaxNLocator(max(2, int(width / 75)),
                                                      steps=[1, 2, 5, 10]))
    ax.xaxis.set_minor_locator(ticker.NullLocator())
    ax.xaxis.set_major_formatter(ticker.FuncFormatter(tick))


class Place:
    """Where a panel stands, in pixels, and what is written around it. matplotlib could find that
    out by itself, in twice the time of all the rest."""

    def __init__(self, panel, width):
        self.panel, self.lines = panel, panel.kind == "lines"
        # Bold is wider.
        title = wrapped(panel.title, width / 1.15) if panel.title else ""
        # A long name beside an axis would not fit: it stands above.
        value = panel.over if panel.turned else panel.value
        self.title, self.value = title, value
        self.top = (FONT + 4) * (title.count("\n") + 1 if title else 0) + FONT + 10
        self.bottom = 44 if self.lines else 26
        if self.lines:
            self.left, self.height = 56, 220
            self.names = []
        else:
            self.names = [wrapped(n, min(width * 0.4, 250)) for n in panel.categories()]
            self.left = max(pixels(x) for n in self.names for x in n.split("\n")) + 12
            lanes = 1 if panel.kind == "stacked" else len(panel.series)
            self.height = len(self.names) * max(32 if any("\n" in n for n in self.names) else 24,
                                                16 * lanes + 8)

    @property
    def whole(self):
        return self.top + self.height + self.bottom

    def draw(self, fig, x, y, width, whole, same):
        """x, y of the upper left corner; whole is the figure's (width, height)."""
        w, h = whole
        wide = width - self.left - 14
        ax = fig.add_axes((((x + self.left) / w), 1 - (y + self.top + self.height) / h, wide / w,
                           self.height / h))
        if self.lines:
            draw_lines(ax, self.panel)
        else:
            draw_categories(ax, self.panel, wide, same)
            ax.set_yticks(range(len(self.names)), self.names)
        if self.panel.mark is not None:
            line = ax.axhline if self.lines and not self.panel.turned else ax.axvline
            line(self.panel.mark, color=COLOUR["ink"], linewidth=1, linestyle="--", zorder=1.5)
        fig.text(x / w, 1 - (y + 2) / h, self.title, fontweight="bold", va="top")
        fig.text(x / w, 1 - (y + self.top - 8) / h, self.value, va="baseline")
        return ax


def figure(chart, narrow, legend=False):
    width = NARROW if narrow else WIDE
    # Long names want the whole width.
    long = any(len(str(n)) > 22 for p in chart.panels if p.kind != "lines" for n in p.categories())
    columns = 1 if narrow or long or len(chart.panels) == 1 else 2
    each = (width - 24 * (columns - 1)) / columns
    places = [Place(p, each) for p in chart.panels]
    lines = [places[at:at + columns] for at in range(0, len(places), columns)]
    for line in lines:
        top = max(p.top for p in line)
        for p in line:
            p.top = top
    more = 50 if legend else 0
    height = sum(max(p.whole for p in line) + 8 for line in lines) + more
    fig = pyplot.figure(figsize=(width / 72, height / 72))
    y, axes = 0, []
    for line in lines:
        for at, place in enumerate(line):
            axes.append(place.draw(fig, at * (each + 24), y, each, (width, height),
                                   chart.panels if chart.same else []))
        y += max(p.whole for p in line) + 8
    if chart.same and places[0].lines:
        low, high = (f(a.get_ylim()[at] for a in axes) for at, f in enumerate((min, max)))
        for ax in axes:
            ax.set_ylim(low, high)
            if chart.panels[0].log:
                ax.yaxis.set_major_locator(decades(low, high))
    if legend:
        marks = [matplotlib.patches.Patch(color=COLOUR[s.role], label=s.name)
                 for s in chart.legend()]
        fig.legend(handles=marks, loc="lower left", ncol=3, frameon=False)
    text = io.StringIO()
    fig.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    pyplot.close(fig)
    return text.getvalue()


def glyph(chart, series):
    """Of the legend: a bar has no shape of its own."""
    drawn = {p.kind for p in chart.panels if series.name in [s.name for s in p.series]}
    return "■" if drawn <= {"bars", "stacked"} else GLYPHS[series.mark % len(GLYPHS)]


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
        node.tail = "\n" if node.tag.endswith("}path") else None
        if not node.tag.endswith(("}text", "}style", "}tspan")):
            node.text = None
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
