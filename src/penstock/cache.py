"""One cache for what may be forgotten: the values used last, within a number of them, of bytes and of seconds."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _Held(Generic[V]):
    value: V
    nbytes: int
    used_s: float


class Cache(Generic[K, V]):
    """Values by key. Beyond `most` values or `most_bytes` the one that was not used for longest goes first.

    With `idle_s`, values that were not used for so long go when another comes. The newest value stays however large it is.
    Not thread-safe: the owner has the lock.
    """

    def __init__(
        self,
        *,
        most: int | None = None,
        most_bytes: int | None = None,
        idle_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._idle_s = idle_s
        self._clock = clock
        self._held: OrderedDict[K, _Held[V]] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: K) -> V | None:
        """The value, which counts as used now."""
        found = self._held.get(key)
        if found is None:
            return None
        found.used_s = self._clock()
        self._held.move_to_end(key)
        return found.value

    def put(self, key: K, value: V, nbytes: int = 0) -> None:
        """Keep a value, in place of an earlier one of the same key."""
        self.remove(key)
        self._held[key] = _Held(value, nbytes, self._clock())
        self.nbytes += nbytes
        while len(self._held) > 1 and self._is_full():
            self.nbytes -= self._held.popitem(last=False)[1].nbytes

    def remove(self, key: K) -> None:
        """Forget a value, where there is one."""
        found = self._held.pop(key, None)
        if found is not None:
            self.nbytes -= found.nbytes

    def clear(self) -> None:
        self._held.clear()
        self.nbytes = 0

    def items(self) -> list[tuple[K, V]]:
        """All of them with their keys, the one used last at the end."""
        return [(key, held.value) for key, held in self._held.items()]

    def values(self) -> list[V]:
        """All of them, the one used last at the end."""
        return [held.value for held in self._held.values()]

    def _is_full(self) -> bool:
        if self._most is not None and len(self._held) > self._most:
            return True
        if self._most_bytes is not None and self.nbytes > self._most_bytes:
            return True
        return next(iter(self._held.values())).used_s < self._clock() - self._idle_s
