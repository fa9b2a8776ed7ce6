# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A Store with a spill: what goes to its file, and what becomes of it there."""
import gc
import itertools
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import pyebb
from pyebb._core import File
from support import MIB, child_of_fork, mixed, noise, run_threads, within

SIZE = 100_000


@pytest.fixture
def store(tmp_path):
    with pyebb.Store(capacity=2 * MIB, spill=tmp_path) as s:
        yield s
        if not s.closed:
            s.check()
    assert os.listdir(tmp_path) == []


def damage(s, key, how):
    """Of a value's packed form in the file."""
    fd, at, n = s._file.fileno(), s._at[key].at, s._at[key].packed
    if how == "flip":
        byte = os.pread(fd, 1, at + n // 2)
        os.pwrite(fd, bytes([byte[0] ^ 1]), at + n // 2)
    else:
        os.ftruncate(fd, at + n - 1 if how == "cut" else at)


def nothing_is_lost(s):
    """Each value in memory and each place in the file is some key's, and the former may be
    moved."""
    numbers = {where for where in s._at.values() if not isinstance(where, File)}
    assert pyebb._core.Values.__len__(s) == len(numbers) <= len(s._order)
    assert numbers <= {number for number, _ in s._order}
    files = s._files().values()
    assert s._file.counts() == (len(files), sum(f.size for f in files),
                                sum(f.packed for f in files))
    ends = sorted((f.at, f.at + f.packed) for f in files)
    assert all(end <= at for (_, end), (at, _) in zip(ends, ends[1:]))


def test_past_the_capacity_the_oldest_values_go_to_files(store):
    assert isinstance(store, pyebb.SpillingStore)
    for i in range(60):
        store[i] = noise(SIZE, i)
    s = store.stats()
    assert s["values"] == len(store) == 60
    assert s["pool"] <= 2 * MIB + 300_000
    assert 35 < s["spilled"] == len(store._files()) < 55
    assert s["nbytes"] == store.nbytes == 60 * SIZE
    assert s["spilled_nbytes"] == s["spilled"] * SIZE
    assert s["spilled_packed"] == sum(f.packed for f in store._files().values())
    # The first are there, the last are not.
    assert set(store._files()) == set(range(s["spilled"]))
    assert sorted(store) == list(range(60))
    for i in range(60):
        assert i in store
        assert store.size_of(i) == SIZE
        assert store[i] == noise(SIZE, i)
        assert store.read(i, 70_000, 10) == noise(SIZE, i)[70_000:70_010]
        room = bytearray(SIZE)
        assert store.get_into(i, room) == SIZE and room == noise(SIZE, i)
        assert len(store.read_packed(i)) == store.packed_size_of(i)
        assert store.unpack(store.read_packed(i)) == noise(SIZE, i)
    assert "in the file" in store._repr_html_()
    assert store.ratio < 1.1


def test_what_is_in_a_file_is_compressed_as_it_was(store):
    for i in range(300):
        store[i] = mixed(SIZE, i) + noise(SIZE // 5, i)
    assert len(store._files()) > 100
    assert all(file.packed < SIZE / 3 for file in store._files().values())


def test_a_place_in_the_file_ends_with_its_value(store):
    for i in range(60):
        store[i] = noise(SIZE, i)
    n = store.stats()["spilled"]
    del store[0]
    assert store.pop(1) == noise(SIZE, 1)
    store[2] = b"new"
    assert store.setdefault(3, b"other") == noise(SIZE, 3)
    assert n - 3 <= store.stats()["spilled"] <= n + 1
    assert 0 not in store and store[2] == b"new" and len(store) == 58
    for key in (0, 1):
        for call in (store.__getitem__, store.__delitem__, store.size_of, store.read_packed,
                     store.packed_size_of):
            with pytest.raises(KeyError):
                call(key)
    assert store.get(0, 5) == 5
    nothing_is_lost(store)
    store.clear()
    assert store._file.counts() == (0, 0, 0) and len(store) == 0


def disk(s):
    """Bytes of the disk that the file has."""
    return os.fstat(s._file.fileno()).st_blocks * 512


def test_small_values_take_what_they_need(store):
    """Not a block of the disk each."""
    n = 60_000
    for i in range(n):
        store[i] = noise(100, i)
    s = store.stats()
    assert s["spilled"] > 25_000
    assert disk(store) < 1.2 * s["spilled_packed"] + 2 * MIB
    assert all(store[i] == noise(100, i) for i in range(0, n, 7))
    # What was deleted has room for others: of the same size at once, of any if all of a region is.
    least = disk(store)
    for turn in range(4):
        for i in range(0, n, 2):
            del store[i]
        for i in range(0, n, 2):
            store[i] = noise(100, i + turn)
    assert disk(store) < 1.2 * least
    nothing_is_lost(store)
    store.clear()
    assert disk(store) < MIB


@pytest.mark.parametrize("sizes", [(64, 200), (3000, 9000), (1, 300_000), (8_000, 8_400)])
def test_no_two_values_share_a_place(tmp_path, sizes):
    r = random.Random(1)
    with pyebb.Store(capacity=MIB, spill=tmp_path) as s:
        kept, peak = {}, 0
        for i in range(3000 if sizes[1] < 100_000 else 400):
            key = r.randrange(2000 if sizes[1] < 100_000 else 60)
            s[key] = kept[key] = noise(r.randrange(*sizes), i)
            if r.random() < 0.3:
                key = r.choice(list(kept))
                assert s.pop(key) == kept.pop(key)
            peak = max(peak, s.stats()["spilled_packed"])
        nothing_is_lost(s)
        assert disk(s) <= 1.3 * peak + 3 * MIB
        assert s == kept


def test_an_array_of_dates_may_be_spilled(store):
    np = pytest.importorskip("numpy")
    dates = np.frombuffer(noise(SIZE), "M8[s]")
    for i in range(40):
        store[i] = dates
        store[f"gaps {i}"] = dates[::2]
    assert store.stats()["spilled"] > 15
    assert all(store[i] == dates.tobytes() for i in range(40))
    assert all(store[f"gaps {i}"] == dates[::2].tobytes() for i in range(40))


def test_errors_are_those_of_a_store(store):
    for wrong in ("text", 5, None):
        with pytest.raises(TypeError):
            store["k"] = wrong
    for call in (store.__getitem__, store.__contains__, store._delete, store.size_of):
        with pytest.raises(TypeError):
            call([])
    with pytest.raises(pyebb.CorruptError):
        store.put_packed("k", b"x" * 100)
    assert len(store) == 0
    with pytest.raises(ValueError, match="spill needs a capacity"):
        pyebb.Store(spill="/tmp")
    with pytest.raises(FileNotFoundError):
        pyebb.Store(spill="/nowhere", capacity=MIB)

    class Mine(pyebb.Store):
        pass

    with pytest.raises(TypeError, match="derive Mine from pyebb.SpillingStore"):
        Mine(spill="/tmp", capacity=MIB)


@pytest.mark.parametrize("unit", [None, 16384])
def test_a_value_that_is_too_large_for_memory_has_a_file_at_once_and_no_other_moves(tmp_path, unit):
    with pyebb.Store(capacity=2 * MIB, spill=tmp_path, unit=unit) as store:
        for i in range(10):
            store[i] = noise(SIZE, i)
        store[0] = noise(5 * MIB)
        assert store.setdefault("new", noise(3 * MIB)) == noise(3 * MIB)
        other = pyebb.Store({1: noise(4 * MIB)}, unit=unit)
        store.put_packed("packed", other.read_packed(1))
        assert set(store._files()) == {0, "new", "packed"}
        assert store[0] == noise(5 * MIB) and store["packed"] == noise(4 * MIB)
        store["zeros"] = bytes(5 * MIB)             # which are not too large, when compressed
        assert set(store._files()) == {0, "new", "packed"}
        # A file's value may be replaced by one in memory, and that by one in a file.
        store[0] = store["new"] = b"small"
        store[1] = noise(2 * MIB)
        assert set(store._files()) == {1, "packed"} and store.stats()["spilled"] == 2
        for i in range(10, 19):
            store[i] = noise(SIZE, i)
        store["packed"] = noise(MIB * 9 // 10, 5)   # it has room when others have moved
        assert len(store._files()) > 5 and "packed" not in store._files()
        assert all(store[i] == noise(SIZE, i) for i in range(2, 19))
        nothing_is_lost(store)


def test_a_full_disk_is_a_memory_error_and_nothing_is_lost(store):
    was = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10 * SIZE, was[1]))
    try:
        with pytest.raises(MemoryError, match="takes no more.*File too large"):
            for i in range(60):
                store[i] = noise(SIZE, i)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, was)
    n = len(store)
    assert 20 < n < 40
    nothing_is_lost(store)
    assert all(store[i] == noise(SIZE, i) for i in range(n))
    store["k"] = noise(SIZE)
    assert store["k"] == noise(SIZE)


@pytest.mark.parametrize("how", ["flip", "cut", "gone"])
def test_a_damaged_file_is_an_os_error_of_that_value_alone(tmp_path, how):
    with pyebb.Store(capacity=2 * MIB, spill=tmp_path) as s:
        for i in range(40):
            s[i] = noise(SIZE, i)
        last = max(s._files(), key=lambda key: s._at[key].at)
        damage(s, last, how)
        for call in (s.__getitem__, s.read_packed if how != "flip" else s.__getitem__):
            with pytest.raises(OSError, match=f"under {last} was spilled, and the file is damaged"):
                call(last)
        with pytest.raises(RuntimeError, match=f"under {last}"):
            s.check()
        assert all(s[i] == noise(SIZE, i) for i in range(40) if i != last)
        s[last] = b"new"
        assert s[last] == b"new"
        s.check()


def test_the_file_has_no_name_and_ends_with_the_store(tmp_path):
    s = pyebb.Store({i: noise(SIZE, i) for i in range(40)}, capacity=2 * MIB, spill=tmp_path)
    assert os.listdir(tmp_path) == []
    fd = s._file.fileno()
    st = os.fstat(fd)
    assert st.st_nlink == 0 and not st.st_mode & 0o77 and not os.get_inheritable(fd)
    # A forked child neither uses nor ends it.
    assert isinstance(child_of_fork(lambda: s[0]), RuntimeError)
    assert isinstance(child_of_fork(lambda: list(s)), RuntimeError)
    child_of_fork(s.close)
    assert s[0] == noise(SIZE, 0)
    other = os.dup(fd)      # as a child has it
    del s
    gc.collect()
    with pytest.raises(OSError):
        os.fstat(fd)
    assert os.fstat(other).st_size == 0
    os.close(other)


def test_what_a_killed_process_had_is_gone(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", "import pyebb, os, sys, time\n"
         "s = pyebb.Store(capacity='1 MiB', spill=sys.argv[1])\n"
         "for i in range(60): s[i] = os.urandom(100_000)\n"
         "print(os.fstat(s._file.fileno()).st_blocks, flush=True)\ntime.sleep(60)", tmp_path],
        stdout=subprocess.PIPE)
    assert int(child.stdout.readline()) > 8000
    child.kill()
    child.communicate()
    assert os.listdir(tmp_path) == []


