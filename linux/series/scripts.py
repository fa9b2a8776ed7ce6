# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""scripts - the programs of this folder as modules of each other; their names have no .py."""
import importlib.machinery
import importlib.util
import pathlib


def load(name):
    """The program of that name, which does nothing when it is imported."""
    loader = importlib.machinery.SourceFileLoader(name, str(pathlib.Path(__file__).with_name(name)))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module
