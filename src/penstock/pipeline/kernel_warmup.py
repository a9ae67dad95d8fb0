"""Run every kernel of the cycles once on a few rows, so that Numba compiles it into its cache or loads it from there.

The types of the arguments count: a column of the log is read-only, which is another type to the compiler, and what
several segments bring together is not. Each of PARTS can run in a process of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expr.attribute_index import SHARE_FROM
from penstock.expr.bits import bitmap_of_words, full
from penstock.expr.expression import Call, Column, Expr, Literal
from penstock.expr.newest_times import newest_by_version, newest_passing
from penstock.expr.predicate_index import PredicateIndex
from penstock.operators.aggregate.approximate.coarse_cells import coarsened
from penstock.operators.aggregate.approximate.histogram import ApproxHistogram
from penstock.operators.aggregate.partials.registry import KINDS, PARTIALS, approximate_name, make_approximate
from penstock.operators.aggregate.partials.slices import number_groups, slice_rows
from penstock.operators.aggregate.trees.tree import FANOUT, AggregateTree, Kind
from penstock.operators.base.row_difference import FEW_ROWS, row_difference
from penstock.operators.join.kernels.bounds import close
from penstock.operators.join.kernels.keys import key_numbers
from penstock.operators.join.kernels.probe import ValueRanges, probe, probe_all, scan_equal
from penstock.operators.join.kernels.program import Slot, compile_condition
from penstock.operators.join.kernels.refinement import RankedInequalities, as_inequality, set_bits
from penstock.operators.join.kernels.runs import attach_run, build_run
from penstock.operators.join.kernels.scan import against, match_ranges
from penstock.operators.join.kernels.tables import count_alive, earliest_births, pick_alive
from penstock.operators.join.papers.registry import ALGORITHMS
from penstock.operators.join.papers.side_arrays import parts_of
from penstock.operators.join.papers.sides import Counters, Side
from penstock.operators.mining.registry import FUNCTIONS
from penstock.operators.mining.sample import Sample
from penstock.operators.mining.series import Series
from penstock.streams.ingest import rules
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT, Type

_ROWS = 8
_TYPES: dict[str, Type] = {"x": DOUBLE, "n": BIGINT, "k": INT}


def ingest() -> None:
    """What every reading passes on its way into the log."""
    rules.warm_up()


def selections() -> None:
    """What the shared pass runs, for comparisons of every type that it shares."""
    predicates: list[Expr | None] = [_above(name, i) for name in ("x", "n", "k") for i in range(SHARE_FROM)]
    either = Call("or", (_above("x", 1), _above("n", 1)), BOOLEAN)
    sensors = [Call("eq", (Column("_sid", INT, True), Literal(sid, INT)), BOOLEAN) for sid in range(2)]
    index = PredicateIndex((number, None, predicate) for number, predicate in enumerate([*predicates, either, None]))
    for number, sensor in enumerate(sensors):
        index.add(-1 - number, sensor, None)
    times = np.arange(_ROWS)
    columns = {"x": pa.array(times.astype(np.float64)), "n": pa.array(times), "k": pa.array(times.astype(np.int32))}
    versions = pa.table({"_sid": pa.array([0, 1], pa.int32())})
    for vids in _both(np.zeros(_ROWS, np.int32)):
        list(index.match(columns, vids, versions))
        matrix = index.match_matrix(columns, vids, versions, rare=True)
        for at in _both(times):
            newest_by_version(vids, at)
    bitmap_of_words(matrix.words[0])
    matrix.rows(np.arange(1))
    newest_passing(matrix.words, np.arange(1), full(_ROWS), times, times.copy())


def joins_by_key() -> None:
    """Runs with a key, new ones and those of the buffers, and how they are probed; rows of tables by key."""
    times = np.arange(_ROWS)
    numbers, _ = key_numbers([pa.array(times), pa.array(times)])
    for key in _both(numbers):
        laid_out = build_run(0, _ROWS, times, times, key, {})
        buffered = attach_run(0, _ROWS, _frozen(laid_out.ts), _frozen(laid_out.pos), _frozen(laid_out.key), {})
        for run in (laid_out, buffered):
            probe(run, key, times, times)
            probe_all(run, key, times, times)
            scan_equal(_frozen(times), run.ts, (times, times + 1), key, times, times)
    tree = earliest_births(times)
    counts = count_alive(tree, times, times + 1, times)
    pick_alive(tree, times, times, counts)


def joins_by_value() -> None:
    """Runs without a key: every partner in a period, or those that a compiled condition leaves."""
    times = np.arange(_ROWS)
    begin, end = times, times + 1
    probe(build_run(0, _ROWS, times, times, None, {}), times, begin, end)
    condition = Call("lt", (Column("a.x", DOUBLE), Column("b.x", DOUBLE)), BOOLEAN)
    program = compile_condition(condition, {"a.x": Slot(0, 0), "b.x": Slot(1, 0)})
    assert program is not None, "a comparison of doubles runs as a program"
    values = np.zeros((1, _ROWS))
    for outer in (values, np.asfortranarray(np.zeros((2, _ROWS)))):
        match_ranges(against(program, 1), outer, values, begin, end)
    ValueRanges(condition, times, begin, end, np.ones(_ROWS, np.bool_)).inside(begin, end, slice(None))


def joins_together() -> None:
    """The refinement that distinguishes joins that run as one step."""
    columns = {name: pa.array(np.zeros(_ROWS)) for name in ("a.x", "b.x")}
    moved = Call("add", (Column("b.x", DOUBLE), Literal(1.0, DOUBLE)), DOUBLE)
    found = as_inequality(Call("lt", (Column("a.x", DOUBLE), moved), BOOLEAN))
    assert found is not None, "a comparison with a constant added has a rank"
    RankedInequalities("rank", found[0], [found[1]]).ranks(columns, _ROWS)
    set_bits(full(_ROWS), _ROWS)


def joins_by_hash() -> None:
    """The papers' algorithms that a step may choose by itself."""
    times = np.arange(_ROWS)
    sides = [Side(times, np.ones(_ROWS, np.bool_), times) for _ in range(2)]
    list(parts_of(sides))
    for name in ("hash", "forward_hash"):
        ALGORITHMS[name].run(sides, close(2, [(0, 1, -1, 1)]), None, Counters())


