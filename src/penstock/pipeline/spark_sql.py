"""Run a SparkPlan: Spark SQL over the log, the catalog and the system tables, as of a committed offset.

`run_tasks` runs other work that reads history in Spark's workers: what an answer may not read in the server process.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import orjson
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.cancellation import Cancellation, cancelled_by, current_cancellation
from penstock.catalog.model import Function
from penstock.catalog.state import CatalogState
from penstock.cycle.folder import DataFolder
from penstock.cycle.offset import Offset
from penstock.errors import PenstockError, error
from penstock.expr import expression as expressions
from penstock.expr.user_functions import compile_function
from penstock.expr.windows import FOREVER
from penstock.pipeline.history import HIDDEN_OF_ORDINARY, HIDDEN_OF_STREAM, HistoryRequest, InputFiles
from penstock.pipeline.jobs import (
    LOST,
    adhoc_parallelism,
    history_workers,
    read_parallelism,
    register_function,
    restarting,
    statement_jobs,
)
from penstock.sql.plan import Relation, SparkPlan, plan_from_json
from penstock.sql.spark.text import NOW
from penstock.sql.spark.text_check import check_spark_text, known_functions, refused
from penstock.types import TIMESTAMP, Field

_numbers = itertools.count(1)
_PARSED_KEPT = 256
# Conditions of what a worker raises, by the first word of the message.
_OF_WORKERS = {"function": "function_failed", "segment": "corrupt_segment", "regexp_replace": "over_budget"}


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment of a run: an offset, the catalog there, NOW, and each relation's time range."""

    offset: Offset
    state: CatalogState
    now_us: int
    ranges: Mapping[str, tuple[int, int]]
    # A query that reads another sees its rows one cycle later.
    previous: Offset | None = None


class SparkRunner:
    """Runs plans on one Spark session. Thread-safe: every run has views of its own."""

    def __init__(self, spark: SparkSession, folder: DataFolder, result_max_rows: int) -> None:
        self._spark = spark
        self._folder = folder
        self._max_rows = result_max_rows
        self._registered: dict[str, Function] = {}
        self._parsed: dict[tuple[str, tuple[str, ...], tuple[str, ...]], None] = {}  # what Spark's parser agreed to

    def run(self, plan: SparkPlan, moment: Moment, given: Mapping[str, pa.Table | InputFiles]) -> pa.Table:
        """The answer as an Arrow table with the plan's outputs as columns. `given`: relations as rows, by name."""
        with statement_jobs(self._spark), _translated():
            return self._run(plan, moment, given)

    def _run(self, plan: SparkPlan, moment: Moment, given: Mapping[str, pa.Table | InputFiles]) -> pa.Table:
        relations = tuple(relation.name for relation in plan.relations)
        names = check_spark_text(plan.sql, relations, plan.functions)
        views: dict[str, str] = {}
        try:
            self._register_functions(moment.state)
            for relation in plan.relations:
                view = f"penstock_{relation.name}_{next(_numbers)}"
                self._frame(relation, names, moment, given).createOrReplaceTempView(view)
                views[relation.name] = view
            self._check_parsed(plan.sql, relations, plan.functions)
            result = self._spark.sql(plan.sql, args={NOW: moment.now_us, **views}).limit(self._max_rows + 1).toArrow()
        finally:
            with contextlib.suppress(*LOST):  # with its JVM the views are gone, too
                for view in views.values():
                    self._spark.catalog.dropTempView(view)
        if result.num_rows > self._max_rows:
            hint = "add LIMIT or a narrower window, or raise result_max_rows"
            raise error("over_budget", detail=f"the answer has more than {self._max_rows} rows", hint=hint)
        schema = pa.schema([pa.field(name, type_.to_arrow()) for name, type_ in plan.outputs])
        return result.rename_columns([n for n, _ in plan.outputs]).cast(schema, safe=False)

    def _check_parsed(self, text: str, relations: tuple[str, ...], functions: tuple[str, ...]) -> None:
        """Check a text with Spark's own parser, once for all runs of it."""
        if (text, relations, functions) not in self._parsed:
            check_parsed(self._spark, text, relations, functions)
            while len(self._parsed) >= _PARSED_KEPT:
                self._parsed.pop(next(iter(self._parsed)), None)
            self._parsed[text, relations, functions] = None

    def _register_functions(self, state: CatalogState) -> None:
        for function in state.functions.values():
            if function.state is None and self._registered.get(function.name) != function:
                register_function(self._spark, function.name, _spark_function(function), function.returns)
                self._registered[function.name] = function

    def _frame(
        self, relation: Relation, names: frozenset[str], moment: Moment, given: Mapping[str, pa.Table | InputFiles]
    ) -> DataFrame:
        if relation.name in given:
            rows = given[relation.name]
            if isinstance(rows, InputFiles):
                return self._spark.read.format("penstock_history").options(**rows.options()).load()
            return self._spark.createDataFrame(rows)
        request, columns = self._request(relation, names, moment)
        ddl = ", ".join(c.to_spark() for c in columns)
        reader = self._spark.read.format("penstock_history").option("schema", ddl)
        return reader.option("request", request.to_option()).load()

    def _request(self, relation: Relation, names: frozenset[str], moment: Moment) -> tuple[HistoryRequest, list[Field]]:
        low, high = moment.ranges.get(relation.name, (-FOREVER, FOREVER))
        offset, plan_json = moment.offset, None
        if relation.kind == "query":
            definition = moment.state.queries[relation.table]
            plan = plan_from_json(definition.plan).selection
            if plan is None:
                detail = f'another query "{relation.table}" came while the question was answered'
                raise error("not_ready", detail=detail, hint="ask again")
            table, plan_json = moment.state.tables_by_id[plan.table_id], definition.plan
            outputs = (Field(o.name, o.type) for o in plan.outputs if o.name != "ts")
            columns = [*outputs, Field("ts", TIMESTAMP), *HIDDEN_OF_STREAM]
            # Its rows are those of a cycle ago; definitions may be newer, because versions only ever grow.
            offset = replace(moment.previous or moment.offset, journal=moment.offset.journal)
        else:
            table = moment.state.tables[relation.table]
            shown = table.flat_columns() if relation.kind == "stream" else table.columns
            hidden = HIDDEN_OF_STREAM if relation.kind == "stream" else HIDDEN_OF_ORDINARY
            columns = [*(Field(c.name, c.type) for c in shown), *hidden]
        # Without column pruning in Python sources: leave out what the text does not name.
        used = [c for c in columns if c.name in names] or columns[:1]
        request = HistoryRequest(
            folder=str(self._folder.root),
            kind=relation.kind,
            table=table.name,
            table_id=table.id,
            journal=offset.journal,
            columns=tuple(c.name for c in used),
            first=moment.state.retention(table.id),
            end=offset.data.get(table.id, 0),
            low_us=low,
            high_us=high,
            static_predicate=expressions.to_json(relation.static_predicate) if relation.static_predicate else None,
            query_plan=plan_json,
            parallelism=read_parallelism(self._spark.sparkContext.defaultParallelism),
        )
        return request, used


