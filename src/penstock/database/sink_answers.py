"""The interface through which sinks read the answers of standing queries."""

from __future__ import annotations

from penstock.answers.subscription import Subscription
from penstock.cycle.folder import DataFolder
from penstock.errors import error
from penstock.sinks.base import Place
from penstock.sinks.follower import DeliveryLimits
from penstock.sinks.runner import SinkRunner
from penstock.statements.invoke import subscribe
from penstock.statements.session import Session
from penstock.views.results import Event


class SinkQueries:
    """Gives sinks the answers of standing queries; their reads do not count as invocations."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def subscribe(self, name: str, from_cycle: int | None, changes: bool) -> Subscription:
        return subscribe(self._session, name, from_cycle, changes)

    def answer(self, name: str) -> Event:
        session = self._session
        found = session.standing.invoke(session.definition(name).name)
        if found.cycle is None:
            raise error("not_ready", detail=f'query "{name}" has no answer yet', hint="it comes with a later cycle")
        return Event(found.cycle, found.now_us, found.table)

    def last_cycle(self) -> int:
        last = self._session.standing.feed.last()
        return last.cycle if last is not None else 0


def sink_runner(session: Session) -> SinkRunner:
    """The sinks of a database, not started yet."""
    folder: DataFolder = session.folder
    settings = session.settings
    files = folder.outbox if not settings.sink_files else folder.root / settings.sink_files
    folder_id = folder.read_id()
    return SinkRunner(
        SinkQueries(session),
        folder.sinks,
        lambda sink: Place(sink, folder_id, files, session.clock, session.address_rules),
        DeliveryLimits(max(2, settings.cycles_keep), settings.sink_backlog_mb << 20),
    )