def test_figures_take_no_longer_with_more_values(tmp_path):
    """The interpreter makes no more steps for them."""
    def steps(n):
        count = 0

        def step(frame, event, argument):
            nonlocal count
            frame.f_trace_opcodes = True
            count += event == "opcode"
            return step

        with pyebb.Store({i: b"x" for i in range(n)}, capacity=MIB, spill=tmp_path) as s:
            sys.settrace(step)
            try:
                s.stats(), repr(s), s.capacity, s.nbytes, s.resident, s.ratio, s._repr_html_()
            finally:
                sys.settrace(None)
        return count

    steps(1)
    assert steps(20_000) < 1.2 * steps(10)


class Odd(str):
    """Text whose == is another than a dict and libebb take it for."""

    def __eq__(self, other):
        return False

    def __hash__(self):
        return 5


class Index:
    def __index__(self):
        return 7


@pytest.mark.parametrize("key, same", [(Index(), 7), (True, 1), (Odd("k"), "k")])
def test_a_key_is_the_one_that_libebb_takes_it_for(store, key, same):
    for put, other in ((key, same), (same, key)):
        store[put] = noise(SIZE)
        assert store[other] == store.get(other) == noise(SIZE) and other in store
        assert len(store) == 1 and [type(k) for k in store] == [type(same)]
        store.put_packed(other, store.read_packed(put))
        for i in range(100, 140):
            store[i] = noise(SIZE, i)
        assert set(store) == {same, *range(100, 140)} and same in store._files()
        assert store[other] == noise(SIZE) and store.size_of(other) == SIZE
        del store[other]
        assert put not in store
        nothing_is_lost(store)
        store.clear()


