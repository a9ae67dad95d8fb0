"""Statements: what one piece of text asks for, as plain records. No name is looked up yet.

Made by `parse.parse_script`; read by `binding`, `definitions`, `row_changes` and by the executor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NoReturn

from sqlglot import exp

from penstock.errors import PenstockError, error
from penstock.security.caller import Role
from penstock.sql.positions import Span, point
from penstock.types import Field, Type

DropKind = Literal["table", "stream_type", "function", "query", "rollup", "sink"]
OnError = Literal["none", "rest"]
NOWHERE = Span(0, 0)


# -- what statements are made of


@dataclass(frozen=True, slots=True)
class StatementOption:
    """`name = value` of WITH or `name 'value'` of OPTIONS."""

    name: str
    value: str
    at: Span = field(repr=False, compare=False, default=NOWHERE)


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column: a static one has a type; the dynamic one names a stream type or lists its fields."""

    name: str
    type: Type | None = None
    primary_key: bool = False
    not_null: bool = False
    stream_type: str | None = None
    stream_fields: tuple[Field, ...] | None = None
    at: Span = field(repr=False, compare=False, default=NOWHERE)
    type_at: Span = field(repr=False, compare=False, default=NOWHERE)


@dataclass(frozen=True, slots=True)
class DeduplicateClause:
    fields: tuple[str, ...]
    within_us: int
    at: Span = field(repr=False, compare=False, default=NOWHERE)


@dataclass(frozen=True, slots=True)
class Assignment:
    name: str
    value: exp.Expr
    at: Span = field(repr=False, compare=False, default=NOWHERE)


@dataclass(frozen=True, slots=True)
class AsOf:
    """A past moment: a committed cycle, a time, or so many microseconds (0 or less) from NOW."""

    cycle: int | None = None
    time_us: int | None = None
    offset_us: int | None = None
    at: Span = field(repr=False, compare=False, default=NOWHERE)


@dataclass(frozen=True, slots=True)
class TierClause:
    """`EVERY 1 MINUTE KEEP 30 DAYS`; None: for ever."""

    every_us: int
    keep_us: int | None = None
    every_at: Span = field(repr=False, compare=False, default=NOWHERE)
    keep_at: Span = field(repr=False, compare=False, default=NOWHERE)


@dataclass(frozen=True, slots=True)
class SourceText:
    """The script a statement stands in, and where."""

    text: str
    span: Span

    @property
    def sql(self) -> str:
        return self.text[self.span.start : self.span.end]

    def point(self, failure: PenstockError, span: Span | None = None) -> PenstockError:
        """The error with a caret at a span of this statement (the whole of it if none is given)."""
        return point(failure, self.text, span or self.span)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement. `name_at` is where its main name stands, for carets."""

    source: SourceText = field(repr=False, compare=False, default=SourceText("", NOWHERE))
    name_at: Span | None = field(repr=False, compare=False, default=None)

    def point(self, failure: PenstockError) -> PenstockError:
        """The error with a caret at the statement's main name, for errors of its execution."""
        return self.source.point(failure, self.name_at)

    def fail(self, at: Span | None, failure: PenstockError) -> NoReturn:
        """Raise an error with a caret at a span of the statement (the whole of it if none is given)."""
        raise self.source.point(failure, at)

    def refuse(self, at: Span | None, detail: str, hint: str | None = None) -> NoReturn:
        """Raise invalid_definition."""
        self.fail(at, error("invalid_definition", detail=detail, hint=hint))


# -- the statements


