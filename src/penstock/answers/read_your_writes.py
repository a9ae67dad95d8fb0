"""Read your writes: a question waits, for a limited time, until a committed cycle includes the client's last write."""

from __future__ import annotations

from penstock.catalog.catalog import Catalog
from penstock.catalog.model import QueryDefinition
from penstock.errors import error
from penstock.streams.log.stream_log import StreamLog
from penstock.views.standing_queries import StandingQueries


class ReadYourWrites:
    """Waits until the answers include what a client has written; a base of `Database`."""

    log: StreamLog
    catalog: Catalog
    standing: StandingQueries

    def wait_for_own_writes(self) -> None:
        """Until what this client wrote before is committed, so that it can read it. Bounded."""
        heads, journal = self.log.heads(), self.catalog.state.position

        def covered() -> bool:
            offset = self.standing.store.offset
            return (
                offset is not None
                and offset.journal >= journal
                and all(offset.data.get(t, 0) >= h for t, h in heads.items() if t in self.catalog.state.tables_by_id)
            )

        self.standing.feed.wait(covered, self.standing.intervals.own_writes_s)

    def wait_for_query(self, definition: QueryDefinition) -> None:
        """Wait for the first cycle that includes a query: from then on it can be read."""
        known = self.catalog.state.query_positions.get(definition.id)
        if known is None:
            raise error("query_not_found", query=definition.name, hint="it was dropped")
        standing = self.standing
        standing.feed.wait(lambda: standing.store.state.position >= known[1], standing.intervals.own_writes_s)
        if definition.id not in self.standing.store.state.queries_by_id:
            raise error(
                "not_ready",
                detail=f'query "{definition.name}" is registered; the next cycle takes it in',
                hint="ask again in a moment",
            )
