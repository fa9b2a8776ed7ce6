# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The page /ebb of the dashboards: where the values of each worker are.

A worker's dashboard has it for that worker, the scheduler's for all, from their heartbeats.  It is
HTML by itself, so it needs no bokeh, and it asks for itself again every second.
"""
import html
from collections.abc import Callable, Mapping
from typing import Any

from tornado.web import RequestHandler

from ._show import size_text, strips_html

COLOURS = {"memory_bytes": "#8fbc8f", "resident": "#2a6fb0", "disk_bytes": "#d08b5b"}
HEAD = """<!doctype html><html><head><meta charset="utf-8"><meta http-equiv="refresh" content="1">
<title>Ebb</title><style>body{font-family:sans-serif;margin:1em}td,th{text-align:right;
padding:.1em .7em}td:first-child,th:first-child{text-align:left}</style></head><body>
"""
Figures = Mapping[str, float]


def page(workers: Mapping[str, Figures]) -> str:
    """HTML of the figures (EbbBuffer.figures()) of workers, by their addresses."""
    if not workers:
        return HEAD + "<p>No worker has values in Ebb: none has the preload pyebb.dask.</p>"
    whole = max(int(sum(f[name] for name in COLOURS)) for f in workers.values())
    lines = []
    for address, f in sorted(workers.items()):
        bar = [(name.split("_")[0], int(f[name]), colour) for name, colour in COLOURS.items()]
        cells = [html.escape(address), strips_html(bar, whole),
                 f"{f['memory_keys']:.0f}", size_text(f["memory_bytes"]),
                 f"{f['keys']:.0f}", size_text(f["bytes"]), size_text(f["resident"]),
                 size_text(f["limit"]), f"{f['ratio']:.2f}",
                 f"{f['disk_keys']:.0f}", size_text(f["disk_memory"]), size_text(f["disk_bytes"])]
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return HEAD + """<table><tr><th></th><th></th><th colspan="2">memory</th>
<th colspan="5">Ebb</th><th colspan="3">disk</th></tr>
<tr><th>worker</th><th></th><th>values</th><th>bytes</th><th>values</th><th>bytes</th>
<th>resident</th><th>limit</th><th>ratio</th><th>values</th><th>bytes</th><th>in files</th></tr>
""" + "\n".join(lines) + "</table></body></html>"


class _Page(RequestHandler):
    def initialize(self, workers: Callable[[], Mapping[str, Figures]]) -> None:
        self.workers = workers

    def get(self) -> None:
        self.write(page(self.workers()))


def add_page(server: Any, workers: Callable[[], Mapping[str, Figures]]) -> None:
    """Gives the dashboard of a worker or scheduler the page.  workers: what it shows, when asked;
    it is called in the event loop."""
    app = getattr(server, "http_application", None)
    if app is not None:         # distributed always has it; a program's own Worker may not
        prefix = (getattr(server, "_http_prefix", "") or "").strip("/")
        app.add_handlers(".*$", [(f"{'/' + prefix if prefix else ''}/ebb", _Page,
                                  {"workers": workers})])
