"""Evaluates the lazy factors of a block one after the other, each on the rows that still depend on it.

A row's condition is true, false, or undecided; what has not been evaluated or raised an error is undecided. An AND is false
where a part is, an OR true where a part is, as in three-valued logic. So the outcome does not depend on the order, and an
error counts only where the condition is undecided at the end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.expr.attribute_index import SHARE_FROM, matches
from penstock.expr.bits import Words, pack, set_bits
from penstock.expr.evaluate import Columns, Functions, evaluate, mask_of
from penstock.expr.lazy_factors import LazyFactor
from penstock.expr.row_calls import RowCalls
from penstock.expr.slots import Block, CombinationOrder, Masks, SlotTable, TermCombinations
from penstock.expr.vector_kernels import EMPTY, Int64s, and_terms

# Predicates whose rows are in memory at once.
_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Needs:
    """The predicates that need a lazy factor, by their place, under each of their terms that contains it."""

    by_term: Mapping[int, Int64s]
    combinations: CombinationOrder | None  # those that contain the factor


class LazyTerms(Protocol):
    """The terms of predicates as far as this module needs them."""

    combinations: TermCombinations
    lazy_of: dict[int, LazyFactor]  # by slot
    lazy_below: dict[int, frozenset[LazyFactor]]  # by slot, for lazy factors and combinations that contain some


def needs_of(terms: LazyTerms, table: SlotTable, chosen: Int64s) -> dict[LazyFactor, Needs]:
    """Which of the chosen predicates need each lazy factor."""
    slots = table.slots[chosen]
    places, columns = np.nonzero(np.isin(slots, np.array(list(terms.lazy_below), np.int32)))
    tops = slots[places, columns]
    order = np.argsort(tops, kind="stable")
    edges = np.flatnonzero(np.diff(tops[order], prepend=-1))
    by_factor: dict[LazyFactor, dict[int, Int64s]] = {}
    ends = [*edges[1:].tolist(), len(order)] if len(edges) else []  # none of the chosen may need any
    for first, end in zip(edges.tolist(), ends, strict=True):
        top = int(tops[order[first]])
        for factor in terms.lazy_below[top]:
            by_factor.setdefault(factor, {})[top] = places[order[first:end]].astype(np.int64)
    above: dict[LazyFactor, list[int]] = {}
    for slot, factors in terms.lazy_below.items():
        if slot in terms.combinations:
            for factor in factors:
                above.setdefault(factor, []).append(slot)
    in_order = terms.combinations.in_order
    return {
        factor: Needs(by_term, in_order(above[factor]) if factor in above else None)
        for factor, by_term in by_factor.items()
    }


@dataclass(frozen=True, slots=True)
class AskedPredicates:
    """Predicates that are to be answered: their numbers in the table of slots, their masks, and what they need."""

    table: SlotTable
    chosen: Int64s
    masks: Masks
    needs: Mapping[LazyFactor, Needs]


class LazyPass:
    """The lazy factors of one block. Their vectors say where a factor may be true: after all, where it is, or raised."""

    def __init__(self, terms: LazyTerms, asked: AskedPredicates, block: Block, rows: int) -> None:
        self._terms = terms
        self._asked = asked
        self._block = block
        self._rows = rows
        self._calls = RowCalls(rows)
        self._unknown: dict[LazyFactor, Words] = {}
        words = len(block.everything)
        self._masks: Words = np.ascontiguousarray(asked.masks.rows[:, block.word : block.word + words])

    def run(
        self, order: Iterable[LazyFactor], columns: Columns, functions: Functions | None
    ) -> dict[int, PenstockError]:
        """Evaluate them; gives the slots of those that could not be evaluated at all, with the reasons."""
        failed: dict[int, PenstockError] = {}
        for factor in order:
            needs = self._asked.needs.get(factor)
            if needs is None:
                continue
            wanted = self._wanted(factor, needs)
            chosen = set_bits(wanted)
            began, kept = time.perf_counter(), 0
            if len(chosen):
                try:
                    kept = self._evaluate(factor, wanted, chosen, columns, functions)
                except PenstockError as failure:
                    failed |= dict.fromkeys(factor.slots, failure)
                    for slot in factor.slots:
                        self._block.states[slot] = EMPTY
                if needs.combinations is not None:
                    self._terms.combinations.fill(self._block, needs.combinations)
            factor.note(self._rows, len(chosen), kept, time.perf_counter() - began)
        return failed

    def _wanted(self, factor: LazyFactor, needs: Needs) -> Words:
        """The rows at which the condition of some predicate may depend on a factor."""
        wanted = np.zeros_like(self._block.everything)
        for term, places in needs.by_term.items():
            self._push_down(term, self._possible(places), factor, wanted)
            if np.array_equal(wanted, self._block.everything):
                break
        return wanted

    def _possible(self, places: Int64s) -> Words:
        """The rows that some of these predicates may select."""
        block, asked, found = self._block, self._asked, np.zeros_like(self._block.everything)
        for first in range(0, len(places), _AT_ONCE):
            some = places[first : first + _AT_ONCE]
            rows = np.zeros((len(some), len(found)), np.uint64)
            and_terms(
                asked.chosen[some],
                asked.table.slots,
                asked.masks.numbers[some],
                self._masks,
                0,
                block.everything,
                block.vectors,
                block.states,
                rows,
                np.zeros(len(some), np.int64),
            )
            found |= np.bitwise_or.reduce(rows)
        return found

    def _push_down(self, slot: int, rows: Words, factor: LazyFactor, wanted: Words) -> None:
        """Add the rows at which a term depends on a factor, of those at which a predicate depends on the term."""
        combinations = self._terms.combinations
        if not rows.any():
            return
        if slot not in combinations:
            wanted |= rows
            return
        parts = combinations.parts(slot)
        for part in parts:
            if factor not in self._terms.lazy_below.get(part, ()):
                continue
            left = rows.copy()
            for other in parts:
                if other != part:
                    left &= self._block.words(other) if combinations.is_both(slot) else ~self._true(other)
            self._push_down(part, left, factor, wanted)

    def _evaluate(
        self, factor: LazyFactor, wanted: Words, chosen: Int64s, columns: Columns, functions: Functions | None
    ) -> int:
        """Evaluate a factor on the chosen rows; gives how many of them it keeps."""
        block, attribute = self._block, factor.attribute
        self._calls.rows = chosen
        some = _taken(columns, factor.columns, chosen + 64 * block.word)
        array = evaluate(factor.expr, some, len(chosen), functions, self._calls)
        unknown = block.everything & ~wanted
        failures = self._calls.failures(factor.calls)
        if failures:
            unknown |= self._packed(np.isin(chosen, list(failures)), chosen)
        self._unknown[factor] = unknown
        if attribute is None:
            mask = mask_of(array)
            block.write(factor.slot, self._packed(mask, chosen) | unknown)
            return int(np.count_nonzero(mask))
        if len(attribute.members) < SHARE_FROM:
            valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
            for comparison, slot in attribute.members.items():
                mask = matches(array, comparison)
                block.write(slot, self._packed(mask if valid is None else mask & valid, chosen) | unknown)
        else:
            gaps = np.full(self._rows, -1, np.int32)
            gaps[chosen] = attribute.gaps(array)
            attribute.fill(gaps, block.vectors, block.states)
            for slot in attribute.members.values():
                block.write(slot, block.words(slot) | unknown)
        some = np.bitwise_or.reduce([block.words(slot) for slot in factor.slots])
        return int(np.bitwise_count(some & ~unknown).sum())

    def _packed(self, mask: Any, chosen: Int64s) -> Words:
        """What holds for the chosen rows, as a vector of the block."""
        if len(chosen) < self._rows:
            everywhere = np.zeros(self._rows, np.bool_)
            everywhere[chosen] = mask
            mask = everywhere
        return pack(mask)

    def _true(self, slot: int) -> Words:
        """Where a term is certainly true."""
        factor = self._terms.lazy_of.get(slot)
        if factor is not None:
            unknown = self._unknown.get(factor)
            return np.zeros_like(self._block.everything) if unknown is None else self._block.words(slot) & ~unknown
        if slot not in self._terms.lazy_below:
            return self._block.words(slot)
        parts = [self._true(part) for part in self._terms.combinations.parts(slot)]
        combine = np.bitwise_and if self._terms.combinations.is_both(slot) else np.bitwise_or
        return combine.reduce(parts)  # type: ignore[no-any-return]

    def raised(self) -> dict[int, PenstockError]:
        """Predicates that stay an error for a row, by number, and the error of the first such row."""
        found: dict[int, PenstockError] = {}
        for factor, unknown in self._unknown.items():
            if not self._calls.failures(factor.calls):
                continue
            for places in self._asked.needs[factor].by_term.values():
                for place in places.tolist():
                    number = int(self._asked.chosen[place])
                    if number not in found and (failure := self._failure(place, unknown)) is not None:
                        found[number] = failure
        return found

    def _failure(self, place: int, unknown: Words) -> PenstockError | None:
        possible = self._possible(np.array([place], np.int64))
        if not (possible & unknown).any():
            return None
        slots = self._asked.table.parts(int(self._asked.chosen[place]))
        true: Words = np.bitwise_and.reduce([self._true(slot) for slot in slots])
        undecided = set_bits(possible & ~true)
        if not len(undecided):
            return None
        row = int(undecided[0])
        reasons = [reason for slot in slots for reason in self._reasons(slot, row)]
        return min(reasons, key=lambda reason: reason.message)

    def _reasons(self, slot: int, row: int) -> list[PenstockError]:
        """Why a term is undecided at a row."""
        if slot not in self._terms.lazy_below or not _has(self._block.words(slot), row) or _has(self._true(slot), row):
            return []
        factor = self._terms.lazy_of.get(slot)
        if factor is not None:
            failure = self._calls.failures(factor.calls).get(row)
            return [] if failure is None else [failure]
        return [r for part in self._terms.combinations.parts(slot) for r in self._reasons(part, row)]


def _has(words: Words, row: int) -> bool:
    return bool(words[row >> 6] >> np.uint64(row & 63) & np.uint64(1))


def _taken(columns: Columns, names: Iterable[str], rows: Int64s) -> dict[str, pa.Array]:
    """Some columns at some rows, which are ascending."""
    found, index = {}, None
    for name in names:
        column = columns[name]
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if rows[-1] - rows[0] + 1 == len(rows):
            found[name] = column.slice(int(rows[0]), len(rows))
            continue
        index = pa.array(rows) if index is None else index
        found[name] = column.take(index)
    return found
