"""A connection to a server, with one method per thing the server can do; `Query`, a handle on one query; and `Answer`, its rows."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import httpx
import orjson
import pyarrow as pa

from penstock.client.streams import BATCH_ROWS, Change, Readings, Receipt, Refusal, batches, quote, send, subscribe
from penstock.client.transport import ARROW, JSON, Transport, refuse_not_finite, to_json
from penstock.errors import PenstockError, error

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Answer:
    """What one statement or query answered. `complete_from` is set where the answer does not reach back far enough.

    No later reading changes rows before `final_to`; None: none of them is final. `behind` is set where the query stands behind the
    cycles (LAGGING): the `cycle` where it stands, the `rows` that it has not seen, and the `seconds` that its NOW is old.
    `done` is the tag of a statement without rows, e.g. `CREATE TABLE`. Times are ISO 8601 texts as the server says.
    """

    table: pa.Table
    cycle: int | None = None
    now: str | None = None
    complete_from: str | None = None
    done: str | None = None
    notices: tuple[str, ...] = ()
    final_to: str | None = None
    behind: dict[str, Any] | None = None

    @property
    def columns(self) -> list[str]:
        return list(self.table.schema.names)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def to_arrow(self) -> pa.Table:
        return self.table

    def to_pandas(self) -> pd.DataFrame:
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

    def rows(self) -> list[dict[str, Any]]:
        """Rows as dictionaries of Python values."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows


def read_answer(body: bytes) -> Answer:
    """An Arrow stream as the server sends it; the facts about it stand in the schema's metadata."""
    with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
        table = reader.read_all()
    facts = orjson.loads((table.schema.metadata or {}).get(b"penstock", b"{}"))
    known = {name: facts.get(name) for name in ("cycle", "now", "complete_from", "done", "final_to", "behind")}
    return Answer(table.replace_schema_metadata(None), **known, notices=tuple(facts.get("notices", ())))


# How long an answer is waited for: a little longer than the server was given for it.
_USUAL_S, _MARGIN_S = 600.0, 30.0
_BACKUP_S = 86_400.0  # every byte of a data folder is read and written


