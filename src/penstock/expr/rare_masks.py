"""Answers behind a static mask that selects few rows: listed row by row, so that no bits are written for the other rows.

An alarm of one sensor among ten thousand is such an answer. A row looks at the answers of its own static version only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.expr.bits import Words, lowest_bit, popcount
from penstock.expr.kernel import kernel
from penstock.expr.slots import Block
from penstock.expr.vector_kernels import EMPTY, MIXED, Bytes, Int32s, Int64s

# A mask is rare if it selects no more than one of so many rows: a list is then smaller than the same as bits.
RARE_SHARE = 64


@dataclass(frozen=True, slots=True)
class RowLists:
    """Rows of a batch by answer: list i is offsets[starts[i] : starts[i + 1]], ascending."""

    starts: Int64s
    offsets: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def at(self, place: int) -> npt.NDArray[np.uint32]:
        return self.offsets[self.starts[place] : self.starts[place + 1]]

    @classmethod
    def none(cls) -> RowLists:
        return cls(np.zeros(1, np.int64), np.empty(0, np.uint32))


@dataclass(frozen=True, slots=True)
class RareVersions:
    """The masks that select few of the static versions, by version: masks[starts[v] : starts[v + 1]] select version v."""

    starts: Int64s
    masks: Int32s
    is_rare: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, bits: Words, numbers: Int64s, versions: int) -> RareVersions:
        return cls(*_by_version(bits, numbers, max(1, versions // RARE_SHARE)))

    def in_batch(self, edges: Int64s, rows: int) -> npt.NDArray[np.bool_]:
        """Which masks select few rows of a batch; `edges`: where each version's rows begin in the order of versions."""
        rows_of_versions = np.repeat(np.diff(edges), np.diff(self.starts))
        selected = np.bincount(self.masks, rows_of_versions, minlength=len(self.is_rare))
        return self.is_rare & (selected * RARE_SHARE <= rows)


@kernel
def _by_version(bits: Words, numbers: Int64s, most: int) -> tuple[Int64s, Int32s, npt.NDArray[np.bool_]]:
    one = np.uint64(1)
    is_rare = np.zeros(len(numbers), np.bool_)
    starts = np.zeros(bits.shape[1] * 64 + 1, np.int64)
    for i in range(len(numbers)):
        mask, selected = bits[numbers[i]], 0
        for w in range(len(mask)):
            selected += popcount(mask[w])
        is_rare[i] = selected <= most
        if is_rare[i]:
            for w in range(len(mask)):
                word = mask[w]
                while word != 0:
                    starts[w * 64 + lowest_bit(word) + 1] += 1
                    word &= word - one
    for version in range(len(starts) - 1):
        starts[version + 1] += starts[version]
    masks = np.empty(starts[-1], np.int32)
    fill = starts.copy()
    for i in range(len(numbers)):
        if is_rare[i]:
            mask = bits[numbers[i]]
            for w in range(len(mask)):
                word = mask[w]
                while word != 0:
                    version = w * 64 + lowest_bit(word)
                    masks[fill[version]] = i
                    fill[version] += 1
                    word &= word - one
    return starts, masks, is_rare


class RareAnswers:
    """Lists the rows of answers with rare masks, block by block.

    `edges[m] : edges[m + 1]` are the answers of mask m, and selections[i] is the number of answer i in the table of slots.
    """

    def __init__(
        self,
        versions: RareVersions,
        is_rare: npt.NDArray[np.bool_],
        vids: Int32s,
        edges: Int64s,
        selections: Int64s,
    ) -> None:
        self._versions, self._is_rare, self._vids = versions, is_rare, vids
        self._edges, self._selections = edges, selections
        answers = np.where(is_rare[versions.masks], np.diff(edges)[versions.masks], 0)
        before = np.append(0, np.cumsum(answers))
        self._asked = before[versions.starts[1:]] - before[versions.starts[:-1]]  # answers to look at, by version
        self._found: list[tuple[Int32s, npt.NDArray[np.uint32]]] = []

    def take(self, block: Block, rows: int, slots: Int32s) -> None:
        """Look at one block of so many rows."""
        first = 64 * block.word
        vids = self._vids[first : first + rows]
        most = int(self._asked[vids].sum())
        answers, offsets = np.empty(most, np.int32), np.empty(most, np.uint32)
        found = _list_matches(
            vids,
            (self._versions.starts, self._versions.masks, self._is_rare),
            (self._edges, self._selections, slots),
            (block.vectors, block.states),
            (answers, offsets),
        )
        self._found.append((answers[:found].copy(), offsets[:found] + np.uint32(first)))

    def lists(self, chosen: Int64s) -> RowLists:
        """The rows of these answers, in their order."""
        answers = np.concatenate([np.empty(0, np.int32), *(found for found, _ in self._found)])
        offsets = np.concatenate([np.empty(0, np.uint32), *(found for _, found in self._found)])
        wanted = np.zeros(len(self._selections), np.bool_)
        wanted[chosen] = True
        answers, offsets = answers[wanted[answers]], offsets[wanted[answers]]
        order = np.argsort(answers, kind="stable")
        counts = np.bincount(answers, minlength=len(self._selections))
        return RowLists(np.append(0, np.cumsum(counts[chosen])), offsets[order])


@kernel
def _list_matches(
    vids: Int32s,
    masks: tuple[Int64s, Int32s, npt.NDArray[np.bool_]],
    answers: tuple[Int64s, Int64s, Int32s],
    terms: tuple[Words, Bytes],
    out: tuple[Int32s, npt.NDArray[np.uint32]],
) -> int:
    starts, of_version, is_rare = masks
    edges, selections, slots = answers
    vectors, states = terms
    found_answers, found_rows = out
    one = np.uint64(1)
    count = 0
    for row in range(len(vids)):
        word, bit = row >> 6, np.uint64(row & 63)
        for place in range(starts[vids[row]], starts[vids[row] + 1]):
            mask = of_version[place]
            if not is_rare[mask]:
                continue
            for answer in range(edges[mask], edges[mask + 1]):
                number, holds = selections[answer], True
                for k in range(slots.shape[1]):
                    slot = slots[number, k]
                    if slot < 0:
                        break
                    state = states[slot]
                    if state == EMPTY or (state == MIXED and (vectors[slot, word] >> bit) & one == 0):
                        holds = False
                        break
                if holds:
                    found_answers[count] = answer
                    found_rows[count] = row
                    count += 1
    return count
