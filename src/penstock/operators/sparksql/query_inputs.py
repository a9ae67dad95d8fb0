"""What the answer of a query by Spark SQL depends on. While it is the same, the last evaluation still stands."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.catalog.model import QueryDefinition
from penstock.sql.plan import SparkPlan
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark


@dataclass(frozen=True, slots=True)
class QueryInputs:
    """The inputs of one query as of one cycle. Two of them are equal if an evaluation would give the same rows.

    `rows` stands for rows and definitions, `times` for the ends of its windows. `moved` is the last cycle that did more
    than bring evaluations.
    """

    rows: tuple[object, ...]
    times: tuple[object, ...]
    moved: int = field(compare=False)

    def is_due_after(self, last: QueryInputs | None) -> bool:
        """Whether the query has to be evaluated again. Time alone counts only with a cycle that brought something."""
        if last is None or self.rows != last.rows:
            return True
        return self.times != last.times and self.moved != last.moved


def inputs_of(
    plan: SparkPlan,
    definition: QueryDefinition,
    store: AnswerStore,
    ranges: Mapping[str, tuple[int, int]],
    joins: Collection[str],
    recent: Sequence[Mark],
) -> QueryInputs:
    """The inputs of a query at the store's last cycle.

    `ranges` are the times of its relations' windows, `joins` the queries of the joins that it reads, `recent` the last cycle and
    the one before.
    """
    assert store.offset is not None
    kinds = {relation.kind for relation in plan.relations}
    tables = {name: store.offset.data.get(store.state.tables[name].id, 0) for name in definition.reads_tables}
    rows: list[object] = [sorted(tables.items()), store.state.query_positions[definition.id]]
    times: list[object] = [sorted(ranges.items())]
    if kinds & {"ordinary", "static", "system"}:
        rows.append(store.offset.journal)
    if kinds & {"system", "state"}:
        rows.append(store.moved)
    if "query" in kinds and store.start is not None:
        # It reads another query's rows of a cycle ago, so it is due once more after its inputs rest.
        rows.append(sorted(store.start.data.items()))
    # The rows of another query's join are read as of the cycle before.
    marks = [mark.joins.get(store.state.queries[name].id) for mark in recent for name in joins]
    rows.append([mark and (mark.generation, mark.count) for mark in marks])
    times.append([mark and mark.now_us for mark in marks])
    return QueryInputs(tuple(rows), tuple(times), store.moved)