class Connection:
    """Talks to one server; safe to share between threads. Nothing is sent before the first call."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8470",
        token: str | None = None,
        client: httpx.Client | None = None,
        user: str | None = None,
        ca: str | None = None,
    ) -> None:
        """`ca` is a file with the certificates (PEM) to trust instead of the usual ones."""
        self._transport = Transport(url, token, client, user, ca)

    @property
    def url(self) -> str:
        return self._transport.url

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    # Asking

    def sql(self, text: str, /, *params: Any, timeout_s: float | None = None, **named: Any) -> Answer:
        """Run one or more statements; the last one's answer. `$1` takes `params`, `:name` takes `named`.

        `timeout_s` is the most that each statement may take. KeyboardInterrupt cancels it at the server.
        """
        if params and named:
            raise error("invalid_parameter", detail="give parameters by place or by name, not both")
        refuse_not_finite([*params, *named.values()])
        body = {"sql": text, "params": named or list(params) or None}
        content = to_json(body if timeout_s is None else {**body, "timeout_s": timeout_s})
        headers = {"Content-Type": JSON, "Accept": ARROW}
        read_s = None if timeout_s is None else max(timeout_s + _MARGIN_S, _USUAL_S)
        response = self._transport.call("POST", "/v1/sql", content=content, headers=headers, read_s=read_s)
        return read_answer(response.content)

    def statements(self) -> list[dict[str, Any]]:
        """The statements that run now: one's own, all for an admin."""
        return list(self._transport.json("GET", "/v1/statements")["statements"])

    def cancel(self, statement_id: str) -> None:
        """End a running statement."""
        self._transport.json("DELETE", f"/v1/statements/{quote(statement_id)}")

    def query(self, name_or_select: str, *params: Any) -> Query:
        """A handle on the standing query of that name, or on a SELECT."""
        return Query(self, name_or_select, params)

    def invoke(
        self, name: str, as_of: int | str | datetime | None = None, limit: int | None = None, offset: int | None = None
    ) -> Answer:
        """The answer of a standing query: now, or as of a committed cycle, a time, or text such as NOW - 10 MINUTES."""
        if isinstance(as_of, datetime):
            as_of = (as_of if as_of.tzinfo is not None else as_of.replace(tzinfo=UTC)).isoformat()
        asked = (("as_of", as_of), ("limit", limit), ("offset", offset))
        params = {key: value for key, value in asked if value is not None}
        path = f"/v1/queries/{quote(name)}/rows"
        return read_answer(self._transport.call("GET", path, headers={"Accept": ARROW}, params=params).content)

    def subscribe(
        self,
        name: str,
        changes: bool = False,
        from_cycle: int | None = None,
        retry_for_s: float | None = None,
        final: bool = False,
    ) -> Iterator[Change]:
        """Rows as they enter (with `changes`: and leave), cycle by cycle; resumes by itself after a lost connection.

        With `final`: each row once, when no later reading can change it.
        """
        wanted = {"changes": changes, "final": final}
        return subscribe(
            self._transport, name, [key for key, is_on in wanted.items() if is_on], from_cycle, retry_for_s
        )

    # Readings

    def push(
        self,
        table: str,
        readings: Readings,
        *,
        idempotency_key: str | None = None,
        batch_rows: int = BATCH_ROWS,
        retry_for_s: float = 60.0,
    ) -> Receipt:
        """Store readings: a list of dictionaries, a DataFrame or an Arrow table. Returns when they are on disk.

        They are sent in order, in batches that each carry a key made of `idempotency_key` and its place. A batch that got no
        answer, or met a server that is starting or busy, is sent again for up to `retry_for_s`: the key lets the server store
        it once. A refusal of a whole batch raises; batches before it are stored.
        """
        base = idempotency_key or uuid.uuid4().hex
        accepted, position = 0, 0
        refused: list[Refusal] = []
        for number, batch in enumerate(batches(readings, batch_rows)):
            reply = send(self._transport, table, batch, f"{base}-{number}" if number else base, retry_for_s)
            accepted += reply["accepted"]
            position = reply["position"]
            refused.extend(Refusal(batch.first + r["index"], r["condition"], r["message"]) for r in reply["refused"])
        return Receipt(accepted, tuple(refused), position)

    # Standing queries

    def register(
        self, queries: Iterable[tuple[str, str] | Mapping[str, Any]], on_error: Literal["none", "rest"] = "none"
    ) -> list[dict[str, Any]]:
        """Create many standing queries with one sync, from (name, SELECT) pairs or records with `name` and `sql`.

        With `none` the first mistake is raised and nothing is registered; with `rest` each query says for itself.
        """
        records = [dict(q) if isinstance(q, Mapping) else {"name": q[0], "sql": q[1]} for q in queries]
        if not records:
            return []
        try:
            body = {"queries": records, "on_error": on_error}
            return list(self._transport.json("POST", "/v1/queries", body)["queries"])
        except PenstockError as problem:
            # The server says which one and where, this side knows the text.
            named = re.match(r'query ".*" \((\d+) of \d+\)', problem.message)
            problem.sql = str(records[int(named[1]) - 1 if named else 0].get("sql"))
            raise

    def drop_queries(self, names: Iterable[str], cascade: bool = False, if_exists: bool = False) -> None:
        """Drop many with one sync, or none of them."""
        listed = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        if listed:
            self.sql(f"DROP QUERY {'IF EXISTS ' if if_exists else ''}{listed}{' CASCADE' if cascade else ''}")

    def queries(self) -> list[dict[str, Any]]:
        return list(self._transport.json("GET", "/v1/queries")["queries"])

    def describe_query(self, name: str) -> dict[str, Any]:
        return self._transport.json("GET", f"/v1/queries/{quote(name)}")

    def change_query(
        self,
        name: str,
        begin: str | None = None,
        end: str | None = None,
        paused: bool | None = None,
        description: str | None = None,
        owner: str | None = None,
        strategy: str | None = None,
        priority: str | None = None,
    ) -> dict[str, Any]:
        window = {"begin": begin, "end": end}
        given = {
            **window,
            "paused": paused,
            "description": description,
            "owner": owner,
            "strategy": strategy,
            "priority": priority,
        }
        body = {key: value for key, value in given.items() if value is not None}
        return self._transport.json("PATCH", f"/v1/queries/{quote(name)}", body)

    def drop_query(self, name: str, cascade: bool = False) -> None:
        params = {"cascade": "true"} if cascade else None
        self._transport.json("DELETE", f"/v1/queries/{quote(name)}", params=params)

    # The catalog and the system

    def tables(self) -> list[dict[str, Any]]:
        return list(self._transport.json("GET", "/v1/tables")["tables"])

    def describe_table(self, name: str) -> dict[str, Any]:
        return self._transport.json("GET", f"/v1/tables/{quote(name)}")

    def sensors(self, table: str) -> list[dict[str, Any]]:
        return list(self._transport.json("GET", f"/v1/tables/{quote(table)}/sensors")["sensors"])

    def health(self) -> dict[str, Any]:
        """`{"ready", "reason", "details"}`; "not ready" is an answer, not an error."""
        return self._transport.json("GET", "/v1/health")

    def status(self) -> dict[str, Any]:
        return self._transport.json("GET", "/v1/status")

    def backup(self, target: str, link: bool = False) -> list[str]:
        """Have the server write a copy of its data folder to `target`, an absolute path on its own machine.

        What comes back names the files that were damaged before: they are in the copy as they are. With `link`, files
        are hard links where that is possible.
        """
        body = {"target": target, "link": link}
        return list(self._transport.json("POST", "/v1/backup", body, read_s=_BACKUP_S).get("damaged", []))


