"""A standing query's question as of a past time, as a text of Spark SQL."""

from __future__ import annotations

from penstock.catalog.catalog import Catalog
from penstock.catalog.model import QueryDefinition
from penstock.catalog.system_columns import SYSTEM_TABLES
from penstock.errors import error, expect
from penstock.operators.base.once import Once, span_at
from penstock.operators.sparksql.replan import with_text
from penstock.pipeline.spark_sql import Moment
from penstock.sql.parse import parse_select
from penstock.sql.plan import Plan, SparkPlan, plan_from_json
from penstock.sql.planning.planner import plan_query
from penstock.views.answer_store import AnswerStore

ONCE = Once()  # the evaluator runs the text


def past_text(catalog: Catalog, definition: QueryDefinition, plan: Plan) -> SparkPlan:
    """The whole question. What a kernel keeps is not as of older times."""
    state = catalog.state.frozen()
    if plan.spark is None or plan.kernel is not None:
        plan = plan_query(parse_select(definition.sql), state, True, SYSTEM_TABLES, shared=False, spent=True)
    text = with_text(expect(SparkPlan, plan), definition, state)
    system = next((r.table for r in text.relations if r.kind in ("system", "state")), None)
    if system is not None:
        raise error("not_supported", feature=f'AS OF on "{system}", which has no past')
    read = {r.table for r in text.relations if r.kind == "query" and r.table in state.queries}
    joins = sorted(name for name in read if plan_from_json(state.queries[name].plan).pure_join is not None)
    if joins:
        raise error("not_supported", feature=f'AS OF on a query that reads the window join "{joins[0]}"')
    return text


def past_moment(plan: Plan, store: AnswerStore, start_us: int | None, at_us: int) -> Moment:
    """The last committed cycle with a past time for NOW."""
    assert store.offset is not None
    ranges = {r.name: span_at(r.window, at_us, start_us) for r in plan.relations if r.kind in ("stream", "query")}
    return Moment(store.offset, store.state.frozen(), at_us, ranges, store.start)
