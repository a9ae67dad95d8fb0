"""Which sensors the standing queries need: the initial scan, run again whenever definitions change."""

from __future__ import annotations

import threading

from penstock.catalog.catalog import Catalog
from penstock.catalog.model import Table
from penstock.clock import Clock
from penstock.operators.sparksql.moments import streams_of
from penstock.sensors.address_rules import AddressRules
from penstock.services import Service
from penstock.settings import Settings
from penstock.sql.plan import plan_from_json
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.sources.manager import StreamManager, surviving
from penstock.streams.sources.sensor_lifecycle import ManagerLimits
from penstock.views.standing_queries import StandingQueries


class Observer:
    """Keeps the stream manager's demands equal to what the running queries ask for."""

    def __init__(
        self,
        catalog: Catalog,
        ingest: Ingest,
        clock: Clock,
        settings: Settings,
        standing: StandingQueries,
        rules: AddressRules,
    ) -> None:
        self._catalog = catalog
        self._standing = standing
        limits = ManagerLimits(queue_max_bytes=settings.queue_max_bytes)
        self.manager = StreamManager(lambda: catalog.state, ingest, catalog.observe, clock, limits, rules)
        self._lock = threading.Lock()
        self._holders: dict[str, tuple[object, ...]] = {}
        self._wake = threading.Event()
        # Opening sensors journals, and journalling calls us: a thread of its own breaks the circle.
        self._service = Service("observer", self._settle_when_woken)
        self._service.start()

    def follow(self) -> None:
        """Request another scan soon, because definitions changed or a query finished."""
        self._wake.set()

    def services(self) -> list[Service]:
        return [self._service, *self.manager.services()]

    def _settle_when_woken(self) -> float | None:
        self._wake.wait()
        self._wake.clear()
        if self._service.stopping:
            return None
        try:
            self.settle()
        except BaseException:
            self._wake.set()  # what it was woken for is still to do
            raise
        return 0.0

    def settle(self) -> None:
        """Make demands fit the definitions as they are now."""
        with self._lock:
            state, finished = self._catalog.state, self._standing.finished
            wanted: dict[str, tuple[object, ...]] = {}
            reached = {name for name, table in state.tables.items() if _is_reached(table)}
            for definition in list(state.queries.values()):
                # Sensors that push are never opened, so ten thousand plans need not be read for them.
                if definition.paused or definition.id in finished or reached.isdisjoint(definition.reads_tables):
                    continue
                for number, (table_id, predicate) in enumerate(streams_of(plan_from_json(definition.plan), state)):
                    table = state.tables_by_id.get(table_id)
                    if table is None or not _is_reached(table):
                        continue
                    holder = f"{definition.id}/{number}"
                    rows = state.rows(table_id)
                    # Every change of rows makes a version or ends a live one.
                    wanted[holder] = (table_id, predicate, rows.count, rows.current().num_rows)
                    if self._holders.get(holder) != wanted[holder]:
                        self.manager.demand(holder, table_id, surviving(predicate, rows))
            for gone in self._holders.keys() - wanted.keys():
                self.manager.release(gone)
            self._holders = wanted
        self.manager.refresh()

    def close(self) -> None:
        self._service.stop()
        self._wake.set()
        self._service.join(5)
        self.manager.close()


def _is_reached(table: Table) -> bool:
    """Whether its sensors are opened, instead of sending by themselves."""
    return table.stream is not None and table.stream.connector is not None
