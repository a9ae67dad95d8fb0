"""Rows of window joins as Spark SQL reads them: the core below a query, or a join query that another one reads."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias
from weakref import finalize

import numpy as np
import pyarrow as pa

from penstock.catalog.histories import journal_of
from penstock.catalog.state import CatalogState
from penstock.errors import error, expect
from penstock.operators.base.answer import Ids
from penstock.operators.join.answer import JoinAt
from penstock.operators.join.view import own_join, read_join
from penstock.pipeline.history import InputFiles, write_handed
from penstock.pipeline.spark_sql import Moment
from penstock.sql.binding.window_joins import read_outputs
from penstock.sql.plan import AggregatePlan, JoinPlan, SparkPlan, plan_from_json
from penstock.sql.plan.output import schema_of
from penstock.types import BIGINT, Field
from penstock.views.standing_queries import StandingQueries

# Up to so many rows go from the server's memory to Spark's; more are written to files.
IN_MEMORY_ROWS = 200_000
PIECE_ROWS = 1 << 18


class Piece:
    """Some rows in a file, which is deleted with the last reference to the piece."""

    def __init__(self, path: Path, ids: Ids) -> None:
        self.path = path
        self.ids = ids
        finalize(self, path.unlink, missing_ok=True)


def hand_over(
    ids: Ids, before: Sequence[Piece], read: Callable[[Ids], tuple[Ids, pa.Table]], place: Path
) -> tuple[Piece, ...]:
    """The rows of ids in pieces. An earlier piece is used again if all of its rows stay and it is large enough.

    `read` gives rows and their ids in the order of the rows.
    """
    stay = [p for p in before if len(p.ids) >= PIECE_ROWS // 2 and bool(np.isin(p.ids, ids).all())]
    new = ids[~np.isin(ids, np.concatenate([ids[:0], *(p.ids for p in stay)]))]
    return (*stay, *(_write(*read(new[i : i + PIECE_ROWS]), place) for i in range(0, len(new), PIECE_ROWS)))


def _write(ids: Ids, rows: pa.Table, place: Path) -> Piece:
    piece = Piece(place / f"{uuid.uuid4().hex}.arrow", ids)
    try:
        write_handed(piece.path, rows)
    except OSError as failure:
        if failure.errno == errno.ENOSPC:
            raise error("disk_full", hint="free some space there, or ask for fewer rows of the join below") from failure
        raise
    return piece


JOURNAL = "_journal"
# By relation: of which generation of results, and the ids.
Picked: TypeAlias = Mapping[str, tuple[int, Ids]]


@dataclass(frozen=True, slots=True)
class FetchedRows:
    """Rows that were read for one evaluation. Within a generation the same id is the same row for ever."""

    generation: int
    ids: Ids  # in the order of the rows
    table: pa.Table  # where they are too many for memory, none of them: they are in the pieces
    pieces: tuple[Piece, ...] = ()
    fields: tuple[Field, ...] = ()

    def given(self) -> pa.Table | InputFiles:
        """The rows as Spark gets them."""
        return InputFiles(self.fields, tuple(p.path for p in self.pieces)) if self.pieces else self.table

    def have(self, generation: int, ids: Ids) -> bool:
        """Whether these are exactly the rows of some ids."""
        same = self.generation == generation and len(self.ids) == len(ids)
        return same and bool(np.isin(self.ids, ids).all())


@dataclass(frozen=True, slots=True)
class JoinRead:
    """A relation's read of a join: the join's answer, or (`span`) rows by their own time, with that time."""

    held: JoinAt
    span: tuple[int, int] | None = None

    def ids(self) -> Ids:
        return self.held.inside() if self.span is None else self.held.of_times(*self.span)

    def fetch(
        self, ids: Ids, before: FetchedRows | None, state: CatalogState, with_journal: bool, place: Path
    ) -> FetchedRows:
        """The rows of ids; with the journal position of their last tuple, by which ordinary tables are joined.

        Those of the evaluation before are not read again. Too many for memory are written to files at a place.
        """
        held = self.held
        if self.span is not None:
            held = replace(held, plan=replace(held.plan, outputs=read_outputs(held.plan)))

        def read(some: Ids) -> tuple[Ids, pa.Table]:
            ordered = _in_order_of_rows(some)
            rows = held.rows(ordered)
            return ordered, rows.append_column(JOURNAL, _journal(held, ordered, state)) if with_journal else rows

        nothing = FetchedRows(held.results.generation, ids[:0], _schema(held.plan, with_journal).empty_table())
        if before is None or before.generation != held.results.generation:
            before = nothing
        if len(ids) > IN_MEMORY_ROWS:
            pieces = hand_over(ids, before.pieces, read, place)
            known = np.concatenate([p.ids for p in pieces])
            return replace(nothing, ids=known, pieces=pieces, fields=_fields(held.plan, with_journal))
        if before.pieces:
            before = nothing
        stays = np.isin(before.ids, ids)
        new, rows = read(ids[~np.isin(ids, before.ids)])
        stayed = before.table if stays.all() else before.table.filter(pa.array(stays))
        # One chunk again, or the table would grow by one with every evaluation.
        table = pa.concat_tables([stayed, rows]).combine_chunks()
        return FetchedRows(before.generation, np.concatenate([before.ids[stays], new]), table)


def joins_below(plan: SparkPlan, state: CatalogState, name: str) -> dict[str, str]:
    """By relation the query of the join that it reads: the plan's own query, called `name`, or another one."""
    found = {}
    for relation in plan.relations:
        if relation.kind == "core":
            found[relation.name] = name
        elif relation.kind == "query" and _read_join(state, relation.table) is not None:
            found[relation.name] = relation.table
    return found