_compiled: dict[Function, Callable[..., pa.Array]] = {}


def _spark_function(function: Function) -> Callable[..., pa.Array]:
    """A user's function over Arrow columns; compiled in the worker that runs it, once."""

    def call(*columns: pa.Array) -> pa.Array:  # in here, so that a worker need not load this module
        if function not in _compiled:
            _compiled[function] = compile_function(function)
        return _compiled[function](*columns)

    return call


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Errors of Spark inside become ours."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as failure:
        raise translate(failure) from failure
    except LOST as lost:
        raise restarting() from lost


def translate(failure: PySparkException | Py4JJavaError) -> PenstockError:
    """Translate Spark's exception into an error of ours: the first line of its text, with the exception as cause."""
    text = str(failure)
    ours = re.search(r"penstock\.errors\.PenstockError: ([^\n]*)", text)
    if ours:
        # A worker raised it: Spark gives the text of the trace, and in it the message.
        message = ours.group(1).strip()
        if message.startswith("there is no table"):
            return PenstockError("table_not_found", message, hint="it was dropped while the question was answered")
        found = _OF_WORKERS.get(message.split(" ", 1)[0])
        return PenstockError(found or "engine_failed", message)
    if "[SCALAR_SUBQUERY_TOO_MANY_ROWS]" in text:
        detail = "a subquery that stands for one value gives more than one row"
        return error("cardinality_violation", detail=detail, hint="add an aggregate or LIMIT 1 to it")
    if "PYTHON_UDF_IN_ON_CLAUSE" in text:
        feature = (
            "a pattern or a user function over both sides of an outer join, or of a subquery and what is around it,"
        )
        hint = "write an inner join, or compare with starts_with(), ends_with() or contains()"
        return error("not_supported", feature=feature, hint=hint)
    if isinstance(failure, Py4JJavaError):
        # An error inside a job comes as a Java trace; its last cause is the error.
        causes = re.findall(r"^Caused by: [\w.$]+: (.*)$", text, re.MULTILINE)
        text = causes[-1] if causes else "Spark could not run the statement"
    first = next((line for line in text.splitlines() if line.strip()), "Spark could not run the statement")
    first = re.sub(r"^\[[A-Z_.]+\]\s*", "", first)
    first = re.sub(r"\s*SQLSTATE: \w+.*$", "", first)
    if type(failure).__name__ in ("AnalysisException", "ParseException"):
        return PenstockError("not_supported", f"Spark SQL refuses this statement: {first}")
    return error("engine_failed", detail=first)


