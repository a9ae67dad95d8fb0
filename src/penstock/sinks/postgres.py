"""postgres: rows into a table of PostgreSQL, inserted, or put in the place of those with the same key.

Exactly once: how far the sink has come is written in the same transaction as the rows, so a repeat finds that it is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from penstock.catalog.secrets import shown_address
from penstock.json_rows import json_value, unique_names
from penstock.sensors.address_rules import Targets
from penstock.sensors.options import flag
from penstock.sinks.base import Kind, Option, Outlet, Place, SinkBatch, delivery_failed
from penstock.sinks.options import ROWS, TIMEOUT, address, names, require_columns, required_text
from penstock.types import Field

POSITIONS = "penstock_sinks"
_CREATE_POSITIONS = sql.SQL(
    "CREATE TABLE IF NOT EXISTS {} (folder TEXT, sink BIGINT, name TEXT, cycle BIGINT, PRIMARY KEY (folder, sink))"
).format(sql.Identifier(POSITIONS))
_READ_POSITION = sql.SQL("SELECT cycle FROM {} WHERE folder = %s AND sink = %s FOR UPDATE").format(
    sql.Identifier(POSITIONS)
)
_WRITE_POSITION = sql.SQL(
    "INSERT INTO {} (folder, sink, name, cycle) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (folder, sink) DO UPDATE SET name = EXCLUDED.name, cycle = EXCLUDED.cycle"
).format(sql.Identifier(POSITIONS))


class Postgres(Outlet):
    """One connection. Each batch is a transaction."""

    def __init__(self, place: Place, options: Mapping[str, Any]) -> None:
        self._place = place
        self._options = options
        self._table = sql.Identifier(*options["table"].split("."))
        self._created = not options["create"]
        more: dict[str, Any] = {"password": options["password"]} if options["password"] else {}
        timeout_ms = int(options["timeout"] * 1000)
        try:
            more |= checked_hosts(options["url"], place.rules.targets)
            self._connection = psycopg.connect(
                options["url"],
                **more,
                connect_timeout=max(2, round(options["timeout"])),
                application_name=f"penstock sink {place.sink.name}",
                options=f"-c statement_timeout={timeout_ms} -c lock_timeout={timeout_ms} -c timezone=UTC",
                autocommit=True,
            )
            self._connection.execute(_CREATE_POSITIONS)
        except (psycopg.Error, OSError) as failure:
            raise _failed(failure) from None

    def position(self) -> int | None:
        try:
            return self._read_position()
        except psycopg.Error as failure:
            raise _failed(failure) from None

    def _read_position(self) -> int | None:
        found = self._connection.execute(_READ_POSITION, (self._place.folder_id, self._place.sink.id)).fetchone()
        return int(found[0]) if found is not None else None

    def deliver(self, batch: SinkBatch) -> None:
        try:
            with self._connection.transaction():
                known = self._read_position()
                if known is not None and (known == batch.cycle or (known > batch.cycle and not batch.whole)):
                    return  # committed before the connection broke or the server was killed
                if not self._created:
                    self._create_table(batch.table.schema)
                self._write_rows(batch.table)
                sink = self._place.sink
                self._connection.execute(_WRITE_POSITION, (self._place.folder_id, sink.id, sink.name, batch.cycle))
            self._created = True
        except psycopg.Error as failure:
            raise _failed(failure) from None

    def _create_table(self, schema: pa.Schema) -> None:
        columns = [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(_type_name(field.type)))
            for name, field in zip(unique_names(schema.names), schema, strict=True)
        ]
        if self._options["key"]:
            key = sql.SQL(", ").join(sql.Identifier(name) for name in self._options["key"])
            columns.append(sql.SQL("PRIMARY KEY ({})").format(key))
        create = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(self._table, sql.SQL(", ").join(columns))
        self._connection.execute(create)

    def _write_rows(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        columns = unique_names(table.schema.names)
        listed = sql.SQL(", ").join(sql.Identifier(name) for name in columns)
        values = sql.SQL(", ").join(sql.Placeholder() * len(columns))
        insert = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(self._table, listed, values)
        key = self._options["key"]
        if key:
            rest = [name for name in columns if name not in key]
            changes = sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in rest)
            conflict = sql.SQL(", ").join(sql.Identifier(name) for name in key)
            does = sql.SQL("DO UPDATE SET {}").format(changes) if rest else sql.SQL("DO NOTHING")
            insert = sql.SQL("{} ON CONFLICT ({}) {}").format(insert, conflict, does)
        rows = zip(*(_values(column) for column in table.columns), strict=True)
        with self._connection.cursor() as cursor:
            cursor.executemany(insert, rows)

    def close(self) -> None:
        self._connection.close()


def checked_hosts(url: str, targets: Targets) -> dict[str, str]:
    """The hosts of a connection string with their checked addresses beside them, so that libpq looks up no name.

    TLS goes on checking the name. Sockets of this machine are not a network, and stay as they are.
    """
    given = conninfo_to_dict(url)
    hosts = str(given.get("host") or "").split(",")
    addresses = str(given["hostaddr"]).split(",") if given.get("hostaddr") else hosts
    ports = str(given.get("port") or "5432").split(",")
    found: list[tuple[str, str, str]] = []
    for number, named in enumerate(addresses):
        host = hosts[number] if number < len(hosts) else ""
        port = (ports[number] if number < len(ports) else ports[-1]) or "5432"
        if not named or named.startswith(("/", "@")):
            found.append((host, "", port))
        else:
            resolved = targets.resolve(named, int(port), by_admin=True)
            found += [(host, target.address, port) for target in resolved]
    if not any(checked for _, checked, _ in found):
        return {}
    texts = [",".join(parts) for parts in zip(*found, strict=True)]
    return dict(zip(("host", "hostaddr", "port"), texts, strict=True))


def _failed(failure: Exception) -> Exception:
    return delivery_failed(str(failure).strip().partition("\n")[0] or type(failure).__name__)


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "INTEGER" if kind.bit_width <= 32 else "BIGINT"
    if pa.types.is_floating(kind):
        return "DOUBLE PRECISION"
    if pa.types.is_boolean(kind):
        return "BOOLEAN"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMPTZ"
    if pa.types.is_decimal(kind):
        return f"NUMERIC({kind.precision}, {kind.scale})"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "BYTEA"
    return "JSONB" if pa.types.is_nested(kind) else "TEXT"


def _values(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if pa.types.is_nested(column.type):
        return [None if value is None else orjson.dumps(json_value(value)).decode() for value in values]
    if pa.types.is_string(column.type):
        return [value if value is None else value.replace("\0", "\ufffd") for value in values]  # it has no NUL
    return values


def _check(columns: Sequence[Field], options: Mapping[str, Any]) -> None:
    require_columns("key", options["key"], unique_names([column.name for column in columns]))


KIND = Kind(
    name="postgres",
    sentence="Writes rows into a table of PostgreSQL.",
    promise="exactly once: rows and position in one transaction",
    options=(
        Option("url", None, "The database, as postgresql://user@host/database.", address("postgresql", "postgres")),
        Option("password", "", "The password, where the address has none."),
        Option("table", None, "The table, perhaps with its schema: public.alarms.", required_text),
        Option("key", "", "Columns that tell rows apart; a row with a known key takes the old one's place.", names),
        Option("create", "true", "Whether to create the table where it is missing.", flag),
        ROWS,
        TIMEOUT,
    ),
    open=Postgres,
    target=lambda options: f"{shown_address(options['url']).partition('?')[0]} {options['table']}",
    check=_check,
)
