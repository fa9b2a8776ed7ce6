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


def test_each_pip_is_that_of_a_virtual_environment_and_may_be_as_old_as_debians():
    """Debian's own pip installs nothing outside of one, and pip 23.0 has no -C."""
    commands = re.findall(r"^    (.*\bpip .*)", README.read_text(encoding="utf-8"), re.M)
    assert len(commands) >= 6
    for command in commands:
        assert re.search(r"(^| )venv/bin/pip (install|wheel) ", command), command
        assert " -C" not in command, command


def test_what_there_is_is_there():
    """Each name of the table."""
    import pyebb
    names = re.findall(r"`@?pyebb\.(\w+)", README.read_text(encoding="utf-8").split("\n## Dask")[0])
    assert names
    for name in names:
        assert name in ("zarr", "dask") or hasattr(pyebb, name), name
