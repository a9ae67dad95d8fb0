"""The load of the cycle: how much of the server's time rows take, against the limit, as the last cycles show it.

The time of a cycle is fitted as T = a + b n, where n is the rows that it reads. At r rows per second a cycle lasts a / (1 - b r),
so the load is b r. At a steady rate all cycles have about the same n, and their times say little of b. So the last cycles of
every size count: of 1 000 to 2 000 rows, of 2 000 to 4 000, and so on. Soft state: it is measured again after a restart.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.answers.costs import rows_read
from penstock.answers.units import Decayed, UnitKey, Units, Work, new_units
from penstock.catalog.model import Table
from penstock.catalog.state import CatalogState
from penstock.cycle.commits import CommitRecord
from penstock.errors import error
from penstock.operators.join.kernels.choice import INSERT_NS
from penstock.operators.select.strategy_costs import RowCost
from penstock.settings import Settings
from penstock.sql.plan import Plan

Floats = npt.NDArray[np.float64]

CYCLES_PER_SIZE = 16
CYCLES_NEEDED = 8
CYCLES_REMEMBERED = 1000
"""A cycle counts no longer after so many others: queries have come and gone."""
DELAYS_KEPT = 20
SHOWN_S = 900
PRIOR_SPREAD = 0.05
"""What workers measured counts for the slope as much as cycles whose rows differ by a twentieth of their mean."""
PROMISED_S = 10.0
"""So long a new unit counts by its estimate; then cycles have measured it."""
ADMISSIONS = ("notice", "refuse")
EXPECTED_NS: dict[str, float] = {
    "read": 60.0,
    "pass": 5.0,
    "call": 2000.0,
    "slices": 100.0,
    "join": INSERT_NS,
    "spark": 0.0,
}
"""Nanoseconds per row of a unit that was not measured yet. Of a shared pass they are one query's; those of a call are a guess."""


@dataclass(frozen=True, slots=True)
class CycleFit:
    """The time of a cycle in seconds: `base_s` and `row_s` for each row."""

    base_s: float
    row_s: float

    def load(self, rows_per_s: float) -> float:
        return self.row_s * rows_per_s


def fit_cycles(rows: Floats, seconds: Floats, prior_row_s: float) -> CycleFit:
    """Least squares. With rows that hardly differ, the slope is what workers measured, `prior_row_s`."""
    mean_rows, mean_s = float(rows.mean()), float(seconds.mean())
    spread = rows - mean_rows
    weight = len(rows) * (PRIOR_SPREAD * mean_rows) ** 2
    moment = float(spread @ (seconds - mean_s)) + weight * prior_row_s
    row_s = moment / total if (total := float(spread @ spread) + weight) > 0 else prior_row_s
    row_s = min(max(row_s, 0.0), mean_s / mean_rows if mean_rows > 0 else 0.0)
    return CycleFit(float(mean_s - row_s * mean_rows), float(row_s))


@dataclass(frozen=True, slots=True)
class _Cycle:
    rows: int
    tasks_s: float
    between_s: float | None
    tasks: int
    work_s: float  # of a task, by the workers' figures


class _LastCycles:
    """The last cycles of every size. A size goes up to twice the rows of the one below."""

    def __init__(self) -> None:
        self._by_size: dict[int, deque[tuple[int, _Cycle]]] = {}
        self._number = 0

    def append(self, cycle: _Cycle) -> None:
        self._number += 1
        same = self._by_size.setdefault(cycle.rows.bit_length(), deque(maxlen=CYCLES_PER_SIZE))
        same.append((self._number, cycle))

    def __iter__(self) -> Iterator[_Cycle]:
        oldest = self._number - CYCLES_REMEMBERED
        return (cycle for same in self._by_size.values() for number, cycle in same if number > oldest)


def _fit(cycles: Iterable[_Cycle]) -> CycleFit | None:
    known = list(cycles)
    gaps = np.array([c.between_s for c in known if c.between_s is not None])
    if len(known) < CYCLES_NEEDED:
        return None
    # The least gaps have no waiting for rows in them.
    pause_s = float(np.median(gaps[gaps <= 2 * np.quantile(gaps, 0.1)])) if len(gaps) else 0.0
    # Of one task: a cycle of many rows has several, side by side.
    rows = np.array([c.rows / c.tasks for c in known], np.float64)
    seconds = np.array([c.tasks_s + pause_s for c in known])
    measured = sum(c.work_s for c in known) / rows.sum() if rows.sum() else 0.0
    fit = fit_cycles(rows, seconds, measured)
    tasks = sum(c.rows for c in known) / rows.sum() if rows.sum() else 1.0
    return CycleFit(fit.base_s, float(fit.row_s / tasks))