def _read_join(state: CatalogState, name: str) -> JoinPlan | None:
    definition = state.queries.get(name)
    return plan_from_json(definition.plan).pure_join if definition is not None else None


def read_joins(plan: SparkPlan, moment: Moment, standing: StandingQueries, name: str) -> dict[str, JoinRead]:
    """What an evaluation at the last committed cycle reads of joins. To be called under the lock."""
    reads, log = {}, standing.log_access().for_input()
    for relation, query in joins_below(plan, moment.state, name).items():
        span = moment.ranges.get(relation)
        join = own_join(standing, query, log) if span is None else read_join(standing, query, log)
        reads[relation] = JoinRead(join, span)
    return reads


def pick_rows(reads: Mapping[str, JoinRead], most: int) -> Picked:
    """The ids of every join that is read; over_budget where they are too many to hand over, even in files."""
    picked = {relation: (read.held.results.generation, read.ids()) for relation, read in reads.items()}
    for _, ids in picked.values():
        if len(ids) > most:
            raise error(
                "over_budget",
                detail=f"the join below has {len(ids)} rows, more than {most}",
                hint="narrow its window or its conditions, or raise handed_max_rows",
            )
    return picked


def rests_on_joins(plan: SparkPlan, reads: Mapping[str, JoinRead]) -> bool:
    """Whether the same rows of these joins give the same answer, at any time and as long as no table changes."""
    others = [r for r in plan.relations if r.name not in reads]
    return bool(reads) and all(r.kind in ("ordinary", "static") for r in others) and "{now}" not in plan.sql


def are_same(picked: Picked, before: Mapping[str, FetchedRows]) -> bool:
    """Whether an evaluation would read the same rows as the one before."""
    return picked.keys() == before.keys() and all(before[relation].have(*found) for relation, found in picked.items())


def fetch_rows(
    reads: Mapping[str, JoinRead],
    picked: Picked,
    before: Mapping[str, FetchedRows],
    plan: SparkPlan,
    state: CatalogState,
    place: Path,
) -> dict[str, FetchedRows]:
    """The rows themselves, by relation; those of large joins in files at a place."""
    with_journal = JOURNAL in plan.sql
    return {
        relation: read.fetch(picked[relation][1], before.get(relation), state, with_journal, place)
        for relation, read in reads.items()
    }


def no_rows(plan: SparkPlan, state: CatalogState) -> dict[str, pa.Table]:
    """Empty tables in place of joins' rows and of states: enough for Spark to check a query."""
    found = {}
    for relation in plan.relations:
        join: JoinPlan | None = None
        if relation.kind == "state":
            kept = expect(AggregatePlan, plan_from_json(state.queries[relation.table].plan))
            found[relation.name] = schema_of(kept.outputs).empty_table()
        if relation.kind == "core":
            join = plan.core
        elif relation.kind == "query":
            read = _read_join(state, relation.table)
            join = replace(read, outputs=read_outputs(read)) if read is not None else None
        if join is not None:
            found[relation.name] = _schema(join, JOURNAL in plan.sql).empty_table()
    return found


def _schema(join: JoinPlan, with_journal: bool) -> pa.Schema:
    schema = schema_of(join.outputs)
    return schema.append(pa.field(JOURNAL, pa.int64())) if with_journal else schema


def _fields(join: JoinPlan, with_journal: bool) -> tuple[Field, ...]:
    return (*(Field(o.name, o.type) for o in join.outputs), *([Field(JOURNAL, BIGINT)] if with_journal else []))


def _in_order_of_rows(ids: Ids) -> Ids:
    """Ids in the order of the join's rows: rows without a partner come first, by position."""
    ordered: Ids = np.concatenate([-np.sort(-ids[ids < 0]), np.sort(ids[ids >= 0])])
    return ordered


def _journal(held: JoinAt, ids: Ids, state: CatalogState) -> pa.Array:
    alone, numbers = -1 - ids[ids < 0], ids[ids >= 0]
    latest = np.zeros(len(ids), np.int64)
    for place, positions in enumerate(held.results.pick(numbers).positions(len(held.inputs))):
        known = state.journal_positions(held.inputs[place].table.id)
        latest[len(alone) :] = np.maximum(latest[len(alone) :], journal_of(positions, *known))
        if place == 0:
            latest[: len(alone)] = journal_of(alone, *known)
    return pa.array(latest)
