"""Every setting: its name, default and one sentence. Flags win over PENSTOCK_* over penstock.toml."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from penstock.errors import error, suggest


@dataclass(frozen=True, slots=True)
class Setting:
    """One knob as the reference lists it."""

    name: str
    default: Any
    sentence: str


SETTINGS = (
    Setting("data", "penstock-data", "Folder that holds the log, the journal and everything else on disk."),
    Setting("host", "127.0.0.1", "Address to listen on; anything but loopback requires a token or a user."),
    Setting("port", 8470, "Port of the HTTP API."),
    Setting(
        "token",
        "",
        "Secret of an admin, sent as a bearer token, of at least 32 characters; with users and tokens in the folder it is not needed.",
    ),
    Setting(
        "trusted_proxies",
        "",
        "Addresses and networks of proxies whose X-Forwarded-For and X-Forwarded-Proto count, separated by commas; empty means none.",
    ),
    Setting(
        "tls_certificate", "", "File with the server's certificate chain (PEM); with tls_key the server speaks HTTPS."
    ),
    Setting("tls_key", "", "File with the certificate's private key (PEM)."),
    Setting(
        "cors_origins",
        "",
        "Origins whose web pages may call the API with a token, separated by commas; empty means none.",
    ),
    Setting("session_hours", 12, "How long somebody who signed in on the page stays signed in."),
    Setting(
        "requests_per_s",
        0.0,
        "Most requests per second of one client, on average over two seconds; 0 means any number.",
    ),
    Setting("subscribers_max", 10_000, "Most subscribers at a time; one more is refused."),
    Setting("spark_master", "local[*]", "Where Spark runs: local[*], local-cluster[...] or a cluster's URL."),
    Setting(
        "spark_secret_file",
        "",
        "File (mode 0600) with the secret that signs and encrypts Spark's traffic; every master but local[..] and"
        " local-cluster[..] needs it.",
    ),
    Setting("spark_memory", "1g", "Heap of Spark's JVM, in Spark's spelling."),
    Setting("cycle_max_rows", 600_000, "Most new rows that one cycle takes from the log."),
    Setting(
        "cycle_interval_ms", 100, "Least time between the beginnings of two cycles; less costs more processor time."
    ),
    Setting("fill_max_rows", 1_000_000, "Most old rows that one cycle reads for queries that fill their window."),
    Setting(
        "cycle_stall_s",
        30,
        "Longest time without a committed cycle while readings wait; then health says so, and the cycle is looked into and restarted.",
    ),
    Setting(
        "worker_memory_mb",
        2048,
        "Most memory that one of Spark's Python workers takes beyond what it starts with; a query that needs more is taken out of the cycles. 0 means any amount.",
    ),
    Setting(
        "function_timeout_ms",
        5000,
        "Longest processor time of a user's function for one row (vectorised: for 10 000), four times as long by the clock; beyond it, the queries that call it are taken out of the cycles. 0 means any time.",
    ),
    Setting("join_memory_mb", 1024, "Most shared memory for the buffers of joins; beyond it the log is read again."),
    Setting("query_rows_max", 10_000_000, "Longest window of rows (LAST n ROWS) that a standing query may have."),
    Setting("queries_max", 20_000, "Most standing queries that the server keeps; one more is refused."),
    Setting(
        "answers_memory_mb",
        1024,
        "Most shared memory for the answers of many queries; beyond it they are evaluated when asked for.",
    ),
    Setting(
        "slices_memory_mb",
        512,
        "Most memory for the slices of standing aggregations; beyond it those with the most fail.",
    ),
    Setting(
        "exact_values_max",
        5_000_000,
        "Most values that an exact DISTINCT, percentile or TWA keeps one by one, in all groups; beyond it those queries fail.",
    ),
    Setting(
        "history_max_rows",
        1_000_000,
        "Longest history of a new query that is evaluated when first asked for; a longer one is read by cycles.",
    ),
    Setting(
        "discover_max_sensors",
        100_000,
        "Sensors of a table beyond which none is discovered any more (tables WITH discover).",
    ),
    Setting("group_commit_ms", 5, "How long a reading may wait for others before the log is synced."),
    Setting("queue_max_bytes", 256 << 20, "Most bytes of readings that wait to be written before senders wait."),
    Setting("body_max_bytes", 64 << 20, "Largest body of a push; statements have at most 4 MB of it."),
    Setting("push_max_rows", 1_000_000, "Most readings of one push."),
    Setting("compact_after_segments", 128, "Hot segments of a table that start a compaction."),
    Setting("files_max_per_table", 400, "Files of one table's log that compaction keeps below."),
    Setting("idempotency_keep_hours", 24, "How long an Idempotency-Key is remembered."),
    Setting(
        "clock_step_max_s",
        60,
        "A wall clock that jumps by more seconds is not followed until it was stable, or an admin accepts it.",
    ),
    Setting(
        "scrub_days",
        7.0,
        "Every file is read once in so many days and its checksum compared, at most 10 MB a second; 0 means never.",
    ),
    Setting("cycles_keep", 1000, "Committed cycles that a subscriber can go back to."),
    Setting("spark_query_budget", 0.25, "Share of time that standing queries outside the shared pass may use."),
    Setting("result_max_rows", 1_000_000, "Most rows that one answer holds; a larger one is an error."),
    Setting(
        "statement_timeout_s",
        60,
        "Most seconds that one statement may take, waiting included; less or, for admins, more by `timeout_s`.",
    ),
    Setting("statements_max", 8, "Most statements that read the log or ask Spark at a time; more wait for their turn."),
    Setting("statements_per_user", 4, "The same for one user or token."),
    Setting(
        "handed_max_rows",
        20_000_000,
        "Most rows of a window join that a question on top of it reads; more are an error.",
    ),
    Setting("sinks_max", 100, "Most sinks that the server keeps; one more is refused."),
    Setting(
        "sink_backlog_mb",
        256,
        "Most bytes on disk that a sink puts aside while its target is away; beyond it, old cycles are lost to it.",
    ),
    Setting("sink_files", "", "Folder below which sinks write files; empty means `out` in the data folder."),
    Setting(
        "sensor_files",
        "",
        "Folder whose files the addresses of sensors may name; empty means `in` in the data folder.",
    ),
    Setting(
        "connect_allow",
        "",
        "Hosts and ports that may be connected to, such as 10.0.0.0/8:9000, *.plant.example; empty means loopback for addresses"
        " in rows and any host for options of stream types and sinks.",
    ),
    Setting(
        "line_max_bytes",
        1 << 20,
        "Longest line or message of a sensor; a longer one is left out and counted as an error.",
    ),
    Setting("log_level", "WARNING", "Least severe message that the server prints; INFO has a line per request."),
    Setting("log_format", "text", "How the server prints messages: text, or json for one object a line."),
)

# Settings of earlier versions, and why each is gone. A file or variable that still has one is refused.
REMOVED = {
    "catalog_url": "it was removed, because the catalog is no longer copied to a database",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one server. Same names and defaults as SETTINGS; a test compares them."""

    data: str = "penstock-data"
    host: str = "127.0.0.1"
    port: int = 8470
    token: str = ""
    trusted_proxies: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    cors_origins: str = ""
    session_hours: int = 12
    requests_per_s: float = 0.0
    subscribers_max: int = 10_000
    spark_master: str = "local[*]"
    spark_secret_file: str = ""
    spark_memory: str = "1g"
    cycle_max_rows: int = 600_000
    cycle_interval_ms: int = 100
    fill_max_rows: int = 1_000_000
    cycle_stall_s: int = 30
    worker_memory_mb: int = 2048
    function_timeout_ms: int = 5000
    join_memory_mb: int = 1024
    query_rows_max: int = 10_000_000
    queries_max: int = 20_000
    answers_memory_mb: int = 1024
    slices_memory_mb: int = 512
    exact_values_max: int = 5_000_000
    history_max_rows: int = 1_000_000
    discover_max_sensors: int = 100_000
    group_commit_ms: int = 5
    queue_max_bytes: int = 256 << 20
    body_max_bytes: int = 64 << 20
    push_max_rows: int = 1_000_000
    compact_after_segments: int = 128
    files_max_per_table: int = 400
    idempotency_keep_hours: int = 24
    clock_step_max_s: int = 60
    scrub_days: float = 7.0
    cycles_keep: int = 1000
    spark_query_budget: float = 0.25
    result_max_rows: int = 1_000_000
    statement_timeout_s: int = 60
    statements_max: int = 8
    statements_per_user: int = 4
    handed_max_rows: int = 20_000_000
    sinks_max: int = 100
    sink_backlog_mb: int = 256
    sink_files: str = ""
    sensor_files: str = ""
    connect_allow: str = ""
    line_max_bytes: int = 1 << 20
    log_level: str = "WARNING"
    log_format: str = "text"


