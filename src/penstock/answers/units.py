"""Units of work: the smallest work with a cost of its own. What each takes per row, and which queries use it.

A unit is the read of a table, its shared pass, a user's function on a table, a family of slices, a join or group of joins, or a
query that Spark SQL evaluates. Workers report rows in, rows out and nanoseconds of each unit in the rows of kind `spent`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.windows import TimeWindow
from penstock.operators.aggregate.shape import family_name, family_of
from penstock.sql.plan import KernelPlan, Plan, ScalarSubquery
from penstock.views.answer_store import AnswerStore

UnitKey: TypeAlias = tuple[str, int, str]
"""Kind, table, and name: a function or a family. A join has no table and the number of its first query as its name."""

RATE_S = 5.0
FORGET = 0.7
"""What is left of a cycle's figures after the next one."""
FORGET_AFTER_S = 300.0


@dataclass(slots=True)
class Work:
    """What one cycle reported: by unit the rows in, rows out and nanoseconds; and milliseconds that are certain queries' own."""

    units: dict[UnitKey, list[int]] = field(default_factory=dict)
    joined: dict[UnitKey, set[int]] = field(default_factory=dict)  # the queries of each join unit
    own_ms: list[tuple[list[int], float]] = field(default_factory=list)  # histories and joins

    def add(self, key: UnitKey, rows: int, out: int, ns: int) -> None:
        known = self.units.setdefault(key, [0, 0, 0])
        for place, amount in enumerate((rows, out, ns)):
            known[place] += amount


def reported_work(results: pa.Table) -> Work:
    """What the workers reported in one commit record. Records of earlier versions have no units."""
    work = Work()
    told = results.filter(pc.is_in(results.column("kind"), pa.array(["join_info", "spent"])))
    met: set[tuple[UnitKey, int]] = set()
    columns = (told.column(n).to_pylist() for n in ("query", "kind", "position", "payload"))
    for number, kind, part, payload in zip(*columns, strict=True):
        said = orjson.loads(payload)
        if kind == "join_info":
            work.own_ms.append(([number], said["ms"] / (1 + said.get("shared_with", 0))))
            key = ("join", 0, str(said.get("unit", number)))
            work.joined.setdefault(key, set()).add(number)
            if (key, part) not in met:  # every query of the unit has the same figures
                met.add((key, part))
                out = said.get("combinations", said.get("results", 0))
                work.add(key, said.get("new_rows", 0), out, round(said["ms"] * 1e6))
        elif "queries" in said:
            work.own_ms.append((said["queries"], said["ms"]))
        else:
            for unit, name, *figures in said.get("units", ()):
                work.add((unit, number, name), *figures)
    return work


def units_of_plan(plan: KernelPlan, scalars: Iterable[ScalarSubquery], functions: Iterable[str]) -> Iterator[UnitKey]:
    """The units of rows that a query in the cycle uses; its join, if it is one, is a unit by its query's number."""
    for each in (plan.aggregation, *(scalar.plan.aggregation for scalar in scalars)):
        if each is not None and isinstance(each.window, TimeWindow):
            yield ("read", each.table_id, "")
            yield ("slices", each.table_id, family_name(family_of(each)))
    if plan.selection is not None:
        table_id = plan.selection.table_id
        yield ("read", table_id, "")
        yield ("pass", table_id, "")
        yield from (("call", table_id, name) for name in functions)


def new_units(plan: Plan, functions: Iterable[str]) -> list[UnitKey]:
    """The same for a query that is not registered yet; its join is a unit without a name."""
    kernel = plan.kernel
    if kernel is None:
        return []
    found = list(units_of_plan(kernel, plan.scalars, functions))
    if kernel.window_join is not None:
        found += [("join", use.table_id, "") for use in kernel.uses]
    return found


def users_of_units(store: AnswerStore) -> dict[UnitKey, list[int]]:
    """By unit, the queries that use it in cycles."""
    users: defaultdict[UnitKey, list[int]] = defaultdict(list)
    for query_id, answer in store.answers.items():
        if answer.paused:
            continue
        definition = store.state.queries_by_id.get(query_id)
        functions = definition.reads_functions if definition is not None else ()
        for key in dict.fromkeys(units_of_plan(answer.plan, answer.scalars, functions)):
            users[key].append(query_id)
    return dict(users)


@dataclass(slots=True)
class Decayed:
    """An amount per second that forgets with a time constant of `RATE_S`; what comes first only begins the time."""

    amount: float = 0.0
    at_s: float = 0.0
    since_s: float | None = None

    def add(self, amount: float, now_s: float) -> None:
        if self.since_s is None:
            self.since_s, self.at_s = now_s, now_s
        else:
            self.amount, self.at_s = self._left(now_s) + amount, now_s

    def per_s(self, now_s: float) -> float:
        if self.since_s is None or now_s <= self.since_s:
            return 0.0
        return self._left(now_s) / (RATE_S * (1 - math.exp((self.since_s - now_s) / RATE_S)))

    def _left(self, now_s: float) -> float:
        return self.amount * math.exp(-max(0.0, now_s - self.at_s) / RATE_S)


@dataclass(slots=True)
class UnitAverages:
    """What a unit takes per row and gives per row, by sums that forget a part with every cycle; and how many rows it meets."""

    rate: Decayed = field(default_factory=Decayed)
    queries: tuple[int, ...] = ()  # of joins, which form groups as they run
    _sums: tuple[float, float, float] = (0.0, 0.0, 0.0)  # rows in, rows out, nanoseconds

    def note(self, figures: Sequence[int], now_s: float) -> None:
        kept = (FORGET * known + new for known, new in zip(self._sums, figures, strict=True))
        self._sums = (next(kept), next(kept), next(kept))
        self.rate.add(figures[0], now_s)

    @property
    def ns_per_row(self) -> float:
        return self._sums[2] / self._sums[0]

    @property
    def rows_per_cycle(self) -> float:
        """Of the last cycles; too few until about ten have met rows."""
        return (1 - FORGET) * self._sums[0]

    @property
    def selectivity(self) -> float:
        return self._sums[1] / self._sums[0]


class Units:
    """The averages of all units that were met lately."""

    def __init__(self) -> None:
        self.known: dict[UnitKey, UnitAverages] = {}

    def note(self, work: Work, now_s: float) -> None:
        for key, figures in work.units.items():
            if figures[0] <= 0:
                continue
            known = self.known.setdefault(key, UnitAverages())
            known.note(figures, now_s)
            if key in work.joined:
                known.queries = tuple(sorted(work.joined[key]))
        for key in [k for k, known in self.known.items() if now_s - known.rate.at_s > FORGET_AFTER_S]:
            del self.known[key]


def shared_ms(work: Work, users: Mapping[UnitKey, list[int]]) -> Iterator[tuple[list[int], float]]:
    """Queries that share a time, and the time: histories, joins, functions and slices. Reading and the shared pass belong to all."""
    yield from work.own_ms
    for (kind, table_id, name), (_, _, ns) in work.units.items():
        if kind == "call" or (kind == "slices" and name):
            yield users.get((kind, table_id, name), []), ns / 1e6
        elif kind == "slices":  # several families that take next to nothing each
            of_table = [q for (k, t, _), queries in users.items() if (k, t) == (kind, table_id) for q in queries]
            yield of_table, ns / 1e6
