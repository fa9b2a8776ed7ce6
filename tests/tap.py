# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Cases in Python that print TAP: functions that raise AssertionError, or Skip with the reason."""
import subprocess


class Skip(Exception):
    pass


def run(cases):
    """Runs functions, or (name, function), one after the other; the exit status of the program."""
    failed = 0
    print(f"1..{len(cases)}", flush=True)
    for number, case in enumerate(cases, 1):
        name, fn = case if isinstance(case, tuple) else (case.__name__, case)
        try:
            fn()
            verdict = f"ok {number} - {name}"
        except Skip as why:
            verdict = f"ok {number} - {name} # SKIP {why}"
        except (AssertionError, OSError, subprocess.TimeoutExpired) as why:
            failed += 1
            print("# " + str(why).replace("\n", "\n# "))
            verdict = f"not ok {number} - {name}"
        print(verdict, flush=True)
    return 1 if failed else 0
