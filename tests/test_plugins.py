#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_plugins.py BUILD [--full] - the cases of each plugin, of a build; prints TAP.

--full: more of them, and the small dose of the build `asan` that is beside this one.
"""
import os
import sys

sys.dont_write_bytecode = True
import nbdkit_rig
import tap
import test_nbdkit
import test_nbdkit_dump
import test_rocksdb


def no_sanitizer_has_a_complaint():
    other = os.path.join(os.path.dirname(nbdkit_rig.BUILD), "asan")
    if not os.path.exists(os.path.join(other, os.path.basename(nbdkit_rig.PLUGIN))):
        raise tap.Skip("there is no build of stage asan")
    out = nbdkit_rig.run([sys.executable, __file__, other], rc=None, timeout=600)
    bad = [line for line in out.splitlines() if line.startswith(("not ok", "#"))]
    assert not bad and "\nok " in out, "\n".join(bad)


if __name__ == "__main__":
    OF_NBDKIT = test_nbdkit.case + test_nbdkit_dump.case
    if nbdkit_rig.FULL:
        OF_NBDKIT.append(no_sanitizer_has_a_complaint)
    sys.exit(nbdkit_rig.start(OF_NBDKIT, test_rocksdb.CASES))
