"""Give free memory back to the machine.

A merge or a large push leaves the allocators with pages that they would keep for the next one: a server that runs for
months would look as if it leaked.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc

import pyarrow as pa

# Of the GNU C library, as are the names.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_LARGE_BYTES = 1 << 20
_KEPT_BYTES = 4 << 20
_ARENAS = 2


def share_free_memory() -> None:
    """For a process of many threads, before they begin: what one of them frees the others use, or the machine does.

    Left to themselves the C library gives each thread an arena of its own, and Arrow each thread a heap that only this
    thread can clear: free pages in twenty places that no other thread can use.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)
    pa.set_memory_pool(pa.system_memory_pool())
    give_back_large_at_once()


def give_back_large_at_once() -> None:
    """Let each large array come from the machine and go back to it.

    Left to itself the C library takes the first large array that is freed for a sign that more will come, and keeps
    as much as the largest one took.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def give_back_memory() -> None:
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # only the GNU C library has it
        ctypes.CDLL(None).malloc_trim(0)


def settle_memory() -> None:
    """After many definitions: the collector looks no more at what stays, and what lay between goes back."""
    gc.collect()
    gc.freeze()
    give_back_memory()
