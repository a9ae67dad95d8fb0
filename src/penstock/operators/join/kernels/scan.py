"""Conditions as programs over doubles, for runs without a key: each period is scanned by compiled code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN
from penstock.expr.expression import Column, Expr, walk
from penstock.operators.join.kernels.combinations import Combinations
from penstock.operators.join.kernels.keys import Ints
from penstock.operators.join.kernels.program import Program, Slot, all_of, compile_condition
from penstock.operators.join.kernels.runs import Run
from penstock.operators.join.papers.ranges import RangeProgram, against, match_ranges
from penstock.operators.join.papers.sides import Bools, Float64s
from penstock.types import DOUBLE, INT, TIMESTAMP

_LOADED = (DOUBLE, INT, TIMESTAMP)


class Programs:
    """Which conditions of a join run as programs, and which columns of each stream they load."""

    def __init__(self, aliases: Sequence[str], conditions: Sequence[Expr]) -> None:
        self._aliases = aliases
        self._names: list[list[str]] = [[] for _ in aliases]
        layout: dict[str, Slot] = {}
        for column in (n for c in conditions for n in walk(c) if isinstance(n, Column) and n.type in _LOADED):
            alias, _, name = column.name.partition(".")
            stream = aliases.index(alias)
            if name not in self._names[stream]:
                self._names[stream].append(name)
            layout[column.name] = Slot(stream, self._names[stream].index(name))
        found = {c: compile_condition(c, layout) for c in conditions}
        self._programs: dict[Expr, Program] = {c: p for c, p in found.items() if p is not None}
        self._ranges: dict[tuple[int, tuple[Expr, ...]], RangeProgram] = {}

    def covers(self, condition: Expr) -> bool:
        return condition in self._programs

    def program(self, condition: Expr) -> Program:
        return self._programs[condition]

    def columns(self, stream: int) -> tuple[str, ...]:
        return tuple(self._names[stream])

    def scan(
        self, made: Combinations, stream: int, run: Run, begin: Ints, end: Ints, conditions: tuple[Expr, ...]
    ) -> tuple[Ints, Ints]:
        """Pairs (combination, row of the run inside its range) that satisfy all of the conditions."""
        key = (stream, conditions)
        if key not in self._ranges:
            self._ranges[key] = against(all_of([self._programs[c] for c in conditions]), stream)
        ranges = self._ranges[key]
        used = {slot for c in conditions for s, slot in self._programs[c].loads if s == stream}
        values, known = doubles(run, self._names[stream])
        usable = _all_known([known[slot] for slot in sorted(used)])
        outer, there = self._outer(made, ranges)
        if there is None:
            return match_ranges(ranges, outer, values, begin, end, usable)
        chosen = np.flatnonzero(there)
        left, right = match_ranges(ranges, outer[:, chosen], values, begin[chosen], end[chosen], usable)
        return chosen[left], right

    def _outer(self, made: Combinations, ranges: RangeProgram) -> tuple[Float64s, Bools | None]:
        """What combinations bring, and which of them bring all of it."""
        arrays, masks = [np.empty((0, len(made)))], []
        for stream, slot in ranges.outer:
            name = self._names[stream][slot]
            if name == TIME_COLUMN:
                arrays.append(made.ts[stream].astype(np.float64)[None, :])
            else:
                value, known = as_doubles(made.columns[f"{self._aliases[stream]}.{name}"])
                arrays.append(value[None, :])
                masks.append(known)
        return np.concatenate(arrays), _all_known(masks)


def doubles(run: Run, names: Sequence[str]) -> tuple[Float64s, list[Bools | None]]:
    """Columns of a run as doubles, and where each is not NULL (None: everywhere). Made once per run."""
    key = tuple(names)
    if len(run) == 0:
        return np.empty((len(names), 0)), [None] * len(names)
    if key not in run.cache:
        values, known = np.empty((len(names), len(run))), []
        for place, name in enumerate(names):
            if name == TIME_COLUMN:
                values[place], mask = run.ts, None
            else:
                values[place], mask = as_doubles(run.columns[name])
            known.append(mask)
        run.cache[key] = (values, known)
    found: tuple[Float64s, list[Bools | None]] = run.cache[key]
    return found


def as_doubles(column: pa.Array) -> tuple[Float64s, Bools | None]:
    known = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
    whole = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    whole = whole.cast(pa.float64())
    return (whole.fill_null(0.0) if whole.null_count else whole).to_numpy(), known


def _all_known(masks: Sequence[Bools | None]) -> Bools | None:
    some = [m for m in masks if m is not None]
    return np.logical_and.reduce(some) if some else None
