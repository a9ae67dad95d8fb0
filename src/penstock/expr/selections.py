"""Many predicates over the same rows, each the AND of terms that others may share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.errors import PenstockError
from penstock.expr.bits import Words
from penstock.expr.conjunctions import and_terms
from penstock.expr.evaluate import Functions
from penstock.expr.factors import FactorSet, PreparedBatch, SlotTable
from penstock.expr.gaps import Int32s, Int64s
from penstock.expr.normal_form import Term


@dataclass(frozen=True, slots=True)
class Masks:
    """Masks of answers: answer i is limited to the rows that are set in rows[numbers[i]], unless numbers[i] is -1."""

    numbers: Int32s
    rows: Words

    @classmethod
    def none(cls, answers: int) -> Masks:
        return cls(np.full(answers, -1, np.int32), np.zeros((0, 0), np.uint64))


class Selections:
    """Predicates by number; a number is used again once its predicate is gone."""

    def __init__(self, functions: Functions | None = None) -> None:
        self.factors = FactorSet(functions)
        self._table = SlotTable()

    def add(self, term: Term) -> int:
        return self.add_slots(self.factors.acquire_all(term))

    def add_slots(self, slots: Sequence[int]) -> int:
        """The AND of terms that were acquired for it."""
        return self._table.add(slots)

    def slots(self, number: int) -> list[int]:
        """The terms of a predicate, as they were added."""
        return self._table.parts(number)

    def remove(self, number: int) -> None:
        self.factors.release_all(self._table.remove(number))

    def answer(self, prepared: PreparedBatch, chosen: Int64s, masks: Masks, out: Words, counts: Int64s) -> None:
        """Write the rows of the batch that the chosen predicates select to `out`, where only zeros stand.

        How many they are is added to `counts`.
        """
        for block in prepared.blocks():
            and_terms(
                chosen,
                self._table.slots,
                masks.numbers,
                masks.rows,
                block.word,
                block.everything,
                block.vectors,
                block.states,
                out,
                counts,
            )

    def failed(self, prepared: PreparedBatch, chosen: Int64s) -> dict[int, PenstockError]:
        """Which of the chosen predicates have no answer, by their place among them, and why."""
        if not prepared.failed:
            return {}
        broken = np.isin(self._table.slots[chosen], np.array(list(prepared.failed)))
        return {
            int(i): next(prepared.failed[s] for s in self._table.parts(int(chosen[i])) if s in prepared.failed)
            for i in np.flatnonzero(broken.any(axis=1))
        }
