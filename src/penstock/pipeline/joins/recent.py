"""What a task has read from the log, as much of it as fits: what was dropped is read again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """The newest values within a number of bytes; always the very last one."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._held: dict[Hashable, tuple[V, int]] = {}
        self._size = 0

    def get(self, key: Hashable) -> V | None:
        found = self._held.get(key)
        return None if found is None else found[0]

    def put(self, key: Hashable, value: V, size: int) -> None:
        self._held[key] = (value, size)
        self._size += size
        while self._size > self._room and len(self._held) > 1:
            _, dropped = self._held.pop(next(iter(self._held)))
            self._size -= dropped

    def values(self) -> list[V]:
        return [value for value, _ in self._held.values()]
