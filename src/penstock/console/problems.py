"""Everything that goes wrong, for the system page: the pipeline, queries, sensors, and what was refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from penstock.console.status_cache import ServerStatus
from penstock.console.widgets.data_table import counted
from penstock.database.database import Database

NAMED = 3  # of sensors with the same trouble; more are counted


def list_problems(database: Database, moment: ServerStatus) -> list[dict[str, Any]]:
    """A row each, the same trouble of several sensors together."""
    found = [*_pipeline(database), *_queries(database), *_sensors(database, moment), *_refusals(moment)]
    return [{"id": i, "where": where, "what": what, **counted("count", n)} for i, (where, what, n) in enumerate(found)]


def _pipeline(database: Database) -> Iterator[tuple[str, str, int]]:
    if database.engine.failure:
        yield "pipeline", database.engine.failure, database.engine.restarts


def _queries(database: Database) -> Iterator[tuple[str, str, int]]:
    with database.standing.locked() as store:
        known = store.state.queries_by_id
        failed = [(known[q].name, a.error) for q, a in store.answers.items() if a.error is not None and q in known]
    for name, text in failed:
        yield f"query {name}", text, 1


def _sensors(database: Database, moment: ServerStatus) -> Iterator[tuple[str, str, int]]:
    names = {table.name: {s.sid: s.name for s in table.sensors} for table in moment.tables}
    for table in database.sensor_tables():
        same: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for state in database.observer.manager.states(table.id):
            if state.last_error is not None:
                same[state.last_error].append((state.sid, state.errors))
        for text, sensors in same.items():
            known = [names.get(table.name, {}).get(sid, f"number {sid}") for sid, _ in sensors]
            yield f"{_called(known)} of {table.name}", text, sum(errors for _, errors in sensors)


def _called(sensors: list[str]) -> str:
    if len(sensors) == 1:
        return f"sensor {sensors[0]}"
    shown = sensors if len(sensors) <= NAMED else [*sensors[: NAMED - 1], f"{len(sensors) - NAMED + 1} others"]
    return f"sensors {', '.join(shown[:-1])} and {shown[-1]}"


def _refusals(moment: ServerStatus) -> Iterator[tuple[str, str, int]]:
    for name, counts in moment.status["streams"].items():
        for condition, count in counts["refused"].items():
            yield f"readings of {name}", f"refused: {condition}", count