class Load:
    """Follows the committed cycles. The follower writes, any thread reads."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        if settings.admission not in ADMISSIONS:
            detail = f'"{settings.admission}" is not one of {", ".join(ADMISSIONS)}'
            raise error("invalid_option", option="admission", detail=detail)
        self.limit = settings.headroom
        self._refuses = settings.admission == "refuse"
        self._clock = clock
        self._lock = threading.Lock()
        self._units = Units()
        self._spark: dict[int, Decayed] = {}  # seconds of evaluation by query
        self._cycles = _LastCycles()
        self._last_s = 0.0  # the tasks of the last cycle
        self._delays_ms: deque[float] = deque(maxlen=DELAYS_KEPT)
        self._rows: dict[int, Decayed] = {}  # by table
        self._side_by_side = 1.0  # tasks of a cycle
        self._promised: dict[UnitKey, tuple[float, float]] = {}  # load of new units, and until when it counts
        self._past: deque[tuple[int, float | None, float | None]] = deque(maxlen=SHOWN_S)

    def note_cycle(self, record: CommitRecord, work: Work, fold_ms: float) -> None:
        now_s, info = self._clock(), record.info
        tasks, ms = max(1, info.get("tasks", 1)), info.get("ms")
        between_ms = info.get("between_ms")
        with self._lock:
            self._units.note(work, now_s)
            for table_id, end in record.end.data.items():
                self._rows.setdefault(table_id, Decayed()).add(end - record.start.data.get(table_id, 0), now_s)
            for table_id in self._rows.keys() - record.end.data.keys():
                del self._rows[table_id]
            if ms is None:
                return
            # A reading waits for the cycle that runs when it comes, and for its own.
            self._delays_ms.append(1000 * self._last_s + (between_ms or 0.0) + ms + fold_ms)
            self._last_s = ms / 1000
            whole = record.start.late is None and record.end.late is None
            if whole and not record.end.filling and not record.start.filling:  # others read other rows, too
                if rows_read(record):
                    self._side_by_side += 0.1 * (tasks - self._side_by_side)
                work_s = sum(ns for _, _, ns in work.units.values()) / tasks / 1e9
                between_s = None if between_ms is None else between_ms / 1000
                self._cycles.append(_Cycle(rows_read(record), ms / 1000, between_s, tasks, work_s))
            second = record.end.now_us // 1_000_000
            if not self._past or second > self._past[-1][0] // 1_000_000:
                found = self._figures(now_s)
                self._past.append((record.end.now_us, found["load"], found["delay_ms"]))

    def note_evaluation(self, query_id: int, seconds: float) -> None:
        """Spark SQL has evaluated a query, beside the cycles."""
        with self._lock:
            self._spark.setdefault(query_id, Decayed()).add(seconds, self._clock())

    def figures(self) -> dict[str, Any]:
        """Load and limit, the fit behind the load, rows per second and delay; None for what is not known yet."""
        with self._lock:
            return self._figures(self._clock())

    def _figures(self, now_s: float) -> dict[str, Any]:
        fit, rate = _fit(self._cycles), sum(rows.per_s(now_s) for rows in self._rows.values())
        delays = sorted(self._delays_ms)
        return {
            "load": None if fit is None else fit.load(rate),
            "limit": self.limit,
            "base_ms": None if fit is None else fit.base_s * 1000,
            "row_us": None if fit is None else fit.row_s * 1e6,
            "rows_per_s": rate,
            "delay_ms": delays[int(0.95 * (len(delays) - 1))] if delays else None,
        }

    def fit(self) -> CycleFit | None:
        with self._lock:
            return _fit(self._cycles)

    def past(self) -> list[tuple[int, float | None, float | None]]:
        """About one a second over 15 minutes: NOW of a cycle, load, delay in milliseconds."""
        with self._lock:
            return list(self._past)

    # -- units

    def units(self, users: Mapping[UnitKey, list[int]], state: CatalogState) -> list[dict[str, Any]]:
        """One record per unit that some query uses, the greatest load first."""
        with self._lock:
            now_s = self._clock()
            found = []
            for key, known in self._units.known.items():
                kind, table_id, _ = key
                table = state.tables_by_id.get(table_id)
                queries = known.queries if kind == "join" else users.get(key, _of_kind(users, key))
                names = [state.queries_by_id[q].name for q in queries if q in state.queries_by_id]
                if not names or (kind != "join" and table is None):
                    continue
                rate = known.rate.per_s(now_s)
                found.append(
                    {
                        "unit": _called(key, table, names),
                        "kind": kind,
                        "queries": _listed(names),
                        "ns_per_row": known.ns_per_row,
                        "selectivity": known.selectivity,
                        "rows_per_s": rate,
                        "load": self._load_of(known.ns_per_row, rate),
                    }
                )
            for query_id, spent in self._spark.items():
                if (query := state.queries_by_id.get(query_id)) is not None:
                    unknown = dict.fromkeys(("ns_per_row", "selectivity", "rows_per_s"))
                    about = {"unit": query.name, "kind": "spark", "queries": query.name, **unknown}
                    found.append({**about, "load": spent.per_s(now_s)})
        return sorted(found, key=lambda unit: -unit["load"])

    def _load_of(self, ns_per_row: float, rows_per_s: float) -> float:
        return ns_per_row * rows_per_s / 1e9 / self._side_by_side

    # -- admission

    def added_by(
        self, plan: Plan, functions: Iterable[str], users: Mapping[UnitKey, list[int]], state: CatalogState
    ) -> dict[UnitKey, float]:
        """The load that a new query adds, by unit: of units that no other query uses, and of its part in a shared pass."""
        added: dict[UnitKey, float] = {}
        with self._lock:
            now_s = self._clock()
            for key in new_units(plan, functions):
                table = state.tables_by_id.get(key[1])
                if table is None or (key[0] != "pass" and key in users):
                    continue
                added[key] = self._load_of(self._expected_ns(key, users), self._expected_rate(table, state, now_s))
        return added

    def _expected_ns(self, key: UnitKey, users: Mapping[UnitKey, list[int]]) -> float:
        known = self._units.known.get(key)
        if known is None:
            return EXPECTED_NS[key[0]]
        sharing = len(users.get(key, ())) if key[0] == "pass" else 1
        return known.ns_per_row / max(1, sharing)

    def row_cost(self, table_id: int, users: Mapping[UnitKey, list[int]]) -> RowCost:
        """What a row of a table takes for one selection, in the shared pass and on demand."""
        read, shared = ("read", table_id, ""), ("pass", table_id, "")
        with self._lock:
            known, match_ns = self._units.known.get(shared), self._expected_ns(shared, users)
            # A selection takes less in a pass with thousands of others than by itself.
            evaluate_ns = self._expected_ns(read, users) + max(match_ns, EXPECTED_NS["pass"])
            return RowCost(evaluate_ns, match_ns, known.rows_per_cycle if known is not None else 0.0)

    def _expected_rate(self, table: Table, state: CatalogState, now_s: float) -> float:
        """Rows per second that come, or that the sensors will send once they are open."""
        rate = self._rows[table.id].per_s(now_s) if table.id in self._rows else 0.0
        stated = table.stream.options.get("rate") if table.stream is not None else None
        if rate > 0 or stated is None:
            return rate
        try:
            return float(stated) * int(state.rows(table.id).current().num_rows)
        except ValueError:
            return 0.0

    def admit(
        self,
        name: str,
        plan: Plan,
        functions: Iterable[str],
        users: Mapping[UnitKey, list[int]],
        state: CatalogState,
    ) -> str | None:
        """The notice for a query that takes the load above the limit; raises `over_budget` where such are refused."""
        added = self.added_by(plan, functions, users, state)
        with self._lock:
            now_s = self._clock()
            self._promised = {key: found for key, found in self._promised.items() if found[1] > now_s}
            fit, rate = _fit(self._cycles), sum(rows.per_s(now_s) for rows in self._rows.values())
            before = (fit.load(rate) if fit is not None else 0.0) + sum(load for load, _ in self._promised.values())
            new = sum(load for key, load in added.items() if key not in self._promised or key[0] == "pass")
            if before + new <= self.limit or not new:
                self._promise(added, now_s)
                return None
            detail = (
                f'query "{name}" takes the load from {before:.2f} to {before + new:.2f}, above the limit {self.limit:g}'
            )
            if self._refuses:
                hint = "see penstock.units, drop a query, or raise headroom"
                raise error("over_budget", detail=detail, hint=hint)
            self._promise(added, now_s)
            return f"{detail}; cycles will take longer"

    def _promise(self, added: Mapping[UnitKey, float], now_s: float) -> None:
        for key, load in added.items():
            before = self._promised[key][0] if key[0] == "pass" and key in self._promised else 0.0
            self._promised[key] = (before + load, now_s + PROMISED_S)


def _of_kind(users: Mapping[UnitKey, list[int]], key: UnitKey) -> list[int]:
    """The queries of units that are too small for a name each."""
    kind, table_id, name = key
    return [] if name else [q for (k, t, _), found in users.items() if (k, t) == (kind, table_id) for q in found]


def _called(key: UnitKey, table: Table | None, names: list[str]) -> str:
    kind, _, name = key
    if kind == "join" or table is None:
        return names[0]
    if kind == "slices":
        return f"{table.name} {name[:8]}".rstrip()
    return f"{name} on {table.name}" if name else table.name


NAMES_SHOWN = 10


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more
