"""The columns of the tables penstock.*, each with the sentence that the reference shows."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.types import BIGINT, BOOLEAN, DOUBLE, TEXT, TIMESTAMP, Field, Type


@dataclass(frozen=True, slots=True)
class SystemColumn:
    """One column and what it holds."""

    name: str
    type: Type
    sentence: str


_TABLE = SystemColumn("table_name", TEXT, "the sensor table")
_REFUSED = SystemColumn("refused", BIGINT, "readings that were refused")
_LATE = SystemColumn(
    "late", BIGINT, "readings older than the table's newest, but in order for their own sensor: stored"
)
_CLAMPED = SystemColumn("clamped", BIGINT, "readings with a time that was moved up to their sensor's newest")
_DEDUPLICATED = SystemColumn("deduplicated", BIGINT, "readings that were dropped as repeats")
_RATE = SystemColumn("rows_per_s", DOUBLE, "readings stored per second, over about the last minute")

SYSTEM_COLUMNS: dict[str, tuple[SystemColumn, ...]] = {
    "penstock.sensors": (
        _TABLE,
        SystemColumn("sensor", TEXT, "its key; values of a key of several columns are separated by commas"),
        SystemColumn("address", TEXT, "what its row holds in the stream column, without secrets"),
        SystemColumn(
            "state",
            TEXT,
            "opening, open, idle, backing off, hung, ended, closed; pushed: it sends readings to the server",
        ),
        SystemColumn("readings", BIGINT, "readings that were stored"),
        _RATE,
        _REFUSED,
        _LATE,
        _CLAMPED,
        _DEDUPLICATED,
        SystemColumn(
            "errors", BIGINT, "how often it could not be opened or read, and readings that could not be decoded"
        ),
        SystemColumn("last_error", TEXT, "the last error"),
        SystemColumn("last_reading", TIMESTAMP, "the newest time among its readings, also from before the start"),
    ),
    "penstock.queries": (
        SystemColumn("name", TEXT, "the standing query"),
        SystemColumn("state", TEXT, "STARTING, FILLING, RUNNING, PAUSED, FINISHED, FAILED"),
        SystemColumn("owner", TEXT, "the user that owns it"),
        SystemColumn("description", TEXT, "what it is for"),
        SystemColumn(
            "runs",
            TEXT,
            "shared pass; slices; window join; join with tables (of one stream); either, then slices; window join, then Spark SQL; log, when asked; or Spark SQL",
        ),
        SystemColumn("window", TEXT, "its BEGIN and END, in the shared pass and of a join"),
        SystemColumn(
            "matched",
            BIGINT,
            "rows found for it since registration, in the shared pass or by its join; history read again counts again",
        ),
        SystemColumn("progress", DOUBLE, "how much of its history has been read, 0 to 1"),
        SystemColumn("seconds", DOUBLE, "duration of the last evaluation, where Spark SQL answers"),
        SystemColumn("evaluations", BIGINT, "cycles that it took part in; where Spark SQL answers, evaluations"),
        SystemColumn(
            "ms",
            DOUBLE,
            "their time: its join's steps, its functions' calls, its history and its share of slices as workers"
            " measured them, and an even share of the rest of each cycle",
        ),
        SystemColumn("asked_ms", DOUBLE, "processor time of the server that invocations took since its start"),
        SystemColumn("rows", BIGINT, "result rows of these evaluations"),
        SystemColumn(
            "bytes", BIGINT, "the size of these rows: in commit records, or in memory where Spark SQL answers"
        ),
        SystemColumn(
            "strategy", TEXT, "how its answer is kept right now: complete, partial or none; NULL for Spark SQL"
        ),
        SystemColumn(
            "strategy_asked", TEXT, "the strategy that a user asked for; NULL: the server chooses the cheapest"
        ),
        SystemColumn(
            "memory",
            BIGINT,
            "bytes that its answer takes, a join's results and Spark's last answers too, with its share of what it shares",
        ),
        SystemColumn("invocations", BIGINT, "how often clients asked for its answer, across restarts"),
        SystemColumn("last_invoked", TIMESTAMP, "when a client last asked"),
        SystemColumn("error", TEXT, "why it fails"),
        SystemColumn("sql", TEXT, "its text"),
    ),
    "penstock.cycles": (
        SystemColumn("cycle", BIGINT, "its number"),
        SystemColumn("now", TIMESTAMP, "the NOW that was fixed when it was planned"),
        SystemColumn("rows", BIGINT, "new readings that it read"),
        SystemColumn("matched", BIGINT, "rows that entered answers, summed over all queries"),
        SystemColumn("ms", DOUBLE, "how long its Spark job took"),
        SystemColumn("bytes", BIGINT, "size of its results in the commit record"),
        SystemColumn("queries", BIGINT, "queries that took part"),
        SystemColumn("journal", BIGINT, "journal position of the definitions that it used"),
        SystemColumn("filling", BIGINT, "queries that were reading history"),
    ),
    "penstock.streams": (
        _TABLE,
        SystemColumn("sensors", BIGINT, "rows of the table: sensors, not readings"),
        SystemColumn("open", BIGINT, "sensors that are open"),
        SystemColumn("rows", BIGINT, "readings that were ever stored"),
        SystemColumn("files", BIGINT, "files of its log"),
        SystemColumn("accepted", BIGINT, "readings that were stored"),
        _RATE,
        _REFUSED,
        _LATE,
        _CLAMPED,
        _DEDUPLICATED,
        SystemColumn("discovered", BIGINT, "sensors that were added at their first reading"),
        SystemColumn("newest", TIMESTAMP, "the newest time among its readings"),
        SystemColumn("valid_time", BOOLEAN, "whether times are the sensors' own"),
    ),
    "penstock.inputs": (
        SystemColumn("name", TEXT, "the input: http, websocket, line protocol, or a connector and its table"),
        SystemColumn("kind", TEXT, "http, websocket, line protocol, or the connector"),
        SystemColumn("table_name", TEXT, "the table it feeds; NULL: any"),
        SystemColumn("state", TEXT, "connecting, connected, backing off, stopped; open: clients send to it"),
        SystemColumn("target", TEXT, "where it is connected to, without secrets"),
        SystemColumn("messages", BIGINT, "messages, lines or bodies that came"),
        SystemColumn("bytes", BIGINT, "their size"),
        SystemColumn("accepted", BIGINT, "readings that were stored"),
        SystemColumn("duplicates", BIGINT, "readings that DEDUPLICATE BY dropped"),
        SystemColumn("refused", BIGINT, "readings and messages that were refused"),
        SystemColumn("reasons", TEXT, "how many of these for which reason"),
        SystemColumn("ignored", BIGINT, "tags, fields and members that the table has no column for"),
        SystemColumn("ignored_names", TEXT, "the names of these"),
        SystemColumn("in_flight", BIGINT, "messages that are being stored"),
        SystemColumn("connects", BIGINT, "how often it was connected"),
        SystemColumn("last_error", TEXT, "the last problem"),
    ),
    "penstock.fields": (
        _TABLE,
        SystemColumn("field", TEXT, "a field of its readings"),
        SystemColumn("type", TEXT, "its type"),
        SystemColumn("sampled", BIGINT, "readings in the sample"),
        SystemColumn("nulls", BIGINT, "how many of them are NULL"),
        SystemColumn("least", DOUBLE, "the least value of the sample; this and the rest for numbers and booleans only"),
        SystemColumn("mean", DOUBLE, "its mean"),
        SystemColumn("stddev", DOUBLE, "its standard deviation"),
        SystemColumn("p05", DOUBLE, "a twentieth of the values are below"),
        SystemColumn("p50", DOUBLE, "half of the values are below"),
        SystemColumn("p95", DOUBLE, "a twentieth of the values are above"),
        SystemColumn("p99", DOUBLE, "a hundredth of the values are above"),
        SystemColumn("most", DOUBLE, "the greatest value of the sample"),
    ),
    "penstock.rollups": (
        SystemColumn("name", TEXT, "the rollup; it has a row for each of its tiers"),
        _TABLE,
        SystemColumn("every", TEXT, "how wide the tier's cells are"),
        SystemColumn("keep", TEXT, "how long it keeps them, at least, before the next tier takes them"),
        SystemColumn("oldest", TIMESTAMP, "the oldest reading that it has"),
        SystemColumn("newest", TIMESTAMP, "the newest; what is newer stands in a finer tier or in the log"),
        SystemColumn("readings", BIGINT, "readings that it has"),
        SystemColumn("cells", BIGINT, "cells that they became"),
        SystemColumn("files", BIGINT, "files that hold them"),
        SystemColumn("bytes", BIGINT, "size of these files"),
        SystemColumn("error", TEXT, "why readings cannot be rolled up; retention waits meanwhile"),
        SystemColumn("sql", TEXT, "its text"),
    ),
    "penstock.sinks": (
        SystemColumn("name", TEXT, "the sink"),
        SystemColumn("query", TEXT, "the standing query; the sink sends its results"),
        SystemColumn("kind", TEXT, "webhook, files, mqtt or postgres"),
        SystemColumn("target", TEXT, "where it sends them, without secrets"),
        SystemColumn("owner", TEXT, "the user that owns it"),
        SystemColumn("state", TEXT, "STARTING, RUNNING, RETRYING (its target did not take the last batch), PAUSED"),
        SystemColumn("promise", TEXT, "how often a row arrives"),
        SystemColumn("cycle", BIGINT, "everything up to this cycle is delivered, across restarts"),
        SystemColumn("lag", BIGINT, "committed cycles that are not delivered yet"),
        SystemColumn("waiting", BIGINT, "batches that it put aside on disk because its target lags behind"),
        SystemColumn("rows", BIGINT, "rows that it delivered"),
        SystemColumn("deliveries", BIGINT, "batches that it delivered"),
        SystemColumn("failed", BIGINT, "attempts that failed"),
        SystemColumn("retries", BIGINT, "repeated attempts after a failed one"),
        SystemColumn(
            "gaps", BIGINT, "how often cycles were deleted before it read them; it then sent the whole answer"
        ),
        SystemColumn("last_error", TEXT, "the error of the last failed attempt"),
        SystemColumn("last_delivery", TIMESTAMP, "when it last delivered"),
        SystemColumn("options", TEXT, "its options, without secrets"),
    ),
    "penstock.statements": (
        SystemColumn("id", TEXT, "its id, for CANCEL STATEMENT"),
        SystemColumn("owner", TEXT, "the user or token that sent it"),
        SystemColumn("state", TEXT, "waiting (for its turn), running, stopping (it was cancelled, or its time is up)"),
        SystemColumn("place", TEXT, "where it is worked on: server or Spark"),
        SystemColumn("started", TIMESTAMP, "when the server received it"),
        SystemColumn("left_s", DOUBLE, "seconds that it may still take"),
        SystemColumn(
            "text", TEXT, "the beginning of its text; of a statement that reads no data, only its kind and names"
        ),
    ),
    "penstock.services": (
        SystemColumn("name", TEXT, "a piece of work that goes on in the background"),
        SystemColumn("state", TEXT, "running; restarting: its last round failed, and it tries again; stopped"),
        SystemColumn("critical", BOOLEAN, "whether the server is not ready while it fails"),
        SystemColumn("rounds", BIGINT, "rounds that it finished; some rounds last as long as a connection"),
        SystemColumn("failures", BIGINT, "rounds that failed"),
        SystemColumn("last_error", TEXT, "the error of the last failed round"),
        SystemColumn("last_success", TIMESTAMP, "when it last finished a round"),
    ),
    "penstock.settings": (
        SystemColumn("name", TEXT, "the setting"),
        SystemColumn("value", TEXT, "what this server runs with; for admins only, NULL for others; a secret is ***"),
        SystemColumn("default", TEXT, "its value where nothing is set"),
        SystemColumn("sentence", TEXT, "what it decides"),
    ),
    "penstock.functions": (
        SystemColumn("name", TEXT, "the function; one with several names or lists of arguments has several rows"),
        SystemColumn("arguments", TEXT, "what it takes, in the words of the reference"),
        SystemColumn("result", TEXT, "the type that it gives"),
        SystemColumn("kind", TEXT, "scalar, aggregate or ranking (only with OVER)"),
        SystemColumn("built_in", BOOLEAN, "false: a user made it"),
        SystemColumn("language", TEXT, "of a function that a user made; else NULL"),
    ),
    "penstock.damage": (
        SystemColumn("file", TEXT, "the damaged file in the data folder, or the journal entries that are lost"),
        SystemColumn(
            "kind",
            TEXT,
            "what it is: log, commit_record, snapshot, results, journal, journal_tail, keys, rollups, sinks; unlisted: so many"
            " more files beyond the 1000 that are listed",
        ),
        SystemColumn("detail", TEXT, "what was found, and what was done about it"),
        SystemColumn("since", TIMESTAMP, "when it was first found"),
        SystemColumn(
            "healed", BOOLEAN, "whether no answer needs it any more: a snapshot covers it, or it was made again"
        ),
        SystemColumn(
            "accepted",
            BOOLEAN,
            "whether an admin has accepted it with ALTER SYSTEM ACCEPT DAMAGE; health names it no more",
        ),
        SystemColumn("queries", TEXT, "standing queries that fail because of it"),
    ),
}

SYSTEM_TABLES: dict[str, tuple[Field, ...]] = {
    name: tuple(Field(column.name, column.type) for column in columns) for name, columns in SYSTEM_COLUMNS.items()
}

# What fits on a terminal; SELECT gives all of them.
SHOWN: dict[str, list[str]] = {
    "queries": ["name", "owner", "state", "matched", "ms", "memory", "last_invoked", "description", "error"],
    "sensors": ["table_name", "sensor", "address", "state", "readings", "rows_per_s", "errors", "last_reading"],
    "cycles": [column.name for column in SYSTEM_COLUMNS["penstock.cycles"]],
    "rollups": ["name", "table_name", "every", "keep", "oldest", "newest", "readings", "cells", "bytes", "error"],
    "sinks": ["name", "query", "kind", "target", "state", "cycle", "lag", "rows", "failed", "last_error"],
    "inputs": ["name", "state", "target", "messages", "accepted", "refused", "reasons", "ignored", "last_error"],
    "statements": ["id", "owner", "state", "place", "started", "left_s", "text"],
    "services": [column.name for column in SYSTEM_COLUMNS["penstock.services"]],
    "streams": ["table_name", "sensors", "open", "rows", "rows_per_s", "refused", "late", "newest"],
}
