"""Conditions as programs over doubles, for runs without a key: each period is scanned by compiled code.

A program runs for one combination against a contiguous range of rows of the next stream, chunk by chunk: each operation runs
over a chunk before the next one starts, so that the machine works on several candidates at a time. It gives the same as
`papers.conditions.holds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN
from penstock.expr.expression import Column, Expr, walk
from penstock.expr.kernel import kernel
from penstock.operators.join.kernels import program as p
from penstock.operators.join.kernels.combinations import Combinations
from penstock.operators.join.kernels.keys import Ints
from penstock.operators.join.kernels.program import DEEPEST, Program, Slot, all_of, compile_condition
from penstock.operators.join.kernels.runs import Run
from penstock.operators.join.papers.conditions import divide_integers, wrap
from penstock.operators.join.papers.sides import Bools, Float64s, Int64s
from penstock.types import DOUBLE, INT, TIMESTAMP

_LOADED = (DOUBLE, INT, TIMESTAMP)
# Numba reads module constants of this file; names of another module would be attributes of an object to it.
Bytes = npt.NDArray[np.uint8]
CHUNK = 1024
LOAD, CONSTANT, ADD, SUB, MUL, DIV, NEG, ABS = p.LOAD, p.CONSTANT, p.ADD, p.SUB, p.MUL, p.DIV, p.NEG, p.ABS
SQRT, SQUARE, MIN, MAX, LT, LE, EQ, NE = p.SQRT, p.SQUARE, p.MIN, p.MAX, p.LT, p.LE, p.EQ, p.NE
INT_ADD, INT_SUB, INT_MUL, INT_DIV, INT_NEG, INT_ABS = p.INT_ADD, p.INT_SUB, p.INT_MUL, p.INT_DIV, p.INT_NEG, p.INT_ABS
AND, OR, NOT = p.AND, p.OR, p.NOT
OUTER = -1
"""A value that the combination brings: loaded once per chunk, not per row."""


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


@dataclass(frozen=True, slots=True)
class RangeProgram:
    """A program seen from one stream. `outer` lists what combinations have to bring, as (stream, column)."""

    code: Int64s
    constants: Float64s
    outer: tuple[tuple[int, int], ...]


def against(program: Program, stream: int) -> RangeProgram:
    """The program for combinations that are about to take a row of `stream`; all other streams it loads are bound."""
    outer = tuple(load for load in program.loads if load[0] != stream)
    code = program.code.copy()
    for line in code:
        load = (int(line[1]), int(line[2]))
        if line[0] == LOAD and load[0] != stream:
            line[:] = (OUTER, outer.index(load), 0)
    return RangeProgram(code, program.constants, outer)


def match_ranges(
    program: RangeProgram, outer: Float64s, columns: Float64s, lows: Int64s, highs: Int64s, usable: Bools | None = None
) -> tuple[Int64s, Int64s]:
    """All (combination, row) with lows <= row < highs for which the program is true, by combination, then by row.

    `outer[k]` holds value k of `program.outer` for every combination, `columns` the next stream's columns. `usable` is false
    for rows with a NULL in a column that the program loads; combinations with such a NULL must not come here.
    """
    everywhere = np.empty(0, np.bool_) if usable is None else usable
    return _match((program.code, program.constants), outer, columns, everywhere, lows, highs)


@kernel
def _match(
    program: tuple[Int64s, Float64s], outer: Float64s, columns: Float64s, usable: Bools, lows: Int64s, highs: Int64s
) -> tuple[Int64s, Int64s]:
    stack = np.empty((DEEPEST, CHUNK))
    # One byte per candidate, looked at eight at a time: most candidates fail.
    eights = np.zeros(CHUNK // 8, np.uint64)
    true = eights.view(np.uint8)
    combinations, rows = np.empty(CHUNK, np.int64), np.empty(CHUNK, np.int64)
    count = 0
    for k in range(len(lows)):
        for begin in range(lows[k], highs[k], CHUNK):
            size = min(CHUNK, highs[k] - begin)
            eights[: (size + 7) // 8] = 0
            for i in range(size):
                true[i] = 1
            if len(usable):
                for i in range(size):
                    true[i] = usable[begin + i]
            _run(program, outer, columns, (k, begin, size), stack, true)
            _keep(true, stack[0], size)
            if count + size > len(rows):
                combinations, rows = grown(combinations, count), grown(rows, count)
            for eight in range((size + 7) // 8):
                if eights[eight]:
                    for i in range(8 * eight, 8 * eight + 8):
                        if true[i]:
                            combinations[count] = k
                            rows[count] = begin + i
                            count += 1
    return combinations[:count], rows[:count]


@kernel
def _keep(true: Bytes, x: Float64s, size: int) -> None:
    for i in range(size):
        true[i] &= x[i] != 0.0


@kernel
def grown(values: Int64s, count: int) -> Int64s:
    out = np.empty(2 * len(values) + CHUNK, np.int64)
    out[:count] = values[:count]
    return out


@kernel
def _run(
    program: tuple[Int64s, Float64s],
    outer: Float64s,
    columns: Float64s,
    chunk: tuple[int, int, int],
    stack: Float64s,
    true: Bytes,
) -> None:
    code, constants = program
    combination, begin, size = chunk
    top = -1
    for line in range(len(code)):
        op = code[line, 0]
        if op == LOAD:
            top += 1
            _copy(stack[top], columns[code[line, 2], begin : begin + size])
        elif op == OUTER:
            top += 1
            _fill(stack[top], size, outer[code[line, 1], combination])
        elif op == CONSTANT:
            top += 1
            _fill(stack[top], size, constants[code[line, 1]])
        elif op in (NEG, ABS, SQRT, SQUARE, INT_NEG, INT_ABS, NOT):
            _one(op, stack[top], size)
        else:
            top -= 1
            if op in (DIV, INT_DIV):
                for i in range(size):
                    true[i] &= stack[top + 1, i] != 0.0
                    if stack[top + 1, i] == 0.0:
                        stack[top + 1, i] = 1.0
            _two(op, stack[top], stack[top + 1], size)


@kernel
def _copy(x: Float64s, values: Float64s) -> None:
    # Loops over plain indices become vector instructions; assignments between slices do not.
    for i in range(len(values)):
        x[i] = values[i]


@kernel
def _fill(x: Float64s, size: int, value: float) -> None:
    for i in range(size):
        x[i] = value


@kernel
def _one(op: int, x: Float64s, size: int) -> None:
    if op == NEG:
        for i in range(size):
            x[i] = -x[i]
    elif op == ABS:
        for i in range(size):
            x[i] = abs(x[i])
    elif op == SQRT:
        for i in range(size):
            x[i] = np.sqrt(x[i])
    elif op == SQUARE:
        for i in range(size):
            x[i] = x[i] * x[i]
    elif op == INT_NEG:
        for i in range(size):
            x[i] = wrap(-int(x[i]))
    elif op == INT_ABS:
        for i in range(size):
            x[i] = wrap(abs(int(x[i])))
    else:
        for i in range(size):
            x[i] = 1.0 - x[i]


@kernel
def _two(op: int, x: Float64s, y: Float64s, size: int) -> None:
    if op == ADD:
        for i in range(size):
            x[i] = x[i] + y[i]
    elif op == SUB:
        for i in range(size):
            x[i] = x[i] - y[i]
    elif op in (MUL, AND):
        for i in range(size):
            x[i] = x[i] * y[i]
    elif op == DIV:
        for i in range(size):
            x[i] = x[i] / y[i]
    elif op == MIN:
        for i in range(size):
            x[i] = y[i] if (y[i] < x[i]) | ((x[i] != x[i]) & (y[i] == y[i])) else x[i]
    elif op in (MAX, OR):
        for i in range(size):
            x[i] = y[i] if (x[i] < y[i]) | ((y[i] != y[i]) & (x[i] == x[i])) else x[i]
    elif op == LT:
        for i in range(size):
            x[i] = 1.0 if (x[i] < y[i]) | ((y[i] != y[i]) & (x[i] == x[i])) else 0.0
    elif op == LE:
        for i in range(size):
            x[i] = 1.0 if (x[i] <= y[i]) | (y[i] != y[i]) else 0.0
    elif op == EQ:
        for i in range(size):
            x[i] = 1.0 if (x[i] == y[i]) | ((x[i] != x[i]) & (y[i] != y[i])) else 0.0
    elif op == NE:
        for i in range(size):
            x[i] = 0.0 if (x[i] == y[i]) | ((x[i] != x[i]) & (y[i] != y[i])) else 1.0
    elif op == INT_ADD:
        for i in range(size):
            x[i] = wrap(int(x[i]) + int(y[i]))
    elif op == INT_SUB:
        for i in range(size):
            x[i] = wrap(int(x[i]) - int(y[i]))
    elif op == INT_MUL:
        for i in range(size):
            x[i] = wrap(int(x[i]) * int(y[i]))
    else:
        for i in range(size):
            x[i] = divide_integers(x[i], y[i])
