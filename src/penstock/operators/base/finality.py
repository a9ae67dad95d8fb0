"""What is known of a query before it runs: when its rows are final, and what its state grows with.

A row is final when no later reading and no later statement can remove or change it. That it leaves the window is no change.
An operator's view classifies its plans (`View.classify`). One that says nothing is never final, and its state is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from penstock.catalog.model import Table
from penstock.catalog.state import CatalogState
from penstock.catalog.watermark import allowed_lateness
from penstock.errors import PenstockError, error
from penstock.expr.windows import FOREVER, RowsWindow, TimeWindow, Window
from penstock.operators.base.answer import AnswerAt
from penstock.types import format_duration

Finality = Literal["at once", "later", "never"]
Growth = Literal["bounded", "unbounded", "unknown"]


@dataclass(frozen=True, slots=True)
class Clause:
    """What of a question makes its state grow: the BEGIN of a stream, a key of GROUP BY, or an aggregate, by its place."""

    kind: Literal["begin", "key", "aggregate"]
    place: int = 0


@dataclass(frozen=True, slots=True)
class FinalRows:
    """When rows are final, in a few words. `tables`: those with a watermark that decides, where rows become final later."""

    when: Finality
    reason: str
    tables: tuple[int, ...] = ()
    hint: str | None = None  # what would have rows become final, where none ever is


@dataclass(frozen=True, slots=True)
class StateBound:
    """What the state of a query grows with, in a few words, and which clause makes it grow without end."""

    growth: Growth
    reason: str
    clause: Clause | None = None


@dataclass(frozen=True, slots=True)
class Classification:
    """What the rows of a query are worth, and what its state grows with."""

    final: FinalRows
    state: StateBound


UNKNOWN = Classification(
    FinalRows("never", "its operator does not say when rows are final"),
    StateBound("unknown", "its operator does not say what its state grows with"),
)


def worth_lines(known: Classification) -> list[str]:
    """What EXPLAIN says."""
    return [f"  final: {final_words(known.final)}", f"  state: {known.state.growth}: {known.state.reason}"]


def final_words(final: FinalRows) -> str:
    return final.reason if final.when == "later" else f"{final.when}: {final.reason}"


def final_to(final: FinalRows, held: AnswerAt) -> int | None:
    """The time before which the rows of an answer are final; None where that is not so, or not known."""
    if final.when == "at once":
        return held.now_us
    return held.final_to_us if final.when == "later" else None


def final_by_watermark(reason: str, table_ids: Iterable[int], state: CatalogState) -> FinalRows:
    """Rows that are final once watermarks have passed; never where a table has none."""
    tables = [state.tables_by_id[table_id] for table_id in dict.fromkeys(table_ids) if table_id in state.tables_by_id]
    for table in tables:
        if not _has_watermark(table):
            return FinalRows(
                "never",
                f'a reading of "{table.name}" may come at any later time',
                hint=f"ALTER TABLE {table.name} SET lateness = '1 MINUTE' says how late a reading may come",
            )
    whose = "; ".join(f'"{table.name}": {_lateness(table)}' for table in tables)
    return FinalRows("later", f"{reason} ({whose})", tuple(table.id for table in tables))


def while_kept(final: FinalRows, windows: Iterable[Window], lag_us: int, state: CatalogState) -> FinalRows:
    """The same, or never where rows leave the window or the log before they are final.

    `lag_us`: how much older than the watermark rows are when they become final.
    """
    if final.when != "later":
        return final
    options = [state.tables_by_id[table_id].options for table_id in final.tables]
    needed_us = lag_us + max((allowed_lateness(each) or 0 for each in options), default=0)
    needed = format_duration(needed_us)
    slides = [window for window in windows if isinstance(window, TimeWindow) and window.slides]
    if any(-window.begin.offset_us < needed_us for window in slides):
        return FinalRows("never", "rows leave the window before they are final", hint=f"let it begin at NOW - {needed}")
    if any(each.retention_us is not None and each.retention_us < needed_us for each in options):
        hint = f"keep readings for at least {needed}"
        return FinalRows("never", "retention takes readings before rows are final", hint=hint)
    return final


def _has_watermark(table: Table) -> bool:
    return table.stream is not None and allowed_lateness(table.options) is not None


def _lateness(table: Table) -> str:
    late_us = allowed_lateness(table.options)
    return "its newest reading" if not late_us else f"its newest reading - {format_duration(late_us)}"


def final_inside(window: Window, watermark_us: int | None, high_us: int | None) -> int | None:
    """Before which time rows are final and inside a window, which may end some time before NOW (`high_us`)."""
    if watermark_us is None or not isinstance(window, TimeWindow):
        return None
    ends_before_now = window.end.anchor == "now" and window.end.offset_us < 0
    return min(watermark_us, high_us + 1) if ends_before_now and high_us is not None else watermark_us


def first_begin(window: Window, start_us: int | None) -> int:
    """Where a window that slides began first: nothing older was ever part of an answer."""
    if start_us is None or not isinstance(window, TimeWindow) or not window.slides:
        return -FOREVER
    return window.begin.resolve(start_us, start_us)


def window_bound(window: Window, table: Table | None, place: int = 0) -> StateBound:
    """What a state grows with that holds the readings inside a window; `place`: of the stream in FROM."""
    if isinstance(window, RowsWindow):
        return StateBound("bounded", f"{window.count} readings{' per sensor' if window.per_sensor else ''}")
    if window.slides:
        return StateBound("bounded", "the readings inside the window")
    if window.ends:
        return StateBound("bounded", "the readings up to END")
    if table is not None and table.options.retention_us is not None:
        kept = format_duration(table.options.retention_us)
        return StateBound("bounded", f'the readings that table "{table.name}" keeps for {kept}')
    return StateBound("unbounded", "all readings since BEGIN, which does not move", Clause("begin", place))


def together(bounds: Iterable[StateBound]) -> StateBound:
    """The bound of several states: the first one that is not bounded decides."""
    found = list(bounds)
    worst = [b for growth in ("unbounded", "unknown") for b in found if b.growth == growth]
    if worst:
        return worst[0]
    return StateBound("bounded", "; ".join(dict.fromkeys(b.reason for b in found)) or "nothing")


_BOUNDING = {
    "begin": "let BEGIN move with NOW, give an END, or give the table a retention",
    "key": "group by static columns alone, or use a window instead of LATCH",
    "aggregate": "use an approximate aggregate, or a window instead of LATCH",
}


def check_bounded(state: StateBound) -> None:
    """Raise unbounded_state for a state that may grow without end."""
    if state.growth != "bounded":
        hint = _BOUNDING[state.clause.kind] if state.clause is not None else "leave out bounded"
        raise error("unbounded_state", detail=state.reason, hint=hint)


def check_has_final_rows(query: str, final: FinalRows) -> None:
    """Raise not_supported where no row of a query is ever final."""
    if final.when == "never":
        raise no_final_rows(query, final)


def no_final_rows(query: str, final: FinalRows) -> PenstockError:
    feature = f'FINAL of query "{query}", of which no row is ever final ({final.reason}),'
    return error("not_supported", feature=feature, hint=final.hint)
