"""What statements use of the database, and how they reply. `database.database.Database` makes the parts when it starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pyarrow as pa

from penstock.answers.completeness import Completeness
from penstock.answers.costs import Costs, Usage
from penstock.answers.delays import Delays
from penstock.answers.load import Load
from penstock.catalog.catalog import Catalog
from penstock.catalog.model import QueryDefinition, Table
from penstock.clock import Clock
from penstock.cycle.folder import DataFolder
from penstock.damage import DamageReport
from penstock.errors import error, suggest
from penstock.operators.aggregate.rollups.keeper import RollupKeeper
from penstock.operators.aggregate.trees.on_demand import AggregatesOnDemand
from penstock.operators.sparksql.evaluator import Evaluator
from penstock.security.audit import Audit
from penstock.security.users import Users
from penstock.sensors.address_rules import AddressRules
from penstock.settings import Settings
from penstock.sql.planning.shapes import PlanShapes
from penstock.statements.running_statements import RunningStatements
from penstock.streams.log.stream_log import StreamLog
from penstock.views.idle_queries import IdleQueries
from penstock.views.results import Result
from penstock.views.standing_queries import StandingQueries


class Session:
    """The parts of a started database that statements read and change, all of them thread-safe. The base of `Database`."""

    settings: Settings
    clock: Clock
    folder: DataFolder
    address_rules: AddressRules
    users: Users
    audit: Audit
    damage: DamageReport
    statements: RunningStatements
    catalog: Catalog
    log: StreamLog
    standing: StandingQueries
    idle_queries: IdleQueries
    rollups: RollupKeeper
    evaluator: Evaluator
    on_demand: AggregatesOnDemand
    completeness: Completeness
    costs: Costs
    load: Load
    delays: Delays
    usage: Usage
    shapes: PlanShapes
    system_table: Callable[[str], pa.Table]  # the rows of a table penstock.* as they are now

    def definition(self, name: str) -> QueryDefinition:
        """The standing query of that name; raises query_not_found."""
        found = self.catalog.state.queries.get(name)
        if found is None:
            raise error("query_not_found", query=name, hint=suggest(name, self.catalog.state.queries))
        return found

    def catalog_table(self, name: str) -> Table:
        """The table of that name; raises table_not_found."""
        found = self.catalog.state.tables.get(name)
        if found is None:
            raise error("table_not_found", table=name, hint=suggest(name, self.catalog.state.tables))
        return found

    def wait_for_own_writes(self) -> None:
        """Wait, for a limited time, until a committed cycle includes what this client wrote before, so that it can read it."""
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
        """Wait for the first cycle that includes a query: from then on it can be read. Raises not_ready where it does not come."""
        known = self.catalog.state.query_positions.get(definition.id)
        if known is None:
            raise error("query_not_found", query=definition.name, hint="it was dropped")
        standing = self.standing
        standing.feed.wait(lambda: standing.store.state.position >= known[1], standing.intervals.own_writes_s)
        if definition.id not in standing.store.state.queries_by_id:
            detail = f'query "{definition.name}" is registered; the next cycle takes it in'
            hint = "ask again in a moment"
            raise error("not_ready", detail=detail, hint=hint)


def done(tag: str, notices: tuple[str, ...] = ()) -> Result:
    return Result(pa.table({}), done=tag, notices=notices)


def rows_of(columns: tuple[str, ...], rows: Iterable[tuple[str | None, ...]]) -> Result:
    kept = list(rows)
    return Result(pa.table({c: pa.array([row[i] for row in kept], pa.string()) for i, c in enumerate(columns)}))


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that are LIKE a pattern: % is any text, _ any character, a backslash takes the next as it is."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    text = "".join({"%": ".*", "_": "."}.get(p, re.escape(p[-1])) for p in parts)
    like = re.compile(text, re.DOTALL)
    return sorted(name for name in names if like.fullmatch(name))