def test_what_cannot_be_a_key_is_not_there_although_it_equals_one(store):
    for i in range(40):
        store[i] = noise(SIZE, i)
    for key, wrong in [(0, 0.0), (39, 39.0), (1, 1 + 0j)]:
        with pytest.raises(TypeError, match=f"a key is .* int, not {type(wrong).__name__}"):
            store[wrong] = b"x"
        assert wrong not in store and store.get(wrong) is None and not store._delete(wrong)
        assert store.pop(wrong, None) is None
        with pytest.raises(KeyError):
            store.size_of(wrong)
        with pytest.raises(KeyError):
            del store[wrong]
        assert key in store
    for i in range(40, 80):
        store[i] = noise(SIZE, i)
    assert all(store[i] == noise(SIZE, i) for i in range(80))


class Dies:
    """Garbage that uses a store when it is collected."""

    def __init__(self, use):
        self.use = use
        self.me = self

    def __del__(self):
        self.use()


KINDS = pytest.mark.parametrize("kind", [pyebb.Store, pyebb.ArrayStore])


@KINDS
def test_a_finalizer_may_use_the_store_that_it_interrupts(tmp_path, kind):
    store = kind(capacity=MIB, spill=tmp_path)
    was = gc.get_threshold()
    r = random.Random(1)
    values = [noise(80_000, i) for i in range(5)]
    ran = []

    def use():
        for key in range(5):
            store.pop(key, None)
        store[2] = bytes(100)
        ran.append(1)

    def work():
        for i in range(2000):
            gc.set_threshold(r.randrange(2, 60))
            Dies(use)
            store[i % 5] = values[i % 5]
            store.pop(3, None)

    try:
        within(60, work)
    finally:
        gc.set_threshold(*was)
    gc.collect()
    assert len(ran) > 300
    store.close()


