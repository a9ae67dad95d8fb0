"""The papers' algorithms over the pipeline's buffers: rows of all runs that matter, in time order, as sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.expr.conditions import cheap_and_costly, true_rows
from penstock.expr.evaluate import Functions
from penstock.expr.expression import Call, Column, Expr
from penstock.operators.join.kernels.bounds import Bounds
from penstock.operators.join.kernels.combinations import Combinations, blocks
from penstock.operators.join.kernels.runs import Run
from penstock.operators.join.kernels.scan import Programs, doubles
from penstock.operators.join.kernels.step import BLOCK, Join, RunRows
from penstock.operators.join.papers.conditions import Conditions
from penstock.operators.join.papers.registry import Algorithm
from penstock.operators.join.papers.sides import Counters, Side
from penstock.types import BIGINT, BOOLEAN


def gathered_step(
    join: Join, rows: Sequence[RunRows], algorithm: Algorithm, bounds: Bounds, functions: Functions, counters: Counters
) -> Iterator[Combinations]:
    """The same combinations as `join_step`, by an algorithm of the papers."""
    fresh = [r.fresh for r in rows if len(r.fresh)]
    if not fresh:
        return
    reach = max(max(row) for row in join.bounds)
    low, high = min(r.min_ts for r in fresh) - reach, max(r.max_ts for r in fresh) + reach
    bags = [_time_ordered([*r.old(low, high), r.fresh]) for r in rows]
    if not all(map(len, bags)):
        return
    programs = Programs(join.aliases, join.conditions)
    sides = [
        _side(bag, r.start, programs.columns(stream)) for stream, (bag, r) in enumerate(zip(bags, rows, strict=True))
    ]
    compiled = [c for c in join.conditions if programs.covers(c)]
    conditions = Conditions(tuple(programs.program(c) for c in compiled))
    chosen = algorithm.run(sides, bounds, conditions, counters)
    whole = Combinations(
        {s: bag.pos[chosen[s]] for s, bag in enumerate(bags)},
        {s: bag.ts[chosen[s]] for s, bag in enumerate(bags)},
        np.empty(0, np.int64),
        {
            f"{alias}.{name}": column.take(pa.array(chosen[s]))
            for s, (alias, bag) in enumerate(zip(join.aliases, bags, strict=True))
            for name, column in bag.columns.items()
        },
    )
    cheap, costly = cheap_and_costly([*_linked(join), *(c for c in join.conditions if c not in compiled)])
    for block in blocks(whole, BLOCK):
        for condition in (*cheap, costly):
            mask = true_rows(condition, block.evaluable(join.aliases), len(block), functions)
            block = block.take(np.flatnonzero(mask))
        if len(block):
            yield block


def _linked(join: Join) -> Iterator[Expr]:
    """The equalities of some of the streams as conditions on the numbers that they are looked up by."""
    for link in join.links:
        numbers = [
            Column(f"{alias}.{column}", BIGINT)
            for alias, column in zip(join.aliases, link.columns, strict=True)
            if column is not None
        ]
        yield from (Call("eq", pair, BOOLEAN) for pair in pairwise(numbers))


def _time_ordered(runs: Sequence[Run]) -> Run:
    """All rows of the runs by (ts, position)."""
    ts, pos = np.concatenate([r.ts for r in runs]), np.concatenate([r.pos for r in runs])
    order = np.lexsort((pos, ts))
    some = [r for r in runs if len(r)] or runs[:1]
    index = pa.array(order)
    names = some[0].columns.keys()
    columns = {n: pa.concat_arrays([r.columns[n] for r in some]).take(index) for n in names}
    keyed = any(len(r.key) for r in some)
    key = np.concatenate([r.key for r in some])[order] if keyed else np.empty(0, np.int64)
    return Run(runs[0].first, runs[-1].end, ts[order], pos[order], key, columns)


def _side(bag: Run, start: int, names: Sequence[str]) -> Side:
    values, known = doubles(bag, names)
    valid = None
    if any(k is not None for k in known):
        valid = np.array([np.ones(len(bag), np.bool_) if k is None else k for k in known])
    keyed = len(bag.key) == len(bag) and len(bag) > 0
    return Side(bag.ts, bag.pos >= start, bag.key if keyed else None, values if names else None, valid)
