# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a type checker makes of a program that uses pyebb; nothing runs it."""
from typing import assert_type

import pyebb


class Mine(pyebb.Store):
    pass


class Reader:
    @pyebb.cache("8 MiB")
    def read(self, n: int) -> str:
        return str(n)


@pyebb.cache("8 MiB")
def slow(n: int) -> bytes:
    return bytes(n)


assert_type(slow(5), bytes)
assert_type(slow.cache_info(), pyebb.CacheInfo)
assert_type(slow.cache, pyebb.Cache)
slow.cache_clear()
assert_type(Reader().read(5), str)
with Mine() as mine:
    assert_type(mine, Mine)
with pyebb.Store(capacity=5, spill="folder") as store:
    assert_type(store, pyebb.Store)
