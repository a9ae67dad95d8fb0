"""TABLESAMPLE: some of a table's readings, by chance with a seed, or every n-th. Aurora's Drop, the other way round."""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.model import POSITION_COLUMN
from penstock.errors import error
from penstock.functions.samples import PARTS
from penstock.sql.binding.coercion import Coercion
from penstock.sql.binding.context import SelectContext
from penstock.sql.hidden_columns import hidden_column
from penstock.sql.nodes import SampleCondition
from penstock.sql.positions import span_of
from penstock.sql.scope import BoundSource
from penstock.sql.values import constant, typed
from penstock.types import BIGINT, BOOLEAN

MOST_PERIOD = 1_000_000_000
_EXAMPLE = "write FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (7), or TABLESAMPLE PERIODIC (10)"


def sample_conditions(binder: Coercion, context: SelectContext) -> list[exp.Expr]:
    """What WHERE asks of sampled tables. Where a reading stands in the log decides, so every look sees the same ones."""
    return [_condition(binder, source, sample) for source, sample in context.samples]


def _condition(binder: Coercion, source: BoundSource, sample: exp.TableSample) -> exp.Expr:
    if source.kind != "sensors" or source.nullable:
        what = "the optional side of an outer join" if source.nullable else "anything but a sensor table"
        hint = "sample the table in a subquery: FROM (SELECT .. FROM t TABLESAMPLE BERNOULLI (10)) t"
        binder.fail(source.node, error("not_supported", feature=f"TABLESAMPLE of {what}", hint=hint))
    source.needs_stream = True
    place = hidden_column(source, POSITION_COLUMN.name)
    method = sample.args["method"].name.upper() if sample.args.get("method") is not None else "BERNOULLI"
    seed = _seed(binder, source, sample)
    if method == "BERNOULLI":
        percent = _number(binder, source, sample, "percent", 0.0, 100.0)
        return typed(SampleCondition(this=place, seed=str(seed), parts=str(round(percent / 100 * PARTS))), BOOLEAN)
    if method == "PERIODIC":
        key = "percent" if sample.args.get("percent") is not None else "size"
        period = _number(binder, source, sample, key, 1, MOST_PERIOD)
        if period != int(period):
            _refuse(binder, source, sample.args[key], "TABLESAMPLE PERIODIC (n) keeps every n-th reading")
        rest = typed(exp.Mod(this=place, expression=constant(int(period), BIGINT)), BIGINT)
        return typed(exp.EQ(this=rest, expression=constant(seed % int(period), BIGINT)), BOOLEAN)
    failure = error("not_supported", feature=f"TABLESAMPLE {method}", hint=_EXAMPLE)
    binder.fail(source.node, failure)


def _seed(binder: Coercion, source: BoundSource, sample: exp.TableSample) -> int:
    node = sample.args.get("seed")
    if node is None:
        return 0
    text = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    if not text.isdecimal() or int(text) >= 2**63:
        _refuse(binder, source, node, "REPEATABLE takes a whole number")
    return int(text)


def _number(
    binder: Coercion, source: BoundSource, sample: exp.TableSample, key: str, least: float, most: float
) -> float:
    node = sample.args.get(key)
    given = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not least <= value <= most:
        words = "a percentage" if most == 100 else "a number of readings"
        _refuse(binder, source, node, f"TABLESAMPLE takes {words} between {least:g} and {most:,.0f}")
    return value


def _refuse(binder: Coercion, source: BoundSource, node: exp.Expr | None, detail: str) -> None:
    at = node if node is not None and span_of(node) is not None else source.node
    binder.fail(at, error("syntax_error", detail=detail, hint=_EXAMPLE))
