"""Notices of answers, lines of EXPLAIN and rows of system tables about rollups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.catalog.rollup_records import RollupDefinition, RollupState, Tier
from penstock.catalog.state import CatalogState
from penstock.clock import format_timestamp
from penstock.operators.aggregate.rollups.cells import shape_of
from penstock.operators.aggregate.rollups.rollup_read import RollupRange, RollupSource, find_match, why_not
from penstock.operators.aggregate.shape import Measure
from penstock.sql.explain.notation import show, show_conditions
from penstock.sql.plan import AggregatePlan
from penstock.types import format_duration


@dataclass(frozen=True, slots=True)
class RolledUpNote:
    """The notice of an answer that could use a rollup: the time from which it is complete, and the tiers that it used.

    `window_us` is what the answer is about, where cells of the rollup are in it.
    """

    kept_from_us: int | None
    notices: tuple[str, ...] = ()
    window_us: tuple[int, int] | None = None


def note_of(source: RollupSource, look: RollupRange | None, low: int, high: int) -> RolledUpNote:
    """The note of an answer; `low` and `high` are the requested window."""
    if look is None:
        return RolledUpNote(source.kept_from_us)
    name = source.match.rollup.name
    notices = [
        f'rolled up: {_time(u.from_us)} to {_time(u.to_us)} is from "{name}", every {format_duration(u.every_us)}'
        for u in look.used
    ]
    kept = [us for us in (source.kept_from_us, look.low if look.low > low else None) if us is not None]
    if look.low > low:
        notices.append(f"rolled up: the window begins at {_time(look.low)}, because no cell is cut")
    if look.high < high:
        notices.append(f"rolled up: the window ends at {_time(look.high)}, because no cell is cut")
    return RolledUpNote(max(kept, default=None), tuple(notices), (look.low, look.high))


def together(notes: list[RolledUpNote]) -> RolledUpNote | None:
    """Merge the notes of several reads of the same rollup, without repeats."""
    if not notes:
        return None
    known = [note.kept_from_us for note in notes if note.kept_from_us is not None]
    notices = dict.fromkeys(notice for note in notes for notice in note.notices)
    return RolledUpNote(max(known, default=None), tuple(notices))


def plan_lines(plan: AggregatePlan, state: CatalogState) -> list[str]:
    """For EXPLAIN of a question: which rollup it would use for what the log has no more, or why none."""
    rollups = state.rollups_of(plan.table_id)
    found = find_match(plan, state)
    if found is None:
        return [
            f'  rollup "{rollup.name}" is not used: {why_not(rollup, plan) or "the question knows the log alone"}'
            for rollup in rollups
        ]
    rolled = state.rolled_up(found.rollup.id)
    lines = [f'  before the log begins: rollup "{found.rollup.name}", {_tiers(found.rollup)}']
    lines += [f"    {line}" for line in _held(found.rollup, rolled)] if rolled is not None else []
    return lines


def rollup_lines(rollup: RollupDefinition, rolled: RollupState, failure: str | None) -> list[str]:
    """For EXPLAIN of a rollup by name."""
    shape = shape_of(rollup)
    family = shape.family
    return [
        f'rollup of the stream of "{rollup.table}": readings that retention takes are kept as cells',
        f"  tiers: {_tiers(rollup)}",
        *(f"  {line}" for line in show_conditions(family.static_predicate, family.stream_predicate)),
        "  groups: " + (", ".join(show(key) for key in family.keys) or "one"),
        "  partials: " + ", ".join(map(_show_measure, shape.measures[1:])),
        f"  holds every reading below log position {rolled.position}"
        + (f", from {rollup.begin} on" * bool(rollup.begin)),
        *(f"  {line}" for line in _held(rollup, rolled)),
        *([f"  retention waits for it: {failure}"] if failure is not None else []),
    ]


def _show_measure(measure: Measure) -> str:
    """`total(kw)`, or with the parameters of an approximate one: `approx_distinct(id) epsilon=0.05`."""
    kind, *said = measure.partial.split(" ")
    special = [each for each in said if each.startswith(("epsilon=", "p="))]
    return " ".join([f"{kind}({', '.join(map(show, measure.arguments)) or '*'})", *special])


def _held(rollup: RollupDefinition, rolled: RollupState) -> list[str]:
    lines = []
    for tier in rollup.tiers:
        files = [file for file in rolled.files if file.every_us == tier.every_us]
        if files:
            first, last = min(f.first_us for f in files), max(f.last_us for f in files)
            lines.append(
                f"every {format_duration(tier.every_us)}: readings from {_time(first)} to {_time(last)},"
                f" {sum(f.cells for f in files)} cells in {len(files)} files"
            )
    return lines or ["nothing yet: the log has everything"]


def rollup_rows(state: CatalogState, failures: Mapping[int, str]) -> list[dict[str, Any]]:
    """penstock.rollups: one row per tier."""
    rows = []
    for rollup in sorted(state.rollups.values(), key=lambda r: r.name):
        rolled = state.rolled_up(rollup.id)
        for tier in rollup.tiers:
            files = [f for f in rolled.files if f.every_us == tier.every_us] if rolled is not None else []
            rows.append(
                {
                    "name": rollup.name,
                    "table_name": rollup.table,
                    "every": format_duration(tier.every_us),
                    "keep": _keep(tier),
                    "oldest": min((f.first_us for f in files), default=None),
                    "newest": max((f.last_us for f in files), default=None),
                    "readings": sum(f.readings for f in files),
                    "cells": sum(f.cells for f in files),
                    "files": len(files),
                    "bytes": sum(f.bytes for f in files),
                    "error": failures.get(rollup.id),
                    "sql": rollup.sql,
                }
            )
    return rows


def _tiers(rollup: RollupDefinition) -> str:
    return ", ".join(f"every {format_duration(t.every_us)} kept {_kept(t)}" for t in rollup.tiers)


def _kept(tier: Tier) -> str:
    return "for ever" if tier.keep_us is None else f"for {_keep(tier)}"


def _keep(tier: Tier) -> str:
    return "for ever" if tier.keep_us is None else format_duration(tier.keep_us)


def _time(us: int) -> str:
    """A time as people write it: without a fraction where there is none."""
    return format_timestamp(us).replace(".000000Z", "Z")
