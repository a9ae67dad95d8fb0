"""The papers' algorithms over the pipeline's buffers: rows of all runs that matter, in time order, as sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.expr.conditions import cheap_and_costly, true_rows
from penstock.expr.evaluate import Functions
from penstock.expr.expression import Call, Column, Expr
from penstock.operators.join.kernels.bounds import Bounds
from penstock.operators.join.kernels.combinations import Combinations, blocks
from penstock.operators.join.kernels.run_cache import RunCache
from penstock.operators.join.kernels.runs import Run
from penstock.operators.join.kernels.scan import Programs, doubles
from penstock.operators.join.kernels.step import BLOCK, Join, RunRows
from penstock.operators.join.papers.conditions import Conditions
from penstock.operators.join.papers.registry import Algorithm
from penstock.operators.join.papers.sides import Counters, Side
from penstock.types import BOOLEAN, INT


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
    bags, linked = _ranked(join, bags)
    given = (*join.conditions, *linked)
    programs = Programs(join.aliases, given)
    sides = [
        _side(bag, r.start, programs.columns(stream)) for stream, (bag, r) in enumerate(zip(bags, rows, strict=True))
    ]
    compiled = [c for c in given if programs.covers(c)]
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
    cheap, costly = cheap_and_costly([c for c in given if c not in compiled])
    for block in blocks(whole, BLOCK):
        for condition in (*cheap, costly):
            mask = true_rows(condition, block.evaluable(join.aliases), len(block), functions)
            block = block.take(np.flatnonzero(mask))
        if len(block):
            yield block


def _ranked(join: Join, bags: Sequence[Run]) -> tuple[list[Run], list[Expr]]:
    """The bags with the keys that some streams share as small numbers, which doubles hold, and the equalities between them."""
    columns = [dict(bag.columns) for bag in bags]
    conditions: list[Expr] = []
    for link in join.links:
        places = [(stream, name) for stream, name in enumerate(link.columns) if name is not None]
        numbers = [columns[stream][name].to_numpy() for stream, name in places]
        _, ranks = np.unique(np.concatenate(numbers), return_inverse=True)
        edges = np.cumsum([len(each) for each in numbers])
        for (stream, name), own in zip(places, np.split(ranks.astype(np.int32), edges[:-1]), strict=True):
            columns[stream][name] = pa.array(own)
        shared = [Column(f"{join.aliases[stream]}.{name}", INT) for stream, name in places]
        conditions += [Call("eq", pair, BOOLEAN) for pair in pairwise(shared)]
    # Other columns need other caches.
    ranked = [replace(bag, columns=own, cache=RunCache()) for bag, own in zip(bags, columns, strict=True)]
    return ranked, conditions


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
