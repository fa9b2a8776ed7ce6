#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""test_doors.py - how scripts/check runs its stages, made-up ones, and its tables, and that what only
the longer doors run can be built; prints TAP."""
import importlib.machinery
import importlib.util
import os
import pathlib
import sys

sys.dont_write_bytecode = True
import tap
ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
sys.path.append(os.path.join(ROOT, "tests", "vm"))
import harness
loader = importlib.machinery.SourceFileLoader("check", os.path.join(ROOT, "scripts", "check"))
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("check", loader))
loader.exec_module(check)
Dose, Stage = check.Dose, check.Stage

case = tap.Cases()


def history(stages, at_once):
    """What schedule() does with the stages: (name, who runs then) at each start.  When it waits,
    having started all it may, the one that started last ends."""
    running, log, over = [], [], []

    class Queue:
        def put(self, job):
            over.append(job)

        def get(self):
            running.pop()[1]()
            return over.pop()

    def start(job, done):
        running.append((job[0].name, done))
        log.append((job[0].name, frozenset(name for name, _ in running)))

    real, check.queue.Queue = check.queue.Queue, Queue
    try:
        check.schedule(check.plan(stages, "full"), start, at_once)
    finally:
        check.queue.Queue = real
    return log


def stage(name, alone=False, after=()):
    return Stage(name, "script", [], full=Dose(alone=alone), after=after)


@case
def as_many_stages_run_at_once_as_there_are_cpus():
    log = history([stage(n) for n in "abcdef"], 3)
    assert len(log) == 6
    assert max(len(beside) for _, beside in log) == 3, log


@case
def a_stage_that_is_alone_has_nothing_beside_it():
    log = history([stage("a", alone=True), stage("b"), stage("c"), stage("d", alone=True),
                   stage("e")], 4)
    assert [n for n, _ in log][-2:] == ["a", "d"], log
    assert all(len(beside) == 1 for n, beside in log if n in "ad"), log


@case
def a_stage_waits_for_those_whose_builds_it_uses():
    stages = [stage("user", after=("one", "two")), stage("one"), stage("two")]
    names = [n for n, _ in history(stages, 3)]
    assert names == ["one", "two", "user"], names
    # Not for one that was not asked for.
    assert [n for n, _ in history([stage("user", after=("one",))], 3)] == ["user"]


@case
def stages_that_wait_for_each_other_are_an_error():
    try:
        history([stage("a", after=("b",)), stage("b", after=("a",))], 2)
    except ValueError:
        return
    assert False, "it went on"


@case
def the_rest_is_what_a_small_check_did_not_do_in_full():
    small, rest, full = (dict((s.name, d) for s, d in check.plan(check.STAGES, door))
                         for door in ("small", "rest", "full"))
    assert set(full) == {s.name for s in check.STAGES}
    for name, dose in full.items():
        assert (small.get(name) == dose) != (rest.get(name) == dose), name
    assert set(rest) <= set(full)


@case
def no_stage_waits_for_one_that_is_not_in_its_table():
    for stages in (check.STAGES, check.KERNEL_STAGES, check.LONG_STAGES):
        names = [s.name for s in stages]
        assert len(set(names)) == len(names), names
        for s in stages:
            assert set(s.after) <= set(names), s.name
            assert s.how in check.HOW, s.name


def silent(fn):
    """What fn returns; what it prints is thrown away."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")
    try:
        return fn()
    finally:
        sys.stdout.close()
        sys.stdout = sys.__stdout__


@case
def a_stage_that_breaks_is_a_failed_case():
    run, ended = check.Check(), []
    broken = Stage("broken", "no such way", [])
    silent(lambda: run.work((broken, broken.full), lambda: ended.append(1)))
    status = silent(run.end)
    assert ended and status == 1, (ended, status)
    assert run.total == {"passed": 0, "failed": 1, "skipped": 0}, run.total


@case
def what_has_not_begun_when_the_minutes_are_over_is_skipped_and_told():
    run, ended = check.Check(minutes=0), []
    late = Stage("late", "no such way", [])
    silent(lambda: run.start((late, late.full), lambda: ended.append(1)))
    assert ended and silent(run.end) == 0, ended
    assert run.total == {"passed": 0, "failed": 0, "skipped": 1}, run.total
    assert run.loud[0][:2] == ("skipped", "late") and "minutes" in run.loud[0][3], run.loud


@case
def cases_are_counted_as_they_are_printed():
    def verdicts(text, rc=0, ended=""):
        return [c.verdict for c in check.tap_cases(text, rc, ended)]

    assert verdicts("1..2\nok 1 - a\nnot ok 2 - b\n", 1) == ["passed", "failed"]
    assert verdicts("1..2\nok 1 - a\nok 2 - b # SKIP why\n") == ["passed", "skipped"]
    assert verdicts("1..2\nok 1 - a\n") == ["passed", "failed"]         # stopped short
    assert verdicts("ok 1 - a\n") == ["passed", "failed"]               # no plan
    assert verdicts("1..1\nok 1 - a\n", 1) == ["passed", "failed"]      # exit status
    assert verdicts("1..1\nok 1 - a\n", -11) == ["passed", "failed"]    # crash
    assert verdicts("1..1\nok 1 - a\n", 0, "hung") == ["passed", "failed"]
    assert verdicts("1..0 # skip none\n") == ["skipped"]


@case
def figures_of_several_stages_are_summed():
    counted = {}
    check.count_figures("# schedules: 5 in 31 scenarios\n"
                        "# mutants: 3 of 4 caught, 1 by a hang\n", counted)
    check.count_figures("# schedules: 7 in 31 scenarios\n", counted)
    assert counted == {"schedules": [12, 31], "mutants": [3, 4, 1]}, counted


@case
def the_programs_that_benches_run_in_a_guest_compile():
    programs = sorted(pathlib.Path(ROOT, "bench", "kernel", "guest").glob("*.c"))
    assert programs
    for p in programs:
        harness.program(p)


@case
def what_a_small_dose_leaves_out_is_in_the_full_one():
    text = pathlib.Path(ROOT, "meson.build").read_text(encoding="utf-8")
    small = [s for s in check.STAGES if s.small and s.small.without]
    assert small
    for s in small:
        assert s.full and not s.full.without, s.name
        for suite in s.small.without:
            assert f"'{suite}'" in text, f"meson.build has no suite {suite} ({s.name})"


if __name__ == "__main__":
    sys.exit(tap.run(case))
