# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A plugin of pytest that skips what $EBB_UPSTREAM_SKIP lists, a file of lines "NAME: REASON"."""
import os

import pytest


def pytest_collection_modifyitems(items):
    with open(os.environ["EBB_UPSTREAM_SKIP"]) as f:
        reasons = dict(line.strip().split(": ", 1) for line in f
                       if line.strip() and not line.startswith("#"))
    unknown = reasons.keys() - {item.originalname for item in items}
    if unknown:
        raise pytest.UsageError(f"no such tests: {', '.join(sorted(unknown))}")
    for item in items:
        if item.originalname in reasons:
            item.add_marker(pytest.mark.skip(reason=reasons[item.originalname]))
