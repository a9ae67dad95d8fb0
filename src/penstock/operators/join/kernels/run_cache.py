"""A cache of data derived from runs: other orders, columns as doubles, and the rows that retention has left.

All of it can be made again, so all runs of a process together keep only so many bytes: what was used last stays.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from weakref import ref

_most = 256 << 20
_held: dict[int, ref[RunCache]] = {}  # those with something in them, the one used last at the end


class RunCache(dict[Hashable, Any]):
    """The cached data of one run. It is dropped with the run, or when other runs need the memory."""

    __slots__ = ("__weakref__", "nbytes")

    def __init__(self) -> None:
        super().__init__()
        self.nbytes = 0

    def __getitem__(self, name: Hashable) -> Any:
        self._use()
        return super().__getitem__(name)

    def __setitem__(self, name: Hashable, value: Any) -> None:
        self.nbytes += _size(value) - _size(self.get(name))
        super().__setitem__(name, value)
        self._use()
        _make_room()

    def clear(self) -> None:
        super().clear()
        self.nbytes = 0

    def _use(self) -> None:
        me = id(self)
        _held.pop(me, None)
        _held[me] = ref(self, lambda _: _held.pop(me, None))


def allow(most: int) -> None:
    """Set the limit in bytes."""
    global _most
    _most = most


def held_bytes() -> int:
    """What this process keeps beside its runs."""
    return sum(beside.nbytes for one in list(_held.values()) if (beside := one()) is not None)


def _make_room() -> None:
    """Empty what was not used for longest; what was used last stays, however large, until something else is."""
    while held_bytes() > _most and len(_held) > 1:
        oldest = _held.pop(next(iter(_held)))()
        if oldest is not None:
            oldest.clear()


def _size(value: Any) -> int:
    if isinstance(value, tuple | list):
        return sum(map(_size, value))
    return int(getattr(value, "nbytes", 0))
