"""Which static versions pass each static predicate: evaluated once per version, kept as packed bits by vid.

Versions are append-only, so a mask only grows; a new version costs its own evaluation and nothing else.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from penstock.operators.bits import Words, full, words_for
from penstock.operators.expr import Expr
from penstock.operators.factors import FactorSet, conjuncts

NO_MASK = -1


class StaticMasks:
    """Distinct static predicates with reference counts; a predicate's number is its row in `masks`."""

    def __init__(self) -> None:
        self._factors = FactorSet()
        self._numbers: dict[frozenset[Expr], int] = {}
        self._slots: dict[int, list[int]] = {}
        self._keys: dict[int, frozenset[Expr]] = {}
        self._uses: Counter[int] = Counter()
        self._free: list[int] = []
        self._bits = np.zeros((8, 1), np.uint64)
        self._known: dict[int, int] = {}  # versions that each mask covers already
        self._count = 0

    def acquire(self, predicate: Expr | None) -> int:
        """The number of a predicate's mask, NO_MASK for none."""
        if predicate is None:
            return NO_MASK
        key = frozenset(conjuncts(predicate))
        number = self._numbers.get(key)
        if number is None:
            number = self._free.pop() if self._free else len(self._numbers)
            self._numbers[key], self._keys[number], self._known[number] = number, key, 0
            self._slots[number] = [self._factors.acquire(factor) for factor in key]
            if number >= len(self._bits):
                self._bits = np.concatenate([self._bits, np.zeros_like(self._bits)])
        self._uses[number] += 1
        return number

    def release(self, number: int) -> None:
        if number == NO_MASK:
            return
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._numbers[self._keys.pop(number)], self._known[number]
            for slot in self._slots.pop(number):
                self._factors.release(slot)
            self._free.append(number)

    def masks(self, versions: pa.Table) -> Words:
        """Row n, bit v: whether version v passes predicate n. At least as wide as there are versions."""
        count = versions.num_rows
        missing = words_for(count) - self._bits.shape[1]
        if missing > 0:
            # Room to grow: a table of many sensors is often filled row by row.
            self._bits = np.pad(self._bits, ((0, 0), (0, missing + missing // 2)))
        behind: dict[int, list[int]] = {}
        for number, known in self._known.items():
            if known < count:
                behind.setdefault(known, []).append(number)
        for known, numbers in behind.items():
            self._extend(versions, known, numbers)
        return self._bits

    def _extend(self, versions: pa.Table, known: int, numbers: list[int]) -> None:
        """Cover the versions from `known` on, beginning at a whole word."""
        count, word = versions.num_rows, known // 64
        new = versions.slice(64 * word)
        wanted = np.unique([slot for number in numbers for slot in self._slots[number]])
        vectors = self._factors.evaluate(new, new.num_rows, wanted)
        everything = full(new.num_rows)
        place = {int(slot): i for i, slot in enumerate(wanted)}
        for number in numbers:
            bits = everything.copy()
            for slot in self._slots[number]:
                bits &= vectors[place[slot]]
            self._bits[number, word : word + len(bits)] = bits
            self._bits[number, word + len(bits) :] = 0
            self._known[number] = count