def aggregates() -> None:
    """Trees over answers, of whole numbers and of doubles, three levels high."""
    times = np.arange(2 * FANOUT**2)
    kinds: tuple[Kind, ...] = ("integer", "double")
    for kind in kinds:
        tree = AggregateTree(kind)
        tree.append(times, times)
        tree.answer(1, len(times) - 2)


def slices() -> None:
    """Groups, and every partial aggregate, of whole numbers and of doubles: rows into cells, cells into cells, values."""
    many = pa.table({"n": range(FEW_ROWS), "s": list(map(str, range(FEW_ROWS)))})
    row_difference(many, many)
    number_groups([column.combine_chunks() for column in many.columns], FEW_ROWS)
    times = np.arange(_ROWS)
    sliced = slice_rows(times, times, np.zeros(_ROWS, np.int64), _ROWS)
    for type_ in (BIGINT, DOUBLE):
        whole, gaps = pa.array(times).cast(type_.to_arrow()), pa.array([None, *range(1, _ROWS)], type_.to_arrow())
        for partial in PARTIALS:
            function = min(partial.functions)
            types = next((t for t in ((type_,), (type_, type_), ()) if partial.takes(function, t)), None)
            if types is None:
                continue  # of text or DECIMAL: it has nothing to compile
            made = partial(types)
            if any(kind is object for kind, _ in made.fields().values()):
                continue  # Python objects and no kernels
            for column in (whole, gaps):
                cells = sliced.aggregate(made, [column] * len(types))
            for state in (cells.state, {name: _frozen(values) for name, values in cells.state.items()}):
                total = made.empty(1)
                made.merge(total, np.zeros(len(cells), np.int64), state)
            made.finish(function, total, type_)


def approximations() -> None:
    """Every approximate aggregate: rows into cells, and cells into wider ones."""
    times = np.arange(_ROWS)
    sliced = slice_rows(times, times, np.zeros(_ROWS, np.int64), 1)
    for kind in KINDS:
        bounds = (0.0, 9.0) if kind == ApproxHistogram.name else ()
        made = make_approximate(approximate_name(kind, (1.5, 0.4, *bounds, 0, 0)), (DOUBLE,))
        cells = sliced.aggregate(made, [pa.array(times).cast(pa.float64())])
        coarsened(cells, made)


def mining() -> None:
    """Every function of a series, with both values of its flags, on as many elements as all of them need: answers find it in the server."""
    times = np.arange(8 * _ROWS)
    series = Series(times, times.astype(np.float64), _ROWS, 1)
    sample = Sample(np.stack([times, times % 3, times % 5], axis=1).astype(np.float64), len(times))
    for function in FUNCTIONS.values():
        options = {p.name: p.default if p.default is not None else 2 for p in function.parameters} | {"levels": (2.0,)}
        options["shape"] = (1.0, 2.0)
        others = {p.name: not p.default for p in function.parameters if p.kind == "flag"}
        if function.find is not None:
            seen = [series] if function.by else sample if function.takes == "points" else series
            function.find(seen, options)
            function.find(seen, {**options, **others})


OF_WORKERS = (selections, joins_by_key, joins_by_value, joins_by_hash, joins_together, slices, approximations, ingest)
PARTS: dict[str, Callable[[], None]] = {part.__name__: part for part in (*OF_WORKERS, aggregates, mining)}


def _above(name: str, number: int) -> Call:
    type_ = _TYPES[name]
    value = float(number) if type_ == DOUBLE else number
    return Call("gt", (Column(name, type_), Literal(value, type_)), BOOLEAN)


def _both(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return values, _frozen(values)


def _frozen(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same as a column of Arrow gives it."""
    found: np.ndarray[Any, Any] = pa.array(values).to_numpy()
    return found


if __name__ == "__main__":
    PARTS[sys.argv[1]]()
