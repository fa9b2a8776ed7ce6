# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What dask_spill.py has a cluster do: each workload keeps its data on the workers and reads it
twice, and says whether the results are right.

A workload is called with the client and the bytes of its data.  All data is made by the workers
from seeds, so it is the same in each run, and cheaply, so that little of a run's time is spent on
it: the noise of a process is one block, of which each chunk has another part.
"""
import functools
import hashlib

import numpy as np
from distributed import futures_of

NOISE, SHOP = 1 << 21, 1 << 18
PART = 8 << 20          # bytes of a partition or a chunk, about
ROW = 57                # bytes of a frame's row, as sizeof() counts them


@functools.cache
def noise():
    return np.random.default_rng(1).normal(0, 1, 2 * NOISE).astype("f4")


def field_block(day, days, rows, columns):
    """Temperatures of some days on a grid: smooth in both directions, with noise of 0.1 K."""
    n = rows * columns
    lat = np.cos(np.linspace(-1.5, 1.5, rows, dtype="f4"))[:, None]
    lon = np.sin(np.linspace(0, 6.28, columns, dtype="f4"))[None, :]
    grid = 250 + 40 * lat + 4 * lon * lat
    out = np.empty((days, rows, columns), "f4")
    for i in range(days):
        at = (day + i) * 40009 % NOISE
        part = np.take(noise(), np.arange(at, at + n), mode="wrap").reshape(rows, columns)
        out[i] = grid + np.float32(.02 * (day + i)) + np.float32(.1) * part
    return out


def fields(client, nbytes):
    """Fields of days, rechunked from days to places, the sum of each place; and of each day."""
    import dask.array as da
    rows, columns, days = 256, 512, 16
    n = max(nbytes // (4 * rows * columns * days), 2)
    x = da.map_blocks(lambda block_info=None: field_block(
        block_info[None]["array-location"][0][0], days, rows, columns),
        chunks=((days,) * n, (rows,), (columns,)), dtype="f4", meta=np.empty((0, 0, 0), "f4"))
    x = client.persist(x)
    by_place = x.rechunk({0: n * days, 1: max(1, rows // n)}, method="p2p")
    place = by_place.sum(axis=0, dtype="f8")
    day = x.sum(axis=(1, 2), dtype="f8")
    place = client.compute(place).result()
    day = client.compute(day).result()
    right_place = np.zeros((rows, columns))
    right_day = np.empty(n * days)
    for i in range(n):
        block = field_block(i * days, days, rows, columns)
        right_place += block.sum(axis=0, dtype="f8")
        right_day[i * days:(i + 1) * days] = block.sum(axis=(1, 2), dtype="f8")
    return np.allclose(place, right_place) and np.allclose(day, right_day)


@functools.cache
def shop():
    """Keys, numbers, prices in cents; and words."""
    import pandas as pd     # which a worker of arrays does without: it is 80 MB
    rng = np.random.default_rng(1)
    return (rng.zipf(1.4, SHOP) % 5000, rng.integers(1, 9, SHOP),
            rng.integers(1, 2000, SHOP) * 5,
            pd.array([f"item {i % 97:04d}, kind {i % 7}" for i in range(500)],
                     dtype="string[pyarrow]"))


def frame_block(nth, rows=PART // ROW):
    """Rows as of a shop: a key, how many, a price in cents, and a word."""
    import pandas as pd
    *columns, words = shop()
    # Each column begins elsewhere, so that no block has the rows of another.
    key, n, cents = (np.take(column, np.arange(at, at + rows), mode="wrap") for column, at
                     in zip(columns, (nth * 40009 % SHOP, nth * 70001 % SHOP, nth * 9973 % SHOP)))
    return pd.DataFrame({"id": np.arange(nth * rows, (nth + 1) * rows), "key": key, "n": n,
                         "cents": cents, "word": words.take(key % 500)})


def frame(client, nbytes):
    """A frame's groupby, and its merge with a small one."""
    import dask.dataframe as dd
    import pandas as pd
    n = max(nbytes // PART, 2)
    df = client.persist(dd.from_map(frame_block, range(n), meta=frame_block(0, 2)))
    kinds = pd.DataFrame({"key": np.arange(5000), "kind": np.arange(5000) % 11})
    group = client.compute(df.groupby("key").agg({"n": "sum", "cents": "sum"}))
    merged = client.compute(df.merge(kinds, on="key").groupby("kind").cents.sum())
    group, merged = group.result(), merged.result()
    right = sum(frame_block(i).groupby("key")[["n", "cents"]].sum()
                .reindex(range(5000), fill_value=0) for i in range(n))
    right_kinds = right.groupby(np.arange(5000) % 11).cents.sum()
    return bool((group.reindex(range(5000), fill_value=0) == right).all().all()
                and (merged.sort_index().to_numpy() == right_kinds.to_numpy()).all())


def shuffle(client, nbytes):
    """A frame shuffled by its ids (p2p); both are kept until the end."""
    import dask.dataframe as dd
    n = max(nbytes // PART // 2, 2)
    df = client.persist(dd.from_map(frame_block, range(n), meta=frame_block(0, 2)))
    moved = client.persist(df.shuffle("id", shuffle_method="p2p"))
    parts = client.gather(client.map(lambda d: (len(d), int(d.id.sum()), int(d.cents.sum())),
                                     futures_of(moved)))
    ids = client.compute(df.id.sum()).result()
    rows = len(frame_block(0)) * n
    cents = sum(int(frame_block(i).cents.sum()) for i in range(n))
    return tuple(map(sum, zip(*parts))) == (rows, ids, cents) and ids == rows * (rows - 1) // 2


@functools.cache
def text():
    return np.minimum(np.random.default_rng(1).zipf(1.3, NOISE), 49999).astype("i4")


def token_block(nth, n=PART // 4):
    """Ids of words as a text has them: few of them often."""
    at = nth * 40009 % NOISE
    return np.take(text(), np.arange(at, at + n), mode="wrap")


def tokens(client, nbytes):
    """Texts of token ids: how often each occurs, and the sum."""
    n = max(nbytes // PART, 2)
    blocks = client.map(token_block, range(n), pure=False)
    counts = client.map(lambda a: np.bincount(a, minlength=50000), blocks)
    total = client.submit(sum, counts).result()
    sums = client.gather(client.map(lambda a: int(a.sum(dtype="i8")), blocks))
    return bool(total.sum() == n * (PART // 4) and sums[0] == token_block(0).sum(dtype="i8")
                and (total * np.arange(50000)).sum() == sum(sums))


def packed_block(nth, n=PART):
    return np.random.default_rng(nth).bytes(n)


def compressed(client, nbytes):
    """Bytes that do not become smaller: the sum of each, twice."""
    n = max(nbytes // PART, 2)
    blocks = client.map(packed_block, range(n), pure=False)
    passes = [client.gather(client.map(lambda b: hashlib.blake2b(b).hexdigest(), blocks,
                                       pure=False)) for _ in range(2)]
    return passes[0] == passes[1] and \
        passes[0][-1] == hashlib.blake2b(packed_block(n - 1)).hexdigest()


WORKLOADS = {f.__name__: f for f in (fields, frame, shuffle, tokens, compressed)}

# A worker with pandas and pyarrow takes 210 MB before its first value: with a smaller limit there
# is no room for values between that and the fraction of the limit at which it spills all it has.
LEAST = {"frame": 512 << 20, "shuffle": 512 << 20}
