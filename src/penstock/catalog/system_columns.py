"""The columns of the tables penstock.*, each with the sentence that the reference shows."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.types import Field, Type, parse_type


@dataclass(frozen=True, slots=True)
class SystemColumn:
    """One column and what it holds."""

    name: str
    type: Type
    sentence: str


# A line for each column: its name, its type, and what it holds.
_TABLES = {
    "penstock.sensors": """
        table_name TEXT the sensor table
        sensor TEXT its key; values of a key of several columns are separated by commas
        address TEXT what its row holds in the stream column, without secrets
        state TEXT opening, open, idle, backing off, hung, ended, closed; pushed: it sends readings to the server
        readings BIGINT readings that were stored
        rows_per_s DOUBLE readings stored per second, over about the last minute
        refused BIGINT readings that were refused
        late BIGINT readings older than the table's newest, but in order for their own sensor: stored
        clamped BIGINT readings with a time that was moved up to their sensor's newest
        deduplicated BIGINT readings that were dropped as repeats
        errors BIGINT how often it could not be opened or read, and readings that could not be decoded
        last_error TEXT the last error
        last_reading TIMESTAMP the newest time among its readings, also from before the start
    """,
    "penstock.queries": """
        name TEXT the standing query
        state TEXT STARTING, FILLING, RUNNING, LAGGING, PAUSED, FINISHED, FAILED
        owner TEXT the user that owns it
        description TEXT what it is for
        runs TEXT shared pass; slices; window join; join with tables (of one stream); either, then slices; window join, then Spark SQL; log, when asked; or Spark SQL
        window TEXT its BEGIN and END, in the shared pass and of a join
        matched BIGINT rows found for it since registration, in the shared pass or by its join; history read again counts again
        progress DOUBLE how much of its history has been read, 0 to 1
        fill_left_s DOUBLE about how many seconds until its history has been read; NULL: it has been, or that cannot be told
        seconds DOUBLE duration of the last evaluation, where Spark SQL answers
        evaluations BIGINT cycles that it took part in; where Spark SQL answers, evaluations
        ms DOUBLE their time: its join's steps, its functions' calls, its history and its share of slices, as workers measured them. An even share of the rest of each cycle comes on top
        asked_ms DOUBLE processor time of the server that invocations took since its start
        finish_ms DOUBLE processor time of its mining functions in an answer that has changed, about; NULL: it has none, or none was measured yet
        rows BIGINT result rows of these evaluations
        bytes BIGINT the size of these rows: in commit records, or in memory where Spark SQL answers
        strategy TEXT how its answer is kept right now: complete, partial or none; NULL for Spark SQL
        strategy_asked TEXT the strategy that a user asked for; NULL: the server chooses the cheapest
        priority TEXT high, normal or low
        behind BIGINT readings that it has not seen yet, because others come first
        delay_p95_ms DOUBLE how long the oldest new reading of a cycle waited until it was in its answer, p95 of the last 20 cycles with readings of its tables; NULL: none came since the start, or Spark SQL answers
        final TEXT when its rows are final, so that no later reading can change them, or why none ever is
        final_to TIMESTAMP before which time rows are final, of panes their end, where rows become final later than they enter
        state_bound TEXT whether its state is bounded, and what it grows with
        state_limit BIGINT the bytes that its option bounded allows; 0: any number, as long as it is bounded; NULL: no such option
        sleeping TEXT why cycles leave it out, and its window is evaluated when it is asked; NULL: they do not
        memory BIGINT bytes that its answer takes, a join's results and Spark's last answers too, with its share of what it shares
        invocations BIGINT how often clients asked for its answer, across restarts
        last_invoked TIMESTAMP when a client last asked
        error TEXT why it fails
        sql TEXT its text
    """,
    "penstock.cycles": """
        cycle BIGINT its number
        now TIMESTAMP the NOW that was fixed when it was planned
        rows BIGINT new readings that it read
        matched BIGINT rows that entered answers, summed over all queries
        ms DOUBLE how long its Spark job took
        bytes BIGINT size of its results in the commit record
        queries BIGINT queries that took part
        journal BIGINT journal position of the definitions that it used
        filling BIGINT queries that were reading history
    """,
    "penstock.units": """
        unit TEXT what is worked on: a table, a function on a table, a family of slices, a join by its first query, or a query
        kind TEXT read of a table, pass over its rows for all selections, call of a function, slices of aggregates, join, or spark for Spark SQL
        queries TEXT the queries that use it; of many the first ten, and how many more
        ns_per_row DOUBLE nanoseconds of a worker per row that it meets; NULL for Spark SQL
        selectivity DOUBLE rows that it gives per row that it meets, summed over all its queries
        rows_per_s DOUBLE rows that it meets per second, over about five seconds
        load DOUBLE the share of the cycle's time that it takes at this rate; of Spark SQL the share of one job's time beside the cycles
    """,
    "penstock.streams": """
        table_name TEXT the sensor table
        sensors BIGINT rows of the table: sensors, not readings
        open BIGINT sensors that are open
        rows BIGINT readings that were ever stored
        files BIGINT files of its log
        accepted BIGINT readings that were stored
        rows_per_s DOUBLE readings stored per second, over about the last minute
        refused BIGINT readings that were refused
        late BIGINT readings older than the table's newest, but in order for their own sensor: stored
        clamped BIGINT readings with a time that was moved up to their sensor's newest
        deduplicated BIGINT readings that were dropped as repeats
        discovered BIGINT sensors that were added at their first reading
        newest TIMESTAMP the newest time among its readings
        valid_time BOOLEAN whether times are the sensors' own
    """,
    "penstock.inputs": """
        name TEXT the input: http, websocket, line protocol, or a connector and its table
        kind TEXT http, websocket, line protocol, or the connector
        table_name TEXT the table it feeds; NULL: any
        state TEXT connecting, connected, backing off, stopped; open: clients send to it
        target TEXT where it is connected to, without secrets
        messages BIGINT messages, lines or bodies that came
        bytes BIGINT their size
        accepted BIGINT readings that were stored
        duplicates BIGINT readings that DEDUPLICATE BY dropped
        refused BIGINT readings and messages that were refused
        reasons TEXT how many of these for which reason
        ignored BIGINT tags, fields and members that the table has no column for
        ignored_names TEXT the names of these
        in_flight BIGINT messages that are being stored
        connects BIGINT how often it was connected
        last_error TEXT the last problem
    """,
    "penstock.fields": """
        table_name TEXT the sensor table
        field TEXT a field of its readings
        type TEXT its type
        sampled BIGINT readings in the sample
        nulls BIGINT how many of them are NULL
        least DOUBLE the least value of the sample; this and the rest for numbers and booleans only
        mean DOUBLE its mean
        stddev DOUBLE its standard deviation
        p05 DOUBLE a twentieth of the values are below
        p50 DOUBLE half of the values are below
        p95 DOUBLE a twentieth of the values are above
        p99 DOUBLE a hundredth of the values are above
        most DOUBLE the greatest value of the sample
    """,
    "penstock.rollups": """
        name TEXT the rollup; it has a row for each of its tiers
        table_name TEXT the sensor table
        every TEXT how wide the tier's cells are
        keep TEXT how long it keeps them, at least, before the next tier takes them
        oldest TIMESTAMP the oldest reading that it has
        newest TIMESTAMP the newest; what is newer stands in a finer tier or in the log
        readings BIGINT readings that it has
        cells BIGINT cells that they became
        files BIGINT files that hold them
        bytes BIGINT size of these files
        error TEXT why readings cannot be rolled up; retention waits meanwhile
        sql TEXT its text
    """,
    "penstock.sinks": """
        name TEXT the sink
        query TEXT the standing query; the sink sends its results
        kind TEXT webhook, files, mqtt or postgres
        target TEXT where it sends them, without secrets
        owner TEXT the user that owns it
        state TEXT STARTING, RUNNING, RETRYING (its target did not take the last batch), PAUSED
        promise TEXT how often a row arrives
        cycle BIGINT everything up to this cycle is delivered, across restarts
        lag BIGINT committed cycles that are not delivered yet
        waiting BIGINT batches that it put aside on disk because its target lags behind
        rows BIGINT rows that it delivered
        deliveries BIGINT batches that it delivered
        failed BIGINT attempts that failed
        retries BIGINT repeated attempts after a failed one
        gaps BIGINT how often cycles were deleted before it read them; it then sent the whole answer
        last_error TEXT the error of the last failed attempt
        last_delivery TIMESTAMP when it last delivered
        options TEXT its options, without secrets
    """,
    "penstock.statements": """
        id TEXT its id, for CANCEL STATEMENT
        owner TEXT the user or token that sent it
        state TEXT waiting (for its turn), running, stopping (it was cancelled, or its time is up)
        place TEXT where it is worked on: server or Spark
        started TIMESTAMP when the server received it
        left_s DOUBLE seconds that it may still take
        text TEXT the beginning of its text; of a statement that reads no data, only its kind and names
    """,
    "penstock.services": """
        name TEXT a piece of work that goes on in the background
        state TEXT running; restarting: its last round failed, and it tries again; stopped
        critical BOOLEAN whether the server is not ready while it fails
        rounds BIGINT rounds that it finished; some rounds last as long as a connection
        failures BIGINT rounds that failed
        last_error TEXT the error of the last failed round
        last_success TIMESTAMP when it last finished a round
    """,
    "penstock.settings": """
        name TEXT the setting
        value TEXT what this server runs with; for admins only, NULL for others; a secret is ***
        default TEXT its value where nothing is set
        sentence TEXT what it decides
    """,
    "penstock.functions": """
        name TEXT the function; one with several names or lists of arguments has several rows
        arguments TEXT what it takes, in the words of the reference
        result TEXT the type that it gives
        kind TEXT scalar, aggregate or ranking (only with OVER)
        built_in BOOLEAN false: a user made it
        language TEXT of a function that a user made; else NULL
    """,
    "penstock.damage": """
        file TEXT the damaged file in the data folder, or the journal entries that are lost
        kind TEXT what it is: log, commit_record, snapshot, results, journal, journal_tail, keys, rollups, sinks; unlisted: so many more files beyond the 1000 that are listed
        detail TEXT what was found, and what was done about it
        since TIMESTAMP when it was first found
        healed BOOLEAN whether no answer needs it any more: a snapshot covers it, or it was made again
        accepted BOOLEAN whether an admin has accepted it with ALTER SYSTEM ACCEPT DAMAGE; health names it no more
        queries TEXT standing queries that fail because of it
    """,
}


def _column(line: str) -> SystemColumn:
    name, type_, sentence = line.split(maxsplit=2)
    return SystemColumn(name, parse_type(type_), sentence)


SYSTEM_COLUMNS = {name: tuple(map(_column, lines.strip().splitlines())) for name, lines in _TABLES.items()}

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