@KINDS
def test_a_finalizer_may_run_at_any_step(tmp_path, kind):
    """A trace does what one may do, before each step of each function of the two modules."""
    store = kind(capacity=2 * MIB, spill=tmp_path)
    r = random.Random(1)
    steps = []
    values = [noise(SIZE * 3, i) for i in range(8)]

    def use(frame, event, argument):
        frame.f_trace_opcodes = True
        if event == "opcode" and r.random() < 0.02:
            key = r.randrange(8)
            steps.append(frame.f_code.co_name)
            if r.random() < 0.5:
                store.pop(key, None)
            else:
                store[key] = values[key]
        return use

    def trace(frame, event, argument):
        if frame.f_code.co_filename.endswith(("_spill.py", "_arrays.py")):
            return use(frame, event, argument)

    def work():
        sys.settrace(trace)
        try:
            for i in range(300):
                store[i % 8] = values[i % 8]
                value = store.get(i % 5)
                assert value is None or value == values[i % 5]
                store.pop(i % 7, None)
                store.setdefault(i % 3, values[i % 3])
        finally:
            sys.settrace(None)

    within(60, work)
    assert {"_make_room", "_place", "_look", "_form"} <= set(steps)
    if kind is pyebb.ArrayStore:
        assert {number for kept in store._at.values() for number in kept.numbers()} \
            == set(store.store)
        store = store.store
    nothing_is_lost(store)
    store.close()


