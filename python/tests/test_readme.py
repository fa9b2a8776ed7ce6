# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What README.md shows runs."""
import pathlib
import re

import pytest

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.split("\n")[3][:20])
def test_an_example_runs(example, capsys):
    pytest.importorskip("numpy")
    exec(compile(example, str(README), "exec"), {"__name__": "example"})
    assert capsys.readouterr().out


def test_there_are_examples():
    assert len(EXAMPLES) >= 2


def test_what_there_is_is_there():
    """Each name of the table."""
    import pyebb
    names = re.findall(r"`@?pyebb\.(\w+)", README.read_text(encoding="utf-8").split("\n## Dask")[0])
    assert names
    for name in names:
        assert name in ("zarr", "dask") or hasattr(pyebb, name), name
