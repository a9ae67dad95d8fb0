"""Shapes of requests and replies, for checking what comes in and for OpenAPI, and the pieces of that document that resources share.

Replies are written by `encode` without passing through these: a million rows must not be validated twice.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.server.http.decode import ARROW, CSV, JSON, NDJSON, PARQUET

Strategy = Literal["complete", "partial", "none", "auto"]
Priority = Literal["high", "normal", "low"]


class Strict(BaseModel):
    """A body with a misspelt key is an error, not a default."""

    model_config = ConfigDict(extra="forbid")


class SqlRequest(Strict):
    """One or more statements."""

    sql: str = Field(examples=["SELECT s.location, s.reading.ppm FROM sensors s WHERE s.reading.ppm > $1"])
    params: list[Any] | dict[str, Any] | None = Field(
        default=None, description="values of $1, $2, ... as an array, or of :name as an object", examples=[[35]]
    )
    timeout_s: float | None = Field(
        default=None,
        gt=0,
        description="most seconds for each statement; more than `statement_timeout_s` for admins only",
        examples=[10],
    )


class StatementReport(BaseModel):
    """A statement that runs or waits."""

    id: str = Field(examples=["9f2c4e8a1b3d5f70"])
    owner: str = Field(examples=["ada"])
    state: str = Field(examples=["running"])
    place: str = Field(examples=["Spark"])
    started: str = Field(examples=["2026-01-05T12:00:00.000000Z"])
    left_s: float | None = Field(examples=[41.5])
    text: str = Field(examples=["SELECT COUNT(*) FROM sensors a, sensors b"])


class StatementReports(BaseModel):
    """The oldest first."""

    statements: list[StatementReport]


class NewQueryBody(Strict):
    """A standing query to be."""

    name: str = Field(min_length=1, examples=["gas_alarm"])
    sql: str = Field(
        min_length=1,
        examples=[
            "SELECT s.location, s.reading.ppm FROM sensors s WHERE s.reading.ppm > 35 BEGIN (NOW - 10 MINUTES) END (NOW)"
        ],
    )
    description: str | None = Field(default=None, examples=["too much gas"])
    owner: str | None = Field(default=None, description="the caller, if not given", examples=["ada"])
    strategy: Strategy | None = Field(default=None, description="how the answer is kept; auto: whatever is cheapest")
    priority: Priority | None = Field(default=None, description="high, normal (if not given) or low")
    bounded: bool | str | None = Field(
        default=None, description="refuse a state that may grow without end, or beyond a size", examples=["64 MB"]
    )


class NewQueries(Strict):
    """One or many queries, registered with one sync."""

    queries: list[NewQueryBody] = Field(min_length=1)
    on_error: Literal["none", "rest"] = Field(
        default="none", description="when one is refused: register none of them, or the rest"
    )


class QueryChange(Strict):
    """A live change. Times as in SQL, without parentheses."""

    begin: str | None = Field(default=None, examples=["NOW - 1 HOUR"])
    end: str | None = Field(default=None, examples=["NOW"])
    paused: bool | None = Field(default=None, description="true pauses, false resumes")
    description: str | None = Field(default=None, description="empty: none any more", examples=["too much gas"])
    owner: str | None = Field(default=None, examples=["ada"])
    strategy: Strategy | None = Field(default=None, description="how the answer is kept; auto: whatever is cheapest")
    priority: Priority | None = Field(default=None, description="high, normal or low")


class SignIn(Strict):
    """A user with a password, or a token."""

    user: str | None = Field(default=None, min_length=1, max_length=128, examples=["ada"])
    password: str | None = Field(default=None, max_length=1024, examples=["correct horse"])
    token: str | None = Field(default=None, max_length=1024, examples=[None])


class SessionReport(BaseModel):
    """The caller and its role. `role` is null before sign-in, where sign-in is required."""

    user: str | None = Field(examples=["ada"])
    role: str | None = Field(examples=["write"])
    required: bool = Field(description="false where sign-in is not needed")
    expires: str | None = Field(description="when the session ends", examples=["2026-01-06T00:00:00.000000Z"])


class BackupRequest(Strict):
    """Where to write a copy of the data folder: an absolute path on the server's machine that does not exist yet."""

    target: str = Field(min_length=1, examples=["/backups/monday"])
    link: bool = Field(default=False, description="Hard links in place of copies: fast, but rot is shared.")


class AnswerColumn(BaseModel):
    """A column of an answer."""

    name: str = Field(examples=["ppm"])
    type: str = Field(examples=["DOUBLE"])