class Interrupt(BaseException):
    """A Ctrl-C that pytest does not take for its own."""


@pytest.mark.parametrize("kind, spill", [
    (pyebb.Store, True), (pyebb.ArrayStore, True), (pyebb.ArrayStore, False)])
def test_nothing_is_lost_by_an_interrupt_at_any_step(tmp_path, kind, spill):
    arguments = {"capacity": MIB, "spill": tmp_path} if spill else {}
    store = kind(**arguments)
    low = store if kind is pyebb.Store else store.store
    values = [noise(20_000, i) for i in range(8)]
    form = pyebb.Store({0: values[0]}).read_packed(0)
    r = random.Random(1)
    interrupts, steps = 0, itertools.count()

    def stop(*_):
        raise Interrupt

    def work():
        for i in itertools.islice(steps, 1000):
            store[i % 100] = values[i % 8]
            if i % 5 == 0:
                store.pop(i % 70, None)
                store.setdefault(i % 90, values[i % 3])
            if i % 31 == 0 and low is store:
                store.put_packed(i % 50, form)
        time.sleep(0.01)        # the interrupt was lost, or is still to come

    was = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, r.uniform(2e-5, 2e-3))
                work()
            except Interrupt:
                interrupts += 1
    finally:
        signal.signal(signal.SIGALRM, was)
    assert interrupts > 200     # one is lost if _core raises an exception right then
    if kind is pyebb.ArrayStore:
        assert {number for kept in store._at.values() for number in kept.numbers()} == set(low)
    if spill:
        nothing_is_lost(low)
        assert low.stats()["spilled"] > 20
    store.close()


def test_figures_may_be_asked_for_while_a_finalizer_changes_the_store(tmp_path):
    with pyebb.Store({i: b"x" for i in range(9000)}, capacity=MIB, spill=tmp_path) as store:
        for i in range(9000, 9010):
            store[i] = noise(SIZE, i)
        assert store.stats()["spilled"] > 0
        keys = iter(range(9000))
        ran = []

        def use():
            store.pop(next(keys))
            ran.append(1)

        for call in (store.stats, lambda: store.nbytes, lambda: store.ratio, store.check,
                     store._files, lambda: repr(store)):
            before = len(ran)
            for _ in range(10):
                for _ in range(3):
                    Dies(use)
                said = call()
                assert "another process" not in str(said)
            gc.collect()
            assert len(ran) >= before + 10


def test_a_folder_is_where_it_was_when_the_process_goes_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "a" / "spill").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a")
    store = pyebb.Store(capacity=MIB, spill="spill")
    for i in range(40):
        store[i] = noise(SIZE, i)
    monkeypatch.chdir(tmp_path)
    for i in range(40, 60):
        store[i] = noise(SIZE, i)
    assert all(store[i] == noise(SIZE, i) for i in range(60))
    store.close()
    assert os.listdir(tmp_path / "a" / "spill") == []