@dataclass(frozen=True, slots=True)
class CreateStreamType(Statement):
    name: str
    fields: tuple[Field, ...]
    connector: str | None
    options: tuple[StatementOption, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    name: str
    columns: tuple[ColumnDefinition, ...]
    key: tuple[str, ...]
    options: tuple[StatementOption, ...]
    deduplicate: DeduplicateClause | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateFunction(Statement):
    """With a `state` it is CREATE AGGREGATE."""

    name: str
    parameters: tuple[Field, ...]
    returns: Type
    language: str
    body: str
    vectorised: bool = False
    state: Type | None = None
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddColumn(Statement):
    """`stream` names the stream column when the new column is one of its fields."""

    table: str
    column: Field
    stream: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterLateness(Statement):
    """How much older than the newest reading of a table a reading may be from now on."""

    table: str
    option: StatementOption


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    """One name or several of a kind; for queries also all with a name like a pattern."""

    kind: DropKind
    names: tuple[str, ...]
    if_exists: bool = False
    cascade: bool = False
    like: str | None = None
    names_at: tuple[Span, ...] = field(repr=False, compare=False, default=())


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    table: str
    columns: tuple[tuple[str, Span], ...] | None
    rows: tuple[tuple[exp.Expr, ...], ...]


@dataclass(frozen=True, slots=True)
class Update(Statement):
    table: str
    assignments: tuple[Assignment, ...]
    where: exp.Expr | None = None
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    table: str
    where: exp.Expr | None = None
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Select(Statement):
    """A question. `sql` is its own text with the values of parameters written out."""

    query: exp.Query
    sql: str
    as_of: AsOf | None = None
    final_at: Span | None = field(repr=False, compare=False, default=None)  # where FINAL stands, if it does


@dataclass(frozen=True, slots=True)
class CreateQuery(Statement):
    """`keep_us`: it is a connection point, which readers join so much later."""

    name: str
    select: Select
    if_not_exists: bool = False
    options: tuple[StatementOption, ...] = ()
    keep_us: int | None = None
    keep_at: Span | None = None


@dataclass(frozen=True, slots=True)
class CreateRollup(Statement):
    """The FROM of its SELECT is the table that ON names."""

    name: str
    table: str
    select: Select
    tiers: tuple[TierClause, ...]
    if_not_exists: bool = False
    table_at: Span = field(repr=False, compare=False, default=NOWHERE)


@dataclass(frozen=True, slots=True)
class AlterQuery(Statement):
    """A live change of window: new texts for BEGIN and END; None keeps what is there. `stream`: of one of a join's only."""

    name: str
    begin: str | None = None
    end: str | None = None
    stream: str | None = None
    begin_at: Span | None = field(repr=False, compare=False, default=None)
    end_at: Span | None = field(repr=False, compare=False, default=None)
    stream_at: Span | None = field(repr=False, compare=False, default=None)


@dataclass(frozen=True, slots=True)
class PauseQuery(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class ResumeQuery(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class DescribeQuery(Statement):
    """Another owner, description, strategy or priority of a query; None: no owner, no description, or the cheapest strategy."""

    name: str
    fact: Literal["owner", "description", "strategy", "priority"]
    value: str | None


@dataclass(frozen=True, slots=True)
class CreateSink(Statement):
    """A way out for a query's results. Its options may hold secrets, so no tree of a statement shows their values."""

    name: str
    query: str
    kind: str
    options: tuple[StatementOption, ...] = field(repr=False, default=())
    if_not_exists: bool = False
    query_at: Span = field(repr=False, compare=False, default=NOWHERE)
    kind_at: Span = field(repr=False, compare=False, default=NOWHERE)


@dataclass(frozen=True, slots=True)
class AlterSink(Statement):
    name: str
    paused: bool


@dataclass(frozen=True, slots=True)
class SetOnError(Statement):
    """What the rest of the script registers when one of many queries is refused: none of them, or the rest."""

    choice: OnError


@dataclass(frozen=True, slots=True)
class BadQuery(Statement):
    """A CREATE QUERY that could not be read, where the script asks for the rest."""

    name: str
    failure: PenstockError


@dataclass(frozen=True, slots=True)
class Subscribe(Statement):
    name: str
    changes: bool = False
    from_cycle: int | None = None
    final_at: Span | None = field(repr=False, compare=False, default=None)  # where FINAL stands, if it does


@dataclass(frozen=True, slots=True)
class CancelStatement(Statement):
    """End a running statement; `id` as penstock.statements shows it."""

    id: str


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """`what` is one of grammar.questions.SHOWN; `table` narrows SENSORS and the like."""

    what: str
    table: str | None = None
    like: str | None = None


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    """Without a kind: of what has columns by that name, else of a stream type or a function."""

    name: str
    kind: Literal["function", "stream_type"] | None = None


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """Of a standing query or a rollup by name, or of a SELECT."""

    target: str | Select
    analyze: bool = False


@dataclass(frozen=True, slots=True)
class AcceptClock(Statement):
    """ALTER SYSTEM ACCEPT CLOCK: the wall clock is right, however far it jumped."""


@dataclass(frozen=True, slots=True)
class AcceptDamage(Statement):
    """ALTER SYSTEM ACCEPT DAMAGE: an admin has seen what is damaged."""


@dataclass(frozen=True, slots=True)
class Transaction(Statement):
    """BEGIN, COMMIT or ROLLBACK from a driver; does nothing."""

    kind: str


# -- users and tokens; passwords are in no repr


@dataclass(frozen=True, slots=True)
class CreateUser(Statement):
    name: str
    role: Role = "read"
    password: str | None = field(default=None, repr=False)
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterUser(Statement):
    """Another role, another password, or both; None keeps what is there."""

    name: str
    role: Role | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CreateToken(Statement):
    """A secret for programs: the token of `owner`, or of no user."""

    name: str
    role: Role = "read"
    owner: str | None = None
    expires_us: int | None = None


@dataclass(frozen=True, slots=True)
class DropAccounts(Statement):
    """Users together with their tokens, or tokens."""

    kind: Literal["user", "token"]
    names: tuple[str, ...]
    if_exists: bool = False
    names_at: tuple[Span, ...] = field(repr=False, compare=False, default=())
