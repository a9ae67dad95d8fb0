"""Every way Penstock says no: a named condition, an SQLSTATE, an HTTP status, a hint, a caret.

Comes in: a condition's name and its parameters. Goes out: a `PenstockError` that the server turns into
one JSON body and the command line into one block of plain text. All packages raise these, and no
other exception reaches a user.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Condition:
    """A named kind of error. `template` is filled from the parameters of `error`."""

    name: str
    sqlstate: str
    status: int
    template: str


_CONDITIONS = (
    # SQL as typed
    ("syntax_error", "42601", 400, "{detail}"),
    ("not_supported", "0A000", 400, "{feature} is not supported"),
    ("invalid_regular_expression", "2201B", 400, "'{pattern}' cannot be used as a regular expression: {detail}"),
    ("table_not_found", "42P01", 404, 'there is no table "{table}"'),
    ("query_not_found", "42704", 404, 'there is no query "{query}"'),
    ("rollup_not_found", "42704", 404, 'there is no rollup "{rollup}"'),
    ("column_not_found", "42703", 400, 'table "{table}" has no column "{column}"'),
    ("ambiguous_column", "42702", 400, 'column "{column}" could be {candidates}'),
    ("function_not_found", "42883", 400, 'there is no function "{function}"'),
    ("user_not_found", "42704", 404, 'there is no user "{user}"'),
    ("token_not_found", "42704", 404, 'there is no token "{token}"'),
    ("stream_type_not_found", "42704", 404, 'there is no stream type "{stream_type}"'),
    ("sink_not_found", "42704", 404, 'there is no sink "{sink}"'),
    ("sink_kind_not_found", "42704", 400, 'there is no kind of sink called "{kind}"'),
    ("statement_not_found", "42704", 404, 'there is no statement "{statement}" running'),
    ("delivery_failed", "58000", 503, "{detail}"),
    ("connector_not_found", "42704", 400, 'there is no way to reach sensors called "{connector}"'),
    ("already_exists", "42710", 409, '{kind} "{name}" already exists'),
    ("type_mismatch", "42804", 400, "{detail}"),
    ("grouping_error", "42803", 400, "{detail}"),
    ("invalid_option", "22023", 400, 'option "{option}": {detail}'),
    ("invalid_parameter", "22023", 400, "{detail}"),
    ("invalid_duration", "22007", 400, '"{text}" is not a duration'),
    ("invalid_window", "42P20", 400, "{detail}"),
    ("invalid_definition", "42P16", 400, "{detail}"),
    ("dependents_exist", "2BP01", 409, '{kind} "{name}" is used by {dependents}'),
    ("query_loop", "42P19", 400, 'query "{query}" would read itself through {path}'),
    ("unique_violation", "23505", 409, 'table "{table}" has a row with {key} already'),
    ("not_null_violation", "23502", 400, 'column "{column}" of "{table}" cannot be NULL'),
    ("cardinality_violation", "21000", 400, "{detail}"),
    ("over_budget", "53400", 429, "{detail}"),
    ("unbounded_state", "54000", 400, "the state of the query may grow without end: {detail}"),
    ("limit_reached", "53400", 429, "{detail}"),
    ("address_not_allowed", "42501", 403, 'address "{address}" is not allowed: {detail}'),
    # readings
    ("sensor_not_found", "P0002", 404, 'table "{table}" has no sensor with {key}'),
    ("missing_field", "22004", 400, 'the reading has no field "{field}"'),
    ("unknown_field", "42703", 400, 'table "{table}" has no field "{field}"'),
    ("invalid_value", "22P02", 400, 'field "{field}": {detail}'),
    ("out_of_order", "22008", 409, "time {ts} is older than the sensor's newest reading at {newest}"),
    ("too_far_ahead", "22008", 400, "time {ts} lies more than {max_ahead} past the wall clock"),
    ("clock_untrusted", "55000", 503, "{detail}"),
    ("before_retention", "22008", 400, "time {ts} is older than the table keeps ({retention})"),
    ("too_late", "22008", 400, "time {ts} is older than the table accepts: its watermark is at {watermark}"),
    ("duplicate_reading", "23505", 409, "a reading with {key} was accepted within {within}"),
    ("invalid_body", "22P04", 400, "{detail}"),
    ("too_many_rows", "54000", 413, "the push has {rows} readings; {limit} are the most"),
    ("body_too_large", "54000", 413, "the body has more than {limit} bytes"),
    ("unsupported_media_type", "0A000", 415, 'content type "{media_type}" is not understood'),
    # the system
    ("disk_full", "53100", 507, "the disk that holds the data folder is full; nothing was stored"),
    ("corrupt_segment", "XX001", 500, 'segment "{segment}" cannot be read: {detail}'),
    ("corrupt_journal", "XX001", 500, "the journal cannot be read at entry {position}: {detail}"),
    ("corrupt_accounts", "XX001", 500, 'the file of users "{file}" cannot be read: {detail}'),
    ("folder_in_use", "55006", 409, 'another server (process {pid}) uses the data folder "{folder}"'),
    ("unfinished_backup", "55000", 500, 'the folder "{folder}" is a backup that was not written to its end'),
    ("damaged_backup", "XX001", 500, 'the backup "{folder}" is damaged: {detail}'),
    ("folder_too_new", "55000", 500, "a newer Penstock wrote the data folder: {detail}"),
    ("stale_cycle", "55000", 500, "{detail}"),
    ("cycle_gone", "55000", 410, "cycle {cycle} is no longer kept; the oldest is {oldest}"),
    ("history_gone", "55000", 410, "the answer as of {time} is no longer known; the oldest possible is {oldest}"),
    ("not_ready", "57P03", 503, "{detail}"),
    ("too_busy", "53300", 503, "{detail}"),
    ("statement_cancelled", "57014", 409, "{detail}"),
    ("statement_timeout", "57014", 408, "{detail}"),
    ("unauthorized", "28000", 401, "{detail}"),
    ("forbidden", "42501", 403, "{detail}"),
    ("rate_limited", "53400", 429, "{detail}"),
    ("token_required", "28000", 400, "{detail}"),
    ("not_found", "42704", 404, "{detail}"),
    ("method_not_allowed", "0A000", 405, "{detail}"),
    ("address_in_use", "55006", 409, "cannot listen on {address}: {detail}"),
    ("connection_failed", "08006", 503, "no answer from {url}: {detail}"),
    ("query_quarantined", "55000", 409, 'query "{query}" was taken out of the cycles: {reason}'),
    ("engine_failed", "58000", 500, "{detail}"),
    ("function_failed", "38000", 400, 'function "{function}" failed: {detail}'),
    ("java_not_found", "58000", 500, "{detail}"),
    ("spark_text_refused", "XX000", 500, "the Spark SQL of this question was not run, because {detail}"),
    ("internal_error", "XX000", 500, "{detail}"),
)
CONDITIONS = {row[0]: Condition(*row) for row in _CONDITIONS}


class PenstockError(Exception):
    """One error as a user sees it. `at` adds a position in the SQL, which makes a caret possible."""

    def __init__(self, condition: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.condition = condition
        self.message = message
        self.hint = hint
        self.line: int | None = None
        self.column: int | None = None
        self.length: int | None = None
        self.sql: str | None = None
        self.index: int | None = None  # which of many queries it is about, from 0
        self.query: str | None = None
        self.retry_after_s: float | None = None  # when to try again, where that is known

    @property
    def sqlstate(self) -> str:
        return CONDITIONS[self.condition].sqlstate

    @property
    def status(self) -> int:
        return CONDITIONS[self.condition].status

    def at(self, sql: str, line: int, column: int, length: int = 1) -> PenstockError:
        """The same error, pointing at `length` characters from a 1-based line and column of `sql`."""
        self.sql, self.line, self.column, self.length = sql, line, column, max(length, 1)
        return self

    def of_many(self, index: int, query: str, count: int) -> PenstockError:
        """The same error, saying which of many queries it is about."""
        self.index, self.query = index, query
        self.message = f'query "{query}" ({index + 1} of {count}): {self.message}'
        return self

    def body(self) -> dict[str, Any]:
        """The JSON body of the HTTP API, the same everywhere."""
        shown = ("condition", "sqlstate", "message", "hint", "line", "column", "length")
        return {"error": {name: getattr(self, name) for name in shown}}

    def render(self, sql: str | None = None) -> str:
        """Plain text with the line, a caret and the hint, as a terminal shows it."""
        lines = [f"ERROR {self.sqlstate} {self.condition}: {self.message}"]
        source = sql or self.sql
        if source is not None and self.line is not None and self.column is not None:
            source_lines = source.splitlines() or [""]
            if 1 <= self.line <= len(source_lines):
                number = str(self.line)
                shown = source_lines[self.line - 1].replace("\t", " ")
                marks = "^" * min(self.length or 1, max(1, len(shown) - self.column + 1))
                lines.append(f"  {number} | {shown}")
                lines.append(f"  {' ' * len(number)} | {' ' * (self.column - 1)}{marks}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process borders (Spark's workers to the driver) with everything they carry; subclasses take other arguments.
        return PenstockError, (self.condition, self.message), vars(self)


def error(condition: str, *, hint: str | None = None, **parameters: Any) -> PenstockError:
    """Build the error of a named condition: `raise error("table_not_found", table=name)`."""
    return PenstockError(condition, CONDITIONS[condition].template.format(**parameters), hint=hint)


def too_new(detail: str) -> PenstockError:
    """The error for what a data folder holds and this version does not know, although it is not damaged."""
    return error("folder_too_new", detail=detail, hint="install a newer Penstock")


def is_too_new(problem: BaseException) -> bool:
    """Whether something is not damaged, but of a newer version: it must stay as it is, and nothing may go on without it."""
    return isinstance(problem, PenstockError) and problem.condition == "folder_too_new"


def check_known(found: Mapping[str, Any], known: AbstractSet[str], what: str) -> None:
    """Raise folder_too_new where stored data has members of which this version does not know what they change."""
    if not found.keys() <= known:
        raise too_new(f"{what} has {', '.join(sorted(found.keys() - known))}")


def suggest(name: str, known: Iterable[str]) -> str | None:
    """A hint with the nearest known name, or None where nothing is near."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return f'did you mean "{near[0]}"?' if near else None


def one_line(cause: BaseException) -> str:
    """An exception as a column `last_error` shows it: a named condition with its hint, any other by the name of its class."""
    if isinstance(cause, PenstockError):
        return f"{cause.condition}: {cause.message}" + (f"; {cause.hint}" if cause.hint else "")
    return f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__


def expect(kind: type[T], value: object) -> T:
    """The value, known to be of a class; anything else is a defect of ours."""
    if not isinstance(value, kind):
        raise AssertionError(f"{type(value).__name__} where {kind.__name__} was expected")
    return value