class BehindBody(BaseModel):
    """How far a query stands behind the cycles: where it stands, the readings that it has not seen, and how old its NOW is."""

    cycle: int = Field(examples=[180])
    rows: int = Field(examples=[5200])
    seconds: float = Field(examples=[2.5])


class AnswerBody(BaseModel):
    """Rows, the cycle they stand for, its NOW, from when on they are complete (null: the whole window), and before when they are final."""

    columns: list[AnswerColumn]
    rows: list[list[Any]] = Field(examples=[[["north gate", 37.5]]])
    cycle: int | None = Field(examples=[184])
    now: str | None = Field(examples=["2026-01-05T12:00:00.000000Z"])
    complete_from: str | None = Field(examples=[None])
    final_to: str | None = Field(
        description="no later reading changes rows before it; null: none is final",
        examples=["2026-01-05T11:59:00.000000Z"],
    )
    behind: BehindBody | None = Field(
        default=None, description="of a query that stands behind the cycles; null: it does not", examples=[None]
    )
    done: str | None = Field(description="what a statement without rows did", examples=[None])
    notices: list[str] = Field(examples=[[]])


class RefusedReading(BaseModel):
    """A reading that was not stored."""

    index: int = Field(examples=[1])
    condition: str = Field(examples=["sensor_not_found"])
    message: str = Field(examples=['table "sensors" has no sensor with sensor_id = 7'])


class PushReceipt(BaseModel):
    """What became of a push. `position` is the head of the table's log after it."""

    accepted: int = Field(examples=[1])
    refused: list[RefusedReading]
    position: int = Field(examples=[9120])


class Registration(BaseModel):
    """What became of one query of a registration: `error` is null where it stands; `notice` is what to know about it."""

    index: int = Field(examples=[0])
    name: str = Field(examples=["gas_alarm"])
    error: dict[str, Any] | None = Field(examples=[None])
    notice: str | None = Field(default=None, examples=[None])


class Registrations(BaseModel):
    """In the order they were sent."""

    queries: list[Registration]


class HealthReport(BaseModel):
    """Ready or not, and why."""

    ready: bool
    reason: str = Field(examples=["ready"])
    details: dict[str, Any]


class ErrorDetail(BaseModel):
    """One error, with a place in the SQL where there is one (line and column from 1)."""

    condition: str = Field(examples=["column_not_found"])
    sqlstate: str = Field(examples=["42703"])
    message: str = Field(examples=['table "sensors" has no column "pmp"'])
    hint: str | None = Field(examples=['did you mean "ppm"?'])
    line: int | None = Field(examples=[1])
    column: int | None = Field(examples=[12])
    length: int | None = Field(examples=[3])


class ErrorBody(BaseModel):
    """Every error, everywhere."""

    error: ErrorDetail


ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "the request's mistake"},
    "5XX": {"model": ErrorBody, "description": "the server's trouble"},
}
_BINARY = {"type": "string", "format": "binary"}
ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "model": AnswerBody,
        "description": "the answer, in the format that Accept asks for",
        "content": {
            CSV: {"schema": {"type": "string"}, "example": "location,ppm\nnorth gate,37.5\n"},
            NDJSON: {"schema": {"type": "string"}, "example": '{"location":"north gate","ppm":37.5}\n'},
            ARROW: {"schema": _BINARY},
        },
    },
}


def json_body(model: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """A request body that the handler reads itself, to bound its size."""
    schema = model.model_json_schema()
    schema = _inline(schema, schema.pop("$defs", {}))
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema, "example": example}}}}


def _inline(part: Any, definitions: dict[str, Any]) -> Any:
    """Nested models written out: this schema is not among the document's components."""
    if isinstance(part, dict):
        if "$ref" in part:
            return _inline(definitions[part["$ref"].rsplit("/", 1)[1]], definitions)
        return {key: _inline(value, definitions) for key, value in part.items()}
    return [_inline(value, definitions) for value in part] if isinstance(part, list) else part


def readings_body() -> dict[str, Any]:
    reading = {"type": "object", "additionalProperties": True}
    return {
        "requestBody": {
            "required": True,
            "content": {
                JSON: {
                    "schema": {"type": "array", "items": reading},
                    "example": [{"sensor_id": 1, "ts": "2026-01-05T12:00:00Z", "ppm": 37.5}],
                },
                NDJSON: {"schema": {"type": "string"}, "example": '{"sensor_id": 1, "ppm": 37.5}\n'},
                CSV: {"schema": {"type": "string"}, "example": "sensor_id,ppm\n1,37.5\n"},
                ARROW: {"schema": _BINARY},
                PARQUET: {"schema": _BINARY},
            },
        }
    }