def load_settings(
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """Defaults, then the file, then PENSTOCK_* variables, then flags that are not None."""
    chosen: dict[str, Any] = {}
    file = file or Path("penstock.toml")
    if file.exists():
        with file.open("rb") as stream:
            chosen.update(tomllib.load(stream))
    known = {f.name for f in fields(Settings)}
    for variable, value in (environ if environ is not None else os.environ).items():
        name = variable.removeprefix("PENSTOCK_").lower()
        if variable.startswith("PENSTOCK_") and (name in known or name in REMOVED):
            chosen[name] = value
    chosen.update({name: value for name, value in (flags or {}).items() if value is not None})
    for name in chosen:
        if name in REMOVED:
            hint = f"take {name} out of penstock.toml and PENSTOCK_{name.upper()} out of the environment"
            raise error("invalid_option", option=name, detail=REMOVED[name], hint=hint)
        if name not in known:
            raise error("invalid_option", option=name, detail="no such setting", hint=suggest(name, known))
    typed = {s.name: _convert(s, chosen[s.name]) for s in SETTINGS if s.name in chosen}
    return Settings(**typed)


def _convert(setting: Setting, value: Any) -> Any:
    wanted = type(setting.default)
    try:
        return wanted(value)
    except (TypeError, ValueError):
        raise error("invalid_option", option=setting.name, detail=f'"{value}" is not a {wanted.__name__}') from None