@KINDS
def test_a_closed_store_keeps_no_keys(tmp_path, kind):
    store = kind(capacity=MIB, spill=tmp_path)
    store.update({i: noise(SIZE, i) for i in range(30)})
    low = store if kind is pyebb.Store else store.store
    store.popitem()
    store.close()
    assert not store._at and not low._at and not low._order
    assert not hasattr(store, "_ahead")
    for call in (lambda: store[0], lambda: len(store), store.popitem,
                 lambda: store.__setitem__(1, b"")):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_a_packed_form_with_gaps_may_go_to_a_file(store):
    np = pytest.importorskip("numpy")
    form = np.frombuffer(pyebb.Store({1: noise(3 * MIB)}).read_packed(1), "u1")
    gaps = np.zeros(2 * len(form), "u1")
    gaps[::2] = form
    store.put_packed("k", gaps[::2])
    assert store["k"] == noise(3 * MIB) and set(store._files()) == {"k"}
    nothing_is_lost(store)


def test_popitem_goes_past_a_value_that_cannot_be_read(tmp_path):
    with pyebb.Store({i: noise(SIZE, i) for i in range(40)}, capacity=MIB, spill=tmp_path) as s:
        for key in (0, 9):
            damage(s, key, "flip")
        popped, errors = {}, 0
        for _ in range(42):
            if len(s) == 2:
                break
            try:
                popped.update([s.popitem()])
            except OSError:
                errors += 1
        assert popped == {i: noise(SIZE, i) for i in range(40) if i not in (0, 9)}
        assert errors <= 4 and set(s) == {0, 9}
        with pytest.raises(OSError):
            s.popitem()


def test_of_threads_that_exchange_each_has_what_another_put():
    was = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    table, olds = {}, []

    def work(seed):
        mine = [pyebb._core.exchange(table, "k", (seed, i)) for i in range(5000)]
        for i in range(3000):
            if pyebb._core.exchange(table, "free", seed, None) is None:
                assert pyebb._core.exchange(table, "free", None) is seed
        olds.extend(mine)

    try:
        run_threads(*(lambda s=s: work(s) for s in range(4)))
    finally:
        sys.setswitchinterval(was)
    last = pyebb._core.exchange(table, "k", None)
    assert sorted(old for old in [*olds, last] if old) \
        == [(seed, i) for seed in range(4) for i in range(5000)]
    assert table == {}


@pytest.mark.parametrize("make", [
    lambda folder: pyebb.Store(), lambda folder: pyebb.Store(capacity=MIB, spill=folder),
    lambda folder: pyebb.ArrayStore()], ids=["Store", "spill", "ArrayStore"])
def test_threads_that_pop_items_get_each_once(tmp_path, make):
    was = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    store = make(tmp_path)
    values = {i: noise(5000, i) for i in range(600)}
    store.update(values)
    popped = []

    def pop():
        try:
            while True:
                popped.append(store.popitem())
        except KeyError:
            assert not len(store)

    try:
        run_threads(*[pop] * 4)
    finally:
        sys.setswitchinterval(was)
    assert len(popped) == 600 and dict(popped) == values
    with pytest.raises(KeyError, match="is empty"):
        store.popitem()
    store.close()


def test_two_pops_get_two_values_although_one_is_put_between(tmp_path):
    for fill in 0, 30:      # the value is in memory, and in a file
        with pyebb.Store(capacity=MIB, spill=tmp_path) as s:
            s["q"] = noise(SIZE, 1)
            for i in range(fill):
                s[i] = noise(SIZE, i)
            assert ("q" in s._files()) == (fill > 0)
            got = []

            def others(s=s, got=got):
                got.append(s.pop("q"))
                s["q"] = noise(SIZE, 2)

            find = s._find

            def find_late(*args, s=s, find=find, others=others):
                found = find(*args)
                s._find = find
                others()
                return found

            s._find = find_late
            got.append(s.pop("q"))
            assert got == [noise(SIZE, 1), noise(SIZE, 2)] and "q" not in s
            nothing_is_lost(s)
            assert s.pop("q", 5) == 5
            with pytest.raises(KeyError, match="q"):
                s.pop("q")


