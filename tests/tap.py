# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Cases in Python that print TAP: functions that raise AssertionError."""


def run(cases):
    """Runs them one after the other; the exit status of the program."""
    failed = 0
    print(f"1..{len(cases)}")
    for number, case in enumerate(cases, 1):
        try:
            case()
            print(f"ok {number} - {case.__name__}")
        except AssertionError as e:
            failed += 1
            print("# " + str(e).replace("\n", "\n# ") + f"\nnot ok {number} - {case.__name__}")
    return 1 if failed else 0
