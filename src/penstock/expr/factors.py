"""Many predicates over the same rows: each distinct factor, and each AND and OR of them, is evaluated once per block.

Factors that cost much come last and see only rows that still depend on them (`lazy_pass`).

Every term has a slot, the number of its vector. A batch goes through in blocks of so few rows that the vectors of all
slots stay in the processor's cache. A predicate is the AND of terms that others may share (`Selections`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.expr.attribute_index import SHARE_FROM, Attribute, matches
from penstock.expr.bits import Words, full, pack, words_for
from penstock.expr.evaluate import Columns, Functions, evaluate, mask_of
from penstock.expr.expression import Expr
from penstock.expr.lazy_factors import FactorFigures, LazyFactor, LearnedOrder, Ordering, is_costly
from penstock.expr.lazy_pass import AskedPredicates, LazyPass, Needs, needs_of
from penstock.expr.normal_form import Both, Comparison, Either, Term
from penstock.expr.slots import Block, Masks, SlotTable, TermCombinations
from penstock.expr.vector_kernels import EMPTY, FULL, Int32s, Int64s, and_terms, copy_block

# A combination of more parts becomes one of combinations, so that a single long one does not widen the table of all.
_PARTS_MAX = 64
# A block's vectors should stay in the processor's cache. Much shorter blocks cost more than they save: every answer is
# written in as many places as there are blocks, each on another page.
_BLOCK_BYTES = 4 << 20
_BLOCK_WORDS_MIN, _BLOCK_WORDS_MAX = 64, 256


class BlockReader(Protocol):
    """Something else that needs the vectors of all terms, as they come."""

    def take(self, block: Block, rows: int, slots: Int32s) -> None:
        """Look at a block of so many rows; `slots` are the terms of each predicate."""


class FactorSet:
    """Distinct terms with reference counts. A term keeps its slot while it is in use."""

    def __init__(self, functions: Functions | None = None, ordering: Ordering | None = None) -> None:
        self.functions = functions
        self.combinations = TermCombinations()
        self.lazy_of: dict[int, LazyFactor] = {}
        self.lazy_below: dict[int, frozenset[LazyFactor]] = {}
        self._lazy: dict[Expr, LazyFactor] = {}
        self._in_order: list[LazyFactor] = []
        self._ordering = ordering or LearnedOrder()
        self._slots: dict[Term, int] = {}
        self._terms: list[Term | None] = []
        self._uses: list[int] = []
        self._free: list[int] = []
        self._attributes: dict[Expr, Attribute] = {}
        self._general: dict[int, Expr] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def acquire_all(self, term: Term) -> list[int]:
        """The slots of the terms that the term is the AND of, ascending."""
        parts = narrowed(term).parts if isinstance(term, Both) else (term,)
        return sorted(self.acquire(part) for part in parts)

    def acquire(self, term: Term) -> int:
        """The slot of a term; the same for equal ones."""
        slot = self._slots.get(term)
        if slot is not None:
            self._uses[slot] += 1
            return slot
        parts = [self.acquire(p) for p in narrowed(term).parts] if isinstance(term, Both | Either) else []
        if self._free:
            slot = self._free.pop()
            self._terms[slot], self._uses[slot] = term, 1
        else:
            slot = len(self._terms)
            self._terms.append(term)
            self._uses.append(1)
        self._slots[term] = slot
        match term:
            case Both() | Either():
                self.combinations.add(slot, isinstance(term, Both), parts)
                if lazy := frozenset[LazyFactor]().union(*(self.lazy_below.get(p, ()) for p in parts)):
                    self.lazy_below[slot] = lazy
            case Comparison(attribute):
                self._attribute(attribute, slot).add(term, slot)
            case _ if is_costly(term):
                self._put_lazy(slot, LazyFactor(term, slot=slot))
            case _:
                self._general[slot] = term
        return slot

    def _attribute(self, expr: Expr, slot: int) -> Attribute:
        """The attribute that the comparison at a slot belongs to."""
        lazy = self._lazy.get(expr)
        if lazy is None and expr not in self._attributes:
            if not is_costly(expr):
                self._attributes[expr] = Attribute(expr)
            else:
                lazy = LazyFactor(expr, Attribute(expr))
        if lazy is None:
            return self._attributes[expr]
        self._put_lazy(slot, lazy)
        assert lazy.attribute is not None
        return lazy.attribute

    def _put_lazy(self, slot: int, factor: LazyFactor) -> None:
        if factor.expr not in self._lazy:
            self._lazy[factor.expr] = factor
            self._in_order.append(factor)
        self.lazy_of[slot], self.lazy_below[slot] = factor, frozenset([factor])

    def _remove_lazy(self, slot: int, term: Term) -> None:
        factor = self.lazy_of.pop(slot)
        if isinstance(term, Comparison) and factor.attribute is not None:
            factor.attribute.remove(term)
            if factor.attribute.members:
                return
        del self._lazy[factor.expr]

    def lazy_in_order(self) -> list[LazyFactor]:
        """The factors that cost much, in the order of the next block."""
        if len(self._in_order) != len(self._lazy):
            self._in_order = [f for f in self._in_order if self._lazy.get(f.expr) is f]
        return self._ordering(self._in_order)

    def take_figures(self, most: int) -> dict[Expr, FactorFigures]:
        """What became of factors that cost much since this was asked; only of so many, those that took longest."""
        some = sorted(
            (f for f in self._lazy.values() if f.figures.calls or f.figures.saved), key=lambda f: -f.figures.ms
        )
        found = {}
        for factor in some[:most]:
            found[factor.expr], factor.figures = factor.figures, FactorFigures()
        return found

    def release(self, slot: int) -> None:
        """Release one use of a term; after its last use, its slot is free."""
        self._uses[slot] -= 1
        if self._uses[slot]:
            return
        term = self._terms[slot]
        assert term is not None
        self._terms[slot] = None
        del self._slots[term]
        self._free.append(slot)
        self.lazy_below.pop(slot, None)
        match term:
            case Both() | Either():
                for part in self.combinations.remove(slot):
                    self.release(part)
            case _ if slot in self.lazy_of:
                self._remove_lazy(slot, term)
            case Comparison():
                attribute = self._attributes[term.attribute]
                attribute.remove(term)
                if not attribute.members:
                    del self._attributes[term.attribute]
            case _:
                del self._general[slot]

    def release_all(self, slots: Iterable[int]) -> None:
        for slot in slots:
            self.release(slot)

    def prepare(self, columns: Columns, rows: int) -> PreparedBatch:
        """Evaluate the factors that cost little, each once."""
        prepared = PreparedBatch(self, columns, rows, len(self._terms))
        for slot, expr in self._general.items():
            try:
                prepared.give(slot, pack(mask_of(evaluate(expr, columns, rows, self.functions))))
            except PenstockError as failure:
                prepared.failed[slot] = failure
        for attribute in self._attributes.values():
            try:
                array = evaluate(attribute.expr, columns, rows, self.functions)
            except PenstockError as failure:
                prepared.failed |= dict.fromkeys(attribute.members.values(), failure)
                continue
            if len(attribute.members) >= SHARE_FROM:
                prepared.sorted.append((attribute, attribute.gaps(array)))
                continue
            valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
            for comparison, slot in attribute.members.items():
                mask = matches(array, comparison)
                prepared.give(slot, pack(mask if valid is None else mask & valid))
        prepared.fail({})
        return prepared


class PreparedBatch:
    """A batch with evaluated columns: some vectors are computed as a whole, the others follow block by block.

    `failed` names the terms that could not be evaluated; they count as never true. `raised` names predicates, by number, with a row
    at which a user's function raised, unless the row is decided without it.
    """

    def __init__(self, factors: FactorSet, columns: Columns, rows: int, slots: int) -> None:
        self.factors = factors
        self.columns = columns
        self.rows = rows
        self.failed: dict[int, PenstockError] = {}
        self.raised: dict[int, PenstockError] = {}
        self.sorted: list[tuple[Attribute, Int32s]] = []
        self._slots = slots
        self._given: dict[int, Words] = {}

    def fail(self, slots: Mapping[int, PenstockError]) -> None:
        """Note terms that cannot be evaluated; what is combined of them cannot be either."""
        self.failed |= slots
        if self.failed:
            for slot, part in self.factors.combinations.failed(set(self.failed)).items():
                self.failed[slot] = self.failed[part]

    def give(self, slot: int, vector: Words) -> None:
        self._given[slot] = vector

    def blocks(self) -> Iterator[Block]:
        """The batch block by block; what costs much counts as true. The arrays of a block are used again for the next one."""
        width = _BLOCK_BYTES // (8 * max(self._slots, 1))
        width = min(max(width, _BLOCK_WORDS_MIN), _BLOCK_WORDS_MAX, max(words_for(self.rows), 1))
        vectors = np.empty((self._slots, width), np.uint64)
        states = np.full(self._slots, EMPTY, np.uint8)
        lazy = np.array(list(self.factors.lazy_of), np.int64)
        given_slots = np.array(list(self._given), np.int32)
        given = np.array(list(self._given.values()), np.uint64).reshape(len(given_slots), words_for(self.rows))
        for first in range(0, self.rows, 64 * width):
            rows = min(64 * width, self.rows - first)
            everything = full(rows)
            # A shorter last block uses the front of the same arrays.
            here = vectors if len(everything) == width else np.empty((self._slots, len(everything)), np.uint64)
            copy_block(given, given_slots, first // 64, everything, here, states)
            for attribute, gaps in self.sorted:
                attribute.fill(gaps[first : first + rows], here, states)
            states[lazy] = FULL
            block = Block(first // 64, everything, here, states)
            self.factors.combinations.fill(block)
            for slot in self.failed:
                states[slot] = EMPTY
            yield block


def narrowed(term: Both | Either) -> Both | Either:
    """A combination of many parts as one of combinations of fewer."""
    kind, parts = type(term), list(term.parts)
    while len(parts) > _PARTS_MAX:
        parts = [_of(kind, parts[i : i + _PARTS_MAX]) for i in range(0, len(parts), _PARTS_MAX)]
    return kind(frozenset(parts))


def _of(kind: type[Both] | type[Either], parts: list[Term]) -> Term:
    return kind(frozenset(parts)) if len(parts) > 1 else parts[0]


class Selections:
    """Predicates by number; a number is used again once its predicate is gone."""

    def __init__(self, functions: Functions | None = None, ordering: Ordering | None = None) -> None:
        self.factors = FactorSet(functions, ordering)
        self._table = SlotTable()
        self._needs: tuple[Int64s, Mapping[LazyFactor, Needs]] | None = None  # with the predicates that it is about

    def add(self, term: Term) -> int:
        return self.add_slots(self.factors.acquire_all(term))

    def add_slots(self, slots: Sequence[int]) -> int:
        """The AND of terms that were acquired for it."""
        self._needs = None
        return self._table.add(slots)

    def slots(self, number: int) -> list[int]:
        """The terms of a predicate, as they were added."""
        return self._table.parts(number)

    def remove(self, number: int) -> None:
        self._needs = None
        self.factors.release_all(self._table.remove(number))

    def answer(
        self,
        prepared: PreparedBatch,
        chosen: Int64s,
        masks: Masks,
        out: tuple[Words, Int64s],
        beside: BlockReader | None = None,
    ) -> None:
        """Write the rows of the batch that the chosen predicates select to the first of `out`, where only zeros stand.

        How many they are is added to the second. `beside` gets each block as well.
        """
        words, counts = out
        asked = self._asked(chosen, masks)
        for block in prepared.blocks():
            rows = min(prepared.rows - 64 * block.word, 64 * len(block.everything))
            if asked is not None:
                lazy = LazyPass(self.factors, asked, block, rows)
                prepared.fail(lazy.run(self.factors.lazy_in_order(), prepared.columns, self.factors.functions))
                prepared.raised = {**lazy.raised(), **prepared.raised}
            and_terms(
                chosen,
                self._table.slots,
                masks.numbers,
                masks.rows,
                block.word,
                block.everything,
                block.vectors,
                block.states,
                words,
                counts,
            )
            if beside is not None:
                beside.take(block, rows, self._table.slots)

    def _asked(self, chosen: Int64s, masks: Masks) -> AskedPredicates | None:
        """What the chosen predicates need of factors that cost much; None where they need nothing."""
        if not self.factors.lazy_of:
            return None
        if self._needs is None or not np.array_equal(self._needs[0], chosen):
            self._needs = chosen, needs_of(self.factors, self._table, chosen)
        needs = self._needs[1]
        return AskedPredicates(self._table, chosen, masks, needs) if needs else None

    def are_lazy(self, chosen: Int64s) -> npt.NDArray[np.bool_]:
        """Which of the chosen predicates need factors that cost much."""
        needed = np.isin(self._table.slots[chosen], list(self.factors.lazy_below))
        return np.asarray(needed.any(axis=1), np.bool_)

    def failed(self, prepared: PreparedBatch, chosen: Int64s) -> dict[int, PenstockError]:
        """Which of the chosen predicates have no answer, by their place among them, and why."""
        if not prepared.failed and not prepared.raised:
            return {}
        broken = np.isin(self._table.slots[chosen], np.array(list(prepared.failed), np.int32))
        raised = np.flatnonzero(np.isin(chosen, np.array(list(prepared.raised), np.int64)))
        return {int(i): prepared.raised[int(chosen[i])] for i in raised} | {
            int(i): next(prepared.failed[s] for s in self._table.parts(int(chosen[i])) if s in prepared.failed)
            for i in np.flatnonzero(broken.any(axis=1))
        }
