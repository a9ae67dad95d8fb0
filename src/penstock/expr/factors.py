"""Many predicates over the same rows: each distinct factor, and each AND and OR of them, is evaluated once per block.

Every term has a slot, the number of its vector. A batch goes through in blocks of so few rows that the vectors of all
slots stay in the processor's cache. A predicate is the AND of terms that others may share (`Selections`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.expr.attribute_index import Attribute, matches
from penstock.expr.bits import Words, full, pack, words_for
from penstock.expr.evaluate import Calls, Columns, Functions, evaluate, mask_of
from penstock.expr.expression import Expr
from penstock.expr.kernel import kernel
from penstock.expr.normal_form import Both, Comparison, Either, Term
from penstock.expr.vector_kernels import EMPTY, FULL, MIXED, Bytes, Int32s, Int64s, and_terms, copy_block, state_of

# Below this many factors on an attribute, comparing them one by one is quicker than sorting into gaps.
SHARE_FROM = 32
# A combination of more parts becomes one of combinations, so that a single long one does not widen the table of all.
_PARTS_MAX = 64
# A block's vectors should stay in the processor's cache. Much shorter blocks cost more than they save: every answer is
# written in as many places as there are blocks, each on another page.
_BLOCK_BYTES = 4 << 20
_BLOCK_WORDS_MIN, _BLOCK_WORDS_MAX = 64, 256


class SlotTable:
    """Short lists of slots as rows of an array that a kernel can read: row n of `slots` holds list n, then -1."""

    def __init__(self) -> None:
        self.slots: Int32s = np.full((16, 4), -1, np.int32)
        self._free: list[int] = []
        self._count = 0

    def add(self, slots: Sequence[int]) -> int:
        """The number of a new row."""
        if self._free:
            row = self._free.pop()
        else:
            row, self._count = self._count, self._count + 1
        height, width = self.slots.shape
        if row >= height or len(slots) > width:
            grown = np.full((max(height, 2 * row), max(width, len(slots))), -1, np.int32)
            grown[:height, :width] = self.slots
            self.slots = grown
        self.slots[row, : len(slots)] = slots
        return row

    def remove(self, row: int) -> list[int]:
        """Forget a row; gives what it held."""
        found = self.parts(row)
        self.slots[row] = -1
        self._free.append(row)
        return found

    def parts(self, row: int) -> list[int]:
        return [slot for slot in self.slots[row].tolist() if slot >= 0]


class TermCombinations:
    """AND and OR of terms that several predicates share, evaluated once per block, innermost first.

    Per combination it has its slot, whether it is an AND, and the slots of its parts.
    """

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}  # by slot
        self._levels: dict[int, int] = {}
        self._parts = SlotTable()
        self._order: tuple[Int64s, Int32s, npt.NDArray[np.bool_]] | None = None
        self._both: dict[int, bool] = {}

    def add(self, slot: int, both: bool, parts: list[int]) -> None:
        self._rows[slot] = self._parts.add(parts)
        self._levels[slot] = 1 + max((self._levels.get(p, 0) for p in parts), default=0)
        self._both[slot] = both
        self._order = None

    def remove(self, slot: int) -> list[int]:
        """Forget a combination; gives its parts."""
        self._order = None
        del self._levels[slot], self._both[slot]
        return self._parts.remove(self._rows.pop(slot))

    def failed(self, failed: set[int]) -> dict[int, int]:
        """Combinations that need what failed, with one such part each."""
        found: dict[int, int] = {}
        for slot in sorted(self._rows, key=self._levels.__getitem__):
            for part in self._parts.parts(self._rows[slot]):
                if part in failed or part in found:
                    found[slot] = part
                    break
        return found

    def fill(self, everything: Words, vectors: Words, states: Bytes) -> None:
        """Write one block of every combination, given its factors."""
        if not self._rows:
            return
        if self._order is None:
            slots = np.array(sorted(self._rows, key=self._levels.__getitem__), np.int32)
            rows = np.array([self._rows[s] for s in slots.tolist()], np.int64)
            self._order = rows, slots, np.array([self._both[s] for s in slots.tolist()], np.bool_)
        _combine(self._order, self._parts.slots, everything, vectors, states)


@kernel
def _combine(
    order: tuple[Int64s, Int32s, npt.NDArray[np.bool_]], parts: Int32s, everything: Words, vectors: Words, states: Bytes
) -> None:
    rows, slots, both = order
    words = vectors.shape[1]
    for i in range(len(rows)):
        slot = slots[i]
        decided = EMPTY if both[i] else FULL
        states[slot] = FULL if both[i] else EMPTY
        out = vectors[slot]
        for k in range(parts.shape[1]):
            part = parts[rows[i], k]
            if part < 0:
                break
            if states[part] == decided:
                states[slot] = decided
                break
            if states[part] != MIXED:
                continue
            vector = vectors[part]
            if states[slot] != MIXED:
                states[slot] = MIXED
                for w in range(words):
                    out[w] = vector[w]
            elif both[i]:
                for w in range(words):
                    out[w] &= vector[w]
            else:
                for w in range(words):
                    out[w] |= vector[w]
        if states[slot] == MIXED:
            states[slot] = state_of(out, everything)


@dataclass(frozen=True, slots=True)
class Block:
    """One block's vectors by slot; only vectors with the state MIXED are written. It begins at `word` of the batch."""

    word: int
    everything: Words
    vectors: Words
    states: Bytes


