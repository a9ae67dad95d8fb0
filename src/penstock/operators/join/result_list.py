"""A join's results in the order of commits. A result's number never changes, so numbers are ids.

Chunks never change; readers keep the list they have. What a chunk's file held can be dropped from the old end.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.cycle.commit_files import from_payload, to_payload
from penstock.cycle.folder import DataFolder
from penstock.operators.join.steps.results import EARLIEST, LATEST, position_column, read_results, version_column
from penstock.sql.plan import JoinPlan

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Results `first` and following, with what lets a reader skip them: the times between which they lie."""

    first: int
    table: pa.Table
    file: str | None
    latest_begin: int  # the largest of their earliest times: a window that begins later holds none of them
    earliest_end: int
    latest_end: int
    last_positions: tuple[int, ...]  # by input: where retention has passed one of them, nothing is left

    @property
    def end(self) -> int:
        return self.first + int(self.table.num_rows)

    def column(self, name: str) -> Ints:
        found: Ints = self.table.column(name).to_numpy()
        return found


def make_chunk(first: int, table: pa.Table, file: str | None) -> Chunk:
    table = table.combine_chunks()
    begins, ends = table.column(EARLIEST).to_numpy(), table.column(LATEST).to_numpy()
    inputs = sum(name.startswith("#p") for name in table.column_names)
    last = tuple(int(table.column(position_column(i)).to_numpy().max()) for i in range(inputs))
    return Chunk(first, table, file, int(begins.max()), int(ends.min()), int(ends.max()), last)


@dataclass(frozen=True, slots=True)
class JoinResults:
    """The results of one generation: a new one begins whenever a query reads its history anew."""

    generation: int
    chunks: tuple[Chunk, ...] = ()
    count: int = 0

    def with_results(self, table: pa.Table, file: str | None) -> JoinResults:
        if table.num_rows == 0:
            return self
        chunk = make_chunk(self.count, table, file)
        return JoinResults(self.generation, (*self.chunks, chunk), self.count + table.num_rows)

    def without(self, low: int, floors: Sequence[int]) -> JoinResults:
        """Without chunks that lie wholly before a time, or of which an input's readings are all gone."""
        kept = tuple(
            c
            for c in self.chunks
            if c.latest_begin >= low and all(p >= f for p, f in zip(c.last_positions, floors, strict=True))
        )
        return JoinResults(self.generation, kept, self.count)

    @property
    def nbytes(self) -> int:
        return sum(int(chunk.table.nbytes) for chunk in self.chunks)

    @property
    def files(self) -> set[str]:
        return {c.file for c in self.chunks if c.file is not None}

    def inside(self, first: int, end: int, low: int, high: int, latest_after: int | None = None) -> ChosenResults:
        """Results with a number in [first, end) and all tuples in [low, high], by number.

        With `latest_after` only results with the latest tuple after it.
        """
        numbers, parts = [], []
        for chunk in self.chunks:
            if chunk.end <= first or chunk.first >= end or chunk.latest_begin < low or chunk.earliest_end > high:
                continue
            if latest_after is not None and chunk.latest_end <= latest_after:
                continue
            begins, ends = chunk.column(EARLIEST), chunk.column(LATEST)
            keep = (begins >= low) & (ends <= high)
            if latest_after is not None:
                keep &= ends > latest_after
            keep[: max(0, first - chunk.first)] = False
            keep[max(0, end - chunk.first) :] = False
            rows = np.flatnonzero(keep)
            if len(rows):
                numbers.append(rows + chunk.first)
                parts.append(chunk.table if len(rows) == len(keep) else chunk.table.take(pa.array(rows)))
        return ChosenResults(np.concatenate(numbers) if numbers else np.empty(0, np.int64), parts)

    def pick(self, numbers: Ints) -> ChosenResults:
        """Results by their numbers, ascending."""
        found, parts = [], []
        for chunk in self.chunks:
            low, high = np.searchsorted(numbers, [chunk.first, chunk.end])
            if low < high:
                found.append(numbers[low:high])
                parts.append(chunk.table.take(pa.array(numbers[low:high] - chunk.first)))
        return ChosenResults(np.concatenate(found) if found else np.empty(0, np.int64), parts)

    def times(self, numbers: Ints) -> tuple[Ints, Ints]:
        """The earliest and the latest time of results by their numbers, ascending."""
        begins, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for chunk in self.chunks:
            low, high = np.searchsorted(numbers, [chunk.first, chunk.end])
            if low < high:
                places = numbers[low:high] - chunk.first
                begins.append(chunk.column(EARLIEST)[places])
                ends.append(chunk.column(LATEST)[places])
        return np.concatenate(begins), np.concatenate(ends)


@dataclass(frozen=True, slots=True)
class ChosenResults:
    """Some results: their numbers, and their rows in the same order."""

    numbers: Ints
    parts: Sequence[pa.Table]

    def column(self, name: str) -> Ints:
        if not self.parts:
            return np.empty(0, np.int64)
        return np.concatenate([p.column(name).to_numpy() for p in self.parts])

    def positions(self, inputs: int) -> list[Ints]:
        return [self.column(position_column(s)) for s in range(inputs)]

    def versions(self, plan: JoinPlan) -> dict[int, Ints]:
        """Which version of each ordinary table's row, by the table's place in the plan; -1 where a LEFT JOIN found none."""
        return {place: self.column(version_column(place)) for place, table in enumerate(plan.tables) if table.is_shown}

    def values(self, name: str) -> pa.ChunkedArray:
        return pa.chunked_array([c for p in self.parts for c in p.column(name).chunks])

    def pieces(self, rows: int) -> Iterator[ChosenResults]:
        """The same, so many at a time."""
        at = np.arange(len(self.numbers)) // rows
        return (self.keep(at == place) for place in range(-(-len(self.numbers) // rows)))

    def keep(self, mask: np.ndarray[Any, np.dtype[np.bool_]]) -> ChosenResults:
        if mask.all():
            return self
        parts = []
        at = 0
        for part in self.parts:
            here = np.flatnonzero(mask[at : at + part.num_rows])
            parts.append(part.take(pa.array(here)))
            at += part.num_rows
        return ChosenResults(self.numbers[mask], parts)


def results_to_json(results: JoinResults | None) -> dict[str, Any] | None:
    """Results as a snapshot keeps them: files by name, small ones as text."""
    if results is None:
        return None
    return {
        "generation": results.generation,
        "count": results.count,
        "chunks": [
            [c.first, c.file] if c.file is not None else [c.first, None, b64encode(to_payload(c.table)).decode()]
            for c in results.chunks
        ],
    }


def results_from_json(data: dict[str, Any] | None, folder: DataFolder) -> JoinResults | None:
    if data is None:
        return None
    chunks = []
    for first, file, *inline in data["chunks"]:
        table = read_results(folder, file) if file is not None else from_payload(b64decode(inline[0]))
        chunks.append(make_chunk(first, table, file))
    return JoinResults(data["generation"], tuple(chunks), data["count"])
