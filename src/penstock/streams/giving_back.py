"""Give memory that nobody uses back to the machine.

A merge or a large push leaves the allocators with pages that they would keep for the next one: a server that runs for
months would look as if it leaked.
"""

from __future__ import annotations

import contextlib
import ctypes

import pyarrow as pa


def give_back_memory() -> None:
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # only the GNU C library has it
        ctypes.CDLL(None).malloc_trim(0)