_CATALYST = "org.apache.spark.sql.catalyst."
# Nodes of a plan that select, combine and name rows. None of them reads, runs or changes anything.
_NODES = frozenset(
    f"{_CATALYST}{package}.{name}"
    for package, names in {
        "plans.logical": (
            "Aggregate Deduplicate Distinct Except Filter GlobalLimit Intersect Join LocalLimit "
            "LocalRelation Offset OneRowRelation Project Sort SubqueryAlias Union "
            "WithWindowDefinition"
        ),
        "analysis": (
            "NamedParameter PlanWithUnresolvedIdentifier UnresolvedAlias UnresolvedAttribute "
            "UnresolvedExtractValue UnresolvedFunction UnresolvedHaving UnresolvedInlineTable "
            "UnresolvedOrdinal UnresolvedStar UnresolvedSubqueryColumnAliases"
        ),
    }.items()
    for name in names.split()
)
_EXPRESSIONS = f"{_CATALYST}expressions."
_BETWEEN = "between"  # Spark parses x BETWEEN a AND b as a call
_FUNCTION = f"{_CATALYST}analysis.UnresolvedFunction"
_RELATION = f"{_CATALYST}analysis.PlanWithUnresolvedIdentifier"
_PARAMETER = f"{_CATALYST}analysis.NamedParameter"


def check_parsed(spark: SparkSession, text: str, relations: tuple[str, ...], functions: tuple[str, ...]) -> None:
    """Raise `spark_text_refused` where the plan that Spark parses is not one query of these relations and functions."""
    check_nodes(parse(spark, text), relations, functions)


def parse(spark: SparkSession, text: str) -> list[Any]:
    """The plan that Spark's parser makes of a text, in JSON."""
    # In a thread without an active session the parser has the settings of none: it would replace ${...}.
    spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
    plan: list[Any] = orjson.loads(spark._jsparkSession.sessionState().sqlParser().parsePlan(text).toJSON())
    return plan


def check_nodes(plan: list[Any], relations: tuple[str, ...], functions: tuple[str, ...]) -> None:
    """The same for a parsed plan as Spark writes it in JSON."""
    own = (function.lower() for function in functions)
    callable_names = {f"[{name}]" for name in (*known_functions(), *own, _BETWEEN)}
    named: set[str] = set()
    for node in nodes_of(plan):
        kind = node["class"]
        if kind == _FUNCTION:
            if node["nameParts"].lower() not in callable_names:
                raise refused(f"it calls {node['nameParts']}")
        elif kind == _RELATION:
            named.update(_named(node["identifierExpr"]))
        elif kind == _PARAMETER:
            if node["name"] not in (NOW, *relations):
                raise refused(f'it has a parameter "{node["name"]}"')
        elif kind not in _NODES and not kind.startswith(_EXPRESSIONS):
            raise refused(f"it has {kind.rsplit('.', 1)[-1]}")
    if named != set(relations):
        raise refused(f"it reads {sorted(named)} instead of {sorted(relations)}")


def nodes_of(found: Any) -> Iterator[dict[str, Any]]:
    """All nodes of a plan in JSON, its expressions and their subqueries included."""
    waiting = [found]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if "class" in item:
                yield item
            waiting.extend(reversed(item.values()))
        elif isinstance(item, list):
            waiting.extend(reversed(item))


def _named(identifier: list[dict[str, Any]]) -> Iterator[str]:
    """The parameter that names a relation; anything else would be a name that the text computes."""
    if len(identifier) != 1 or identifier[0]["class"] != _PARAMETER:
        raise refused("it computes the name of a table")
    yield identifier[0]["name"]


# Answers are asked for by more threads than there are turns for statements.
JOBS_AT_ONCE = 2
_SCHEMA = "place bigint, result binary"
_turns = threading.Semaphore(JOBS_AT_ONCE)


def run_tasks(spark: SparkSession, tasks: Sequence[Callable[[], Any]], timeout_s: int) -> list[Any]:
    """The results of the tasks, each of which runs once in some worker. Without a statement it ends after `timeout_s`."""
    if not tasks:
        return []
    with _turns, ExitStack() as stack:
        if current_cancellation() is None:
            limit = Cancellation(standing=True)
            limit.limit(max(1, timeout_s))
            stack.enter_context(cancelled_by(limit))
        with statement_jobs(spark), _translated():
            # Few at a time, so that cycles find processors.
            workers = min(len(tasks), adhoc_parallelism(spark.sparkContext.defaultParallelism))
            numbers = spark.range(0, len(tasks), 1, workers)
            with history_workers(spark):
                frame = numbers.mapInArrow(partial(_run_some, tuple(tasks)), _SCHEMA)
            found = frame.toArrow()
    results = dict(zip(found.column("place").to_pylist(), found.column("result"), strict=True))
    return [pickle.loads(results[place].as_buffer()) for place in range(len(tasks))]


# Of processes that read history: those of cycles go first.
_NICE = 19


def _run_some(tasks: tuple[Callable[[], Any], ...], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the tasks that a worker gets the numbers of."""
    os.nice(max(0, _NICE - os.nice(0)))
    for batch in batches:
        for place in batch.column(0).to_pylist():
            result = pickle.dumps(tasks[place](), pickle.HIGHEST_PROTOCOL)
            yield pa.RecordBatch.from_arrays([pa.array([place]), pa.array([result])], ["place", "result"])
