#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_plugins.py BUILD [--full] - the cases of each plugin, of a build; prints TAP."""
import sys

sys.dont_write_bytecode = True
import nbdkit_rig
import test_nbdkit
import test_nbdkit_dump

if __name__ == "__main__":
    sys.exit(nbdkit_rig.start(test_nbdkit.CASES + test_nbdkit_dump.CASES))
