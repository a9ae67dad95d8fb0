"""Which static versions pass each static predicate: evaluated once per version, kept as packed bits by vid.

Versions are append-only, so a mask only grows; a new version costs its own evaluation and nothing else.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from penstock.expr.bits import Words, words_for
from penstock.expr.expression import Expr
from penstock.expr.factors import Masks, Selections
from penstock.expr.normal_form import ALWAYS, Term, normal_form

NO_MASK = -1


class StaticMasks:
    """Distinct static predicates with reference counts; a predicate's number is its row in `masks`."""

    def __init__(self) -> None:
        self._selections = Selections()
        self._numbers: dict[Term, int] = {}
        self._terms: dict[int, Term] = {}
        self._uses: Counter[int] = Counter()
        self._bits = np.zeros((8, 1), np.uint64)
        self._behind: dict[int, set[int]] = {}  # masks by the versions that they cover
        self._known: dict[int, int] = {}

    def acquire(self, predicate: Expr | None) -> int:
        """The number of a predicate's mask, NO_MASK for none."""
        term = normal_form(predicate)
        if term == ALWAYS:
            return NO_MASK
        number = self._numbers.get(term)
        if number is None:
            number = self._selections.add(term)
            self._numbers[term], self._terms[number] = number, term
            self._cover(number, 0)
            if number >= len(self._bits):
                self._bits = np.concatenate([self._bits, np.zeros_like(self._bits)])
        self._uses[number] += 1
        return number

    def release(self, number: int) -> None:
        if number == NO_MASK:
            return
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._numbers[self._terms.pop(number)], self._uses[number]
            self._behind[self._known.pop(number)].discard(number)
            self._selections.remove(number)

    def _cover(self, number: int, count: int) -> None:
        self._known[number] = count
        self._behind.setdefault(count, set()).add(number)

    def masks(self, versions: pa.Table) -> Words:
        """Row n, bit v: whether version v passes predicate n. At least as wide as there are versions."""
        count = versions.num_rows
        missing = words_for(count) - self._bits.shape[1]
        if missing > 0:
            # Room to grow: a table of many sensors is often filled row by row.
            self._bits = np.pad(self._bits, ((0, 0), (0, missing + missing // 2)))
        for known in [k for k in self._behind if k < count]:
            self._extend(versions, known, self._behind.pop(known))
        return self._bits

    def _extend(self, versions: pa.Table, known: int, numbers: set[int]) -> None:
        """Cover the versions from `known` on, beginning at a whole word."""
        if not numbers:
            return
        count, word = versions.num_rows, known // 64
        new = versions.slice(64 * word)
        chosen = np.array(sorted(numbers), np.int64)
        bits = np.zeros((len(chosen), self._bits.shape[1] - word), np.uint64)
        prepared = self._selections.factors.prepare(new, new.num_rows)
        self._selections.answer(prepared, chosen, Masks.none(len(chosen)), bits, np.zeros(len(chosen), np.int64))
        self._bits[chosen, word:] = bits
        for number in numbers:
            self._cover(number, count)
