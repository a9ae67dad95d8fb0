"""What pages show of the whole server, gathered once for all open pages, never more than once in `EVERY_S`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.answers.latest_readings import Latest
from penstock.catalog.model import QueryDefinition
from penstock.console.sensor_facts import TableFacts, table_facts
from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.server.http.thread_pools import Pool

EVERY_S = 1.0
ALARMS_SHOWN = 50
_ALARM_WORDS = ("alarm", "alert")


@dataclass(frozen=True, slots=True)
class Alarm:
    """The answer of a standing query that has "alarm" or "alert" in its name or description."""

    query: str
    count: int
    rows: tuple[dict[str, Any], ...]  # the newest ones


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The server at one moment."""

    now_us: int
    status: dict[str, Any]
    cycles: list[dict[str, Any]]
    tables: tuple[TableFacts, ...]
    alarms: tuple[Alarm, ...]
    failed: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not self.status["tables"]


class StatusCache:
    """Gathers the status at most once a second. All pages that ask within that second get the same one."""

    def __init__(self, database: Database, pool: Pool) -> None:
        self._database = database
        self._pool = pool
        self.latest = Latest(database.log.folder)
        self._moment: ServerStatus | None = None
        self._taken_s = 0.0
        self._changes, self._included = 0, 0  # what pages have changed, and what of that was gathered
        self._turn = asyncio.Lock()

    async def current(self) -> ServerStatus:
        async with self._turn:
            old = time.monotonic() - self._taken_s >= EVERY_S * 0.9 or self._included < self._changes
            if self._moment is None or old:
                changes = self._changes  # one that comes meanwhile may be missing
                self._moment = await self._pool.run(self._gather)
                self._taken_s, self._included = time.monotonic(), changes
            return self._moment

    def expire(self) -> None:
        """Gather anew at the next request, because a page has changed something."""
        self._changes += 1

    def _gather(self) -> ServerStatus:
        database = self._database
        self.latest.forget(database.catalog.state.tables_by_id)
        tables = tuple(table_facts(database, self.latest, table) for table in database.sensor_tables())
        return ServerStatus(
            now_us=database.clock.now_us(),
            status=database.status(),
            cycles=database.costs.cycles(),
            tables=tables,
            alarms=tuple(self._alarms()),
            failed=tuple(self._failed()),
        )

    def _alarms(self) -> list[Alarm]:
        """Queries with "alarm" or "alert" in their name or description, and what they say now."""
        found = []
        for definition in list(self._database.catalog.state.queries.values()):
            if definition.paused or not is_alarm(definition.name, definition.description):
                continue
            try:
                seen = look_at(self._database, definition, ALARMS_SHOWN)
            except PenstockError:
                continue  # it fails, which `failed` says, or was dropped a moment ago
            if seen is not None:
                # Answers come oldest first.
                found.append(Alarm(definition.name, seen.count, tuple(reversed(seen.rows.to_pylist()))))
        return found

    def _failed(self) -> list[str]:
        with self._database.standing.locked() as store:
            failed = [q for q, answer in store.answers.items() if answer.error is not None]
            known = store.state.queries_by_id
        return sorted(known[q].name for q in failed if q in known)


def is_alarm(name: str, description: str | None) -> bool:
    text = f"{name} {description or ''}".lower()
    return any(word in text for word in _ALARM_WORDS)


@dataclass(frozen=True, slots=True)
class AnswerPreview:
    """The newest `rows` of `count`, as of a cycle."""

    rows: pa.Table
    count: int
    cycle: int
    now_us: int | None


def look_at(database: Database, definition: QueryDefinition, newest: int) -> AnswerPreview | None:
    """The newest rows of a query's answer; None where there is no answer yet, or not now.

    A preview is not a use of the query: how the answer is stored stays as it is, and a large one costs no more than
    the rows that are shown.
    """
    if definition.paused:
        return None
    if not database.standing.store.knows(definition.id) or not database.standing.is_ready(definition.name, 0.0):
        return None
    held = database.standing.held(definition.name, asked=False)
    ids = held.inside()
    return AnswerPreview(held.rows(ids[max(0, len(ids) - newest) :]), len(ids), held.stands_for, held.now_us)