def test_what_was_replaced_leaves_the_order_as_it_is(tmp_path):
    with pyebb.Store(capacity=4 * MIB, spill=tmp_path) as s:
        for i in range(10):
            s[i] = noise(SIZE, i)
        for _ in range(1100):
            s["hot"] = b"x"
        assert [key for number, key in s._order if s._at[key] is number] == [*range(10), "hot"]
        assert len(s._order) < 1000


def test_what_was_deleted_is_not_kept_in_the_order(tmp_path):
    with pyebb.Store({f"{i:0100}": b"" for i in range(5000)}, capacity=4 * MIB,
                     spill=tmp_path) as s:
        for i in range(4000):
            del s[f"{i:0100}"]
        assert 1000 <= len(s._order) <= 3000
        s.clear()
        assert len(s._order) <= 1000


def test_check_goes_past_a_value_that_is_deleted_meanwhile(store):
    for i in range(40):
        store[i] = noise(SIZE, i)
    some = store._files()
    assert 0 in some
    store._files = lambda: some
    del store[0]
    store.check()


def test_when_it_is_closed_meanwhile_a_put_is_a_value_error(store):
    store["k"] = noise(SIZE)
    form = store.read_packed("k")
    real = store._pack
    store._pack = lambda *args: (store.close(), real(*args))[1]
    with pytest.raises(ValueError, match="closed"):
        store["large"] = noise(3 * MIB)
    with pytest.raises(ValueError, match="closed"):
        pyebb._core.place_in_file(store, "k", form)


class AsADict(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        import tempfile
        self.folder = tempfile.TemporaryDirectory()
        self.store = pyebb.Store(capacity=MIB, spill=self.folder.name)
        self.dict = {}

    @rule(key=st.integers(0, 20), n=st.integers(0, 200_000), seed=st.integers(0, 9))
    def put(self, key, n, seed):
        self.store[key] = self.dict[key] = noise(n, seed)

    @rule(key=st.integers(0, 20))
    def look(self, key):
        assert self.store.get(key) == self.dict.get(key)
        assert (key in self.store) == (key in self.dict)

    @rule(key=st.integers(0, 20))
    def setdefault(self, key):
        assert self.store.setdefault(key, b"d") == self.dict.setdefault(key, b"d")

    @rule(key=st.integers(0, 20))
    def pop(self, key):
        assert self.store.pop(key, None) == self.dict.pop(key, None)

    @rule()
    def popitem(self):
        if self.dict:
            key, value = self.store.popitem()
            assert value == self.dict.pop(key)

    @rule(key=st.integers(0, 20), other=st.integers(0, 20))
    def copy_packed(self, key, other):
        if key in self.dict:
            self.store.put_packed(other, self.store.read_packed(key))
            self.dict[other] = self.dict[key]

    @invariant()
    def same(self):
        assert len(self.store) == len(self.dict)
        assert self.store.nbytes == sum(map(len, self.dict.values()))
        nothing_is_lost(self.store)

    def teardown(self):
        assert self.store == self.dict
        self.store.check()
        self.store.close()
        self.folder.cleanup()


TestAsADict = AsADict.TestCase
TestAsADict.settings = settings(max_examples=max(5, settings().max_examples // 2))


def test_threads_see_whole_values_in_memory_and_in_files(store):
    was = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    rest = [noise(80_000, i) for i in range(4)]

    def work(seed):
        r = random.Random(seed)
        for _ in range(150):
            key = r.randrange(40)
            what = r.random()
            if what < 0.5:
                store[key] = bytes([key, seed]) + rest[seed]
            elif what < 0.6:
                store.pop(key, None)
            else:
                value = store.get(key)
                if value is not None:
                    assert value[0] == key and value[2:] == rest[value[1]]
            if what > 0.98:
                assert set(store) <= set(range(40))

    try:
        run_threads(*(lambda s=s: work(s) for s in range(4)))
    finally:
        sys.setswitchinterval(was)
    assert len(set(store)) == len(store) == len(store.copy())
    assert store.stats()["spilled"] > 0
    nothing_is_lost(store)
