# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the tests share: bytes of several kinds, threads, forked children."""
import os
import pickle
import random
import threading

KIB, MIB = 1 << 10, 1 << 20


def noise(n, seed=0):
    return random.Random(seed).randbytes(n)


def mixed(n, seed=0):
    """Half of it compresses."""
    piece = noise(64, seed) + bytes(64)
    return (piece * (n // len(piece) + 1))[:n]


def run_threads(*calls):
    """Runs them beside each other, and raises what they raise."""
    errors = []

    def run(call):
        try:
            call()
        except BaseException as e:      # noqa: B902 - it is raised below
            errors.append(e)

    threads = [threading.Thread(target=run, args=(c,)) for c in calls]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not any(t.is_alive() for t in threads)
    if errors:
        raise errors[0]


def within(seconds, call):
    """Runs it in a thread, and fails if it has not ended after so many seconds."""
    errors = []

    def run():
        try:
            call()
        except BaseException as e:      # noqa: B902 - it is raised below
            errors.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    if errors:
        raise errors[0]


def child_of_fork(call, fork=os.fork):
    """Runs it in a forked child, and returns what it returns, or the exception."""
    r, w = os.pipe()
    pid = fork()
    if not pid:
        try:
            try:
                said = call()
            except Exception as e:
                said = e
            os.write(w, pickle.dumps(said))
        finally:
            os._exit(0)
    os.close(w)
    with open(r, "rb") as f:
        text = f.read()
    assert os.waitpid(pid, 0)[1] == 0
    return pickle.loads(text)
