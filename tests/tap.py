# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Cases in Python that print TAP: functions that raise what is wrong, or Skip with the reason."""
import inspect
import shutil
import subprocess
import tempfile

WRONG = AssertionError, OSError, ValueError, KeyError, StopIteration, subprocess.TimeoutExpired


class Skip(Exception):
    pass


class Cases(list):
    """The cases of a program: what this decorates is one."""

    def __call__(self, fn):
        self.append(fn)
        return fn


def call(fn):
    """A parameter tmp is a folder that the case has to itself."""
    if "tmp" not in inspect.signature(fn).parameters:
        return fn()
    tmp = tempfile.mkdtemp(prefix="ebb-test-")
    try:
        return fn(tmp)
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", tmp], check=False)
        shutil.rmtree(tmp, ignore_errors=True)


def run(cases, only=()):
    """
    Runs functions, or (name, function), one after the other, or those with these names; the exit
    status of the program.
    """
    named = [case if isinstance(case, tuple) else (case.__name__, case) for case in cases]
    named = [case for case in named if not only or case[0] in only]
    failed = 0
    print(f"1..{len(named)}", flush=True)
    for number, (name, fn) in enumerate(named, 1):
        try:
            call(fn)
            verdict = f"ok {number} - {name}"
        except Skip as why:
            verdict = f"ok {number} - {name} # SKIP {why}"
        except WRONG as why:
            failed += 1
            at = why.__traceback__
            while at.tb_next:
                at = at.tb_next
            text = f"line {at.tb_lineno}: {type(why).__name__}: {why}"
            print("# " + text.replace("\n", "\n# "))
            verdict = f"not ok {number} - {name}"
        print(verdict, flush=True)
    return 1 if failed else 0