class BlockReader(Protocol):
    """Something else that needs the vectors of all terms, as they come."""

    def take(self, block: Block, rows: int, slots: Int32s) -> None:
        """Look at a block of so many rows; `slots` are the terms of each predicate."""


class FactorSet:
    """Distinct terms with reference counts. A term keeps its slot while it is in use."""

    def __init__(self, functions: Functions | None = None) -> None:
        self._functions = functions
        self._slots: dict[Term, int] = {}
        self._terms: list[Term | None] = []
        self._uses: list[int] = []
        self._free: list[int] = []
        self._attributes: dict[Expr, Attribute] = {}
        self._general: dict[int, Expr] = {}
        self._combinations = TermCombinations()

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
                self._combinations.add(slot, isinstance(term, Both), parts)
            case Comparison():
                attribute = self._attributes.get(term.attribute)
                if attribute is None:
                    attribute = self._attributes[term.attribute] = Attribute(term.attribute)
                attribute.add(term, slot)
            case _:
                self._general[slot] = term
        return slot

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
        match term:
            case Both() | Either():
                for part in self._combinations.remove(slot):
                    self.release(part)
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
        """Look at every column once and call every function once."""
        prepared = PreparedBatch(rows, len(self._terms), self._combinations)
        calls: Calls = {}
        for slot, expr in self._general.items():
            try:
                prepared.give(slot, pack(mask_of(evaluate(expr, columns, rows, self._functions, calls))))
            except PenstockError as failure:
                prepared.failed[slot] = failure
        for attribute in self._attributes.values():
            try:
                array = evaluate(attribute.expr, columns, rows, self._functions, calls)
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
        if prepared.failed:
            for slot, part in self._combinations.failed(set(prepared.failed)).items():
                prepared.failed[slot] = prepared.failed[part]
        return prepared


class PreparedBatch:
    """A batch with evaluated columns: some vectors are computed as a whole, the others follow block by block.

    `failed` names the terms that could not be evaluated because a user's function failed; they count as never true.
    """

    def __init__(self, rows: int, slots: int, combinations: TermCombinations) -> None:
        self.rows = rows
        self.failed: dict[int, PenstockError] = {}
        self.sorted: list[tuple[Attribute, Int32s]] = []
        self._slots = slots
        self._combinations = combinations
        self._given: dict[int, Words] = {}

    def give(self, slot: int, vector: Words) -> None:
        self._given[slot] = vector

    def blocks(self) -> Iterator[Block]:
        """The batch block by block. The arrays of a block are used again for the next one."""
        width = _BLOCK_BYTES // (8 * max(self._slots, 1))
        width = min(max(width, _BLOCK_WORDS_MIN), _BLOCK_WORDS_MAX, max(words_for(self.rows), 1))
        vectors = np.empty((self._slots, width), np.uint64)
        states = np.full(self._slots, EMPTY, np.uint8)
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
            self._combinations.fill(everything, here, states)
            for slot in self.failed:
                states[slot] = EMPTY
            yield Block(first // 64, everything, here, states)


def narrowed(term: Both | Either) -> Both | Either:
    """A combination of many parts as one of combinations of fewer."""
    kind, parts = type(term), list(term.parts)
    while len(parts) > _PARTS_MAX:
        parts = [_of(kind, parts[i : i + _PARTS_MAX]) for i in range(0, len(parts), _PARTS_MAX)]
    return kind(frozenset(parts))


def _of(kind: type[Both] | type[Either], parts: list[Term]) -> Term:
    return kind(frozenset(parts)) if len(parts) > 1 else parts[0]


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
                words,
                counts,
            )
            if beside is not None:
                beside.take(block, min(prepared.rows - 64 * block.word, 64 * len(block.everything)), self._table.slots)

    def failed(self, prepared: PreparedBatch, chosen: Int64s) -> dict[int, PenstockError]:
        """Which of the chosen predicates have no answer, by their place among them, and why."""
        if not prepared.failed:
            return {}
        broken = np.isin(self._table.slots[chosen], np.array(list(prepared.failed)))
        return {
            int(i): next(prepared.failed[s] for s in self._table.parts(int(chosen[i])) if s in prepared.failed)
            for i in np.flatnonzero(broken.any(axis=1))
        }
