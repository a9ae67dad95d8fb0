"""How many of a query's sensors send readings: the rows of an answer alone do not show that sensors are missing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.expr.evaluate import evaluate_static
from penstock.sql.plan import StreamUse
from penstock.types import format_duration
from penstock.views.query_state import NEVER
from penstock.views.stream_clocks import StreamClocks


@dataclass(frozen=True, slots=True)
class SensorCoverage:
    """The number of sensors that pass a query's static conditions today, and of those that are silent or have ended."""

    table: str
    sensors: int
    never: int
    silent: int
    ended: int
    idle_us: int

    def __str__(self) -> str:
        parts = [
            (self.never, "without readings"),
            (self.silent, f"silent for more than {format_duration(self.idle_us)}"),
            (self.ended, "ended"),
        ]
        missing = ", ".join(f"{count} {words}" for count, words in parts if count)
        return f'sensors of "{self.table}": {self.sensors}, {missing or "all of them with readings"}'


def hearing_of(nows: StreamClocks, use: StreamUse) -> SensorCoverage | None:
    """As of the last committed cycle; None before the first."""
    table = nows.state.tables_by_id.get(use.table_id)
    if table is None or nows.offset is None:
        return None
    rows = nows.state.rows(table.id)
    current = rows.current()
    chosen = evaluate_static(use.static_predicate, current)
    sids = current.column("_sid").to_numpy()[chosen]
    # A sensor with a changed static row sent readings under another version: its newest cycle counts.
    heard = nows.heard.get(table.id, np.empty(0, np.int64))
    owners = rows.sids[: len(heard)]
    latest = np.full(int(max(sids.max(initial=-1), owners.max(initial=-1))) + 1, NEVER, np.int64)
    np.maximum.at(latest, owners, heard[: len(owners)])
    times = latest[sids]
    ended = np.isin(sids, list(nows.state.ended(table.id)))
    never = ~ended & (times == NEVER)
    silent = ~ended & ~never & (nows.offset.now_us - times > table.options.idle_us)
    counts = [int(mask.sum()) for mask in (never, silent, ended)]
    return SensorCoverage(table.name, len(sids), counts[0], counts[1], counts[2], table.options.idle_us)
