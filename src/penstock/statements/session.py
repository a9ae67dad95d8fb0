"""What statements use of the database. `database.database.Database` is the real one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from penstock.answers.completeness import Completeness
from penstock.answers.costs import Costs, Usage
from penstock.answers.plan_cache import PlanCache
from penstock.catalog.catalog import Catalog
from penstock.catalog.model import QueryDefinition, Table
from penstock.clock import Clock
from penstock.cycle.folder import DataFolder
from penstock.damage import DamageReport
from penstock.operators.aggregate.rollups.keeper import RollupKeeper
from penstock.operators.aggregate.trees.on_demand import AggregatesOnDemand
from penstock.operators.sparksql.evaluation_rows import Evaluation
from penstock.operators.sparksql.evaluator import Evaluator
from penstock.security.audit import Audit
from penstock.security.users import Users
from penstock.sensors.address_rules import AddressRules
from penstock.settings import Settings
from penstock.sql.plan import SparkPlan
from penstock.statements.running_statements import RunningStatements
from penstock.streams.log.stream_log import StreamLog
from penstock.views.standing_queries import StandingQueries


class Session(Protocol):
    """The parts of a started database that statements read and change. All of them are thread-safe."""

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
    rollups: RollupKeeper
    evaluator: Evaluator
    on_demand: AggregatesOnDemand
    once: dict[str, Callable[[SparkPlan], Evaluation]]  # by operator, what answers a question without Spark
    known_questions: PlanCache
    completeness: Completeness
    costs: Costs
    usage: Usage

    def definition(self, name: str) -> QueryDefinition:
        """The standing query of that name; raises query_not_found."""

    def catalog_table(self, name: str) -> Table:
        """The table of that name; raises table_not_found."""

    def system_table(self, name: str) -> pa.Table:
        """The rows of a table penstock.* as they are now."""

    def wait_for_own_writes(self) -> None:
        """Wait, for a limited time, until the answers include what this client wrote before."""

    def wait_for_query(self, definition: QueryDefinition) -> None:
        """Wait for the first cycle that includes a query; raises not_ready where it does not come in time."""