class Query:
    """`db.query("gas_alarm")`: every call asks the server anew. Leaving and coming back loses nothing.

    `db.query("SELECT ...")` works the same way for reading, but there is nothing to drop or to subscribe to.
    """

    def __init__(self, connection: Connection, text: str, params: tuple[Any, ...] = ()) -> None:
        self._connection = connection
        self._params = params
        words = text.split(None, 1)
        self._select = text if words and words[0].lower() in ("select", "with") and len(words) > 1 else None
        self._name = text if self._select is None else None

    def __repr__(self) -> str:
        return f"Query({self._name or self._select!r})"

    @property
    def name(self) -> str:
        """The standing query's name; an error for a SELECT."""
        if self._name is None:
            hint = "CREATE QUERY name AS SELECT ... makes one"
            raise error("invalid_parameter", detail="a SELECT is not a standing query", hint=hint)
        return self._name

    def answer(
        self, as_of: int | str | datetime | None = None, limit: int | None = None, offset: int | None = None
    ) -> Answer:
        """The answer for the window as of now, of a committed cycle, or of a past time; or a page of it."""
        if self._select is not None and as_of is None and limit is None and offset is None:
            return self._connection.sql(self._select, *self._params)
        return self._connection.invoke(self.name, as_of, limit, offset)

    def rows(
        self, as_of: int | str | datetime | None = None, limit: int | None = None, offset: int | None = None
    ) -> list[dict[str, Any]]:
        return self.answer(as_of, limit, offset).rows()

    def to_arrow(self) -> pa.Table:
        return self.answer().to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        return self.answer().to_pandas()

    def describe(self) -> dict[str, Any]:
        """Definition, state and cost."""
        return self._connection.describe_query(self.name)

    def subscribe(self, changes: bool = False, from_cycle: int | None = None, final: bool = False) -> Iterator[Change]:
        return self._connection.subscribe(self.name, changes=changes, from_cycle=from_cycle, final=final)

    def alter(self, begin: str | None = None, end: str | None = None) -> None:
        """Change the window while the query runs: `alter(begin="NOW - 1 HOUR")`."""
        self._connection.change_query(self.name, begin=begin, end=end)

    def describe_as(self, description: str) -> None:
        """Say what it is for; an empty text takes that back."""
        self._connection.change_query(self.name, description=description)

    def pause(self) -> None:
        self._connection.change_query(self.name, paused=True)

    def resume(self) -> None:
        self._connection.change_query(self.name, paused=False)

    def drop(self, cascade: bool = False) -> None:
        self._connection.drop_query(self.name, cascade=cascade)
