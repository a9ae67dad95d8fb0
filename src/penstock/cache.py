"""One cache for what may be forgotten: the values used last, within a number of them and of bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Values by key. Beyond `most` values or `most_bytes` the one that was not used for longest goes first.

    The newest value stays however large it is. Not thread-safe: the owner has the lock.
    """

    def __init__(self, *, most: int | None = None, most_bytes: int | None = None) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: K) -> V | None:
        """The value, which counts as used now."""
        found = self._held.get(key)
        if found is None:
            return None
        self._held.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, nbytes: int = 0) -> None:
        """Keep a value, in place of an earlier one of the same key."""
        self.remove(key)
        self._held[key] = (value, nbytes)
        self.nbytes += nbytes
        while len(self._held) > 1 and self._is_full():
            self.nbytes -= self._held.popitem(last=False)[1][1]

    def remove(self, key: K) -> None:
        """Forget a value, where there is one."""
        found = self._held.pop(key, None)
        if found is not None:
            self.nbytes -= found[1]

    def clear(self) -> None:
        self._held.clear()
        self.nbytes = 0

    def items(self) -> list[tuple[K, V]]:
        """All of them with their keys, the one used last at the end."""
        return [(key, value) for key, (value, _) in self._held.items()]

    def values(self) -> list[V]:
        """All of them, the one used last at the end."""
        return [value for value, _ in self._held.values()]

    def _is_full(self) -> bool:
        many = self._most is not None and len(self._held) > self._most
        return many or (self._most_bytes is not None and self.nbytes > self._most_bytes)
