"""Every setting: its name, default and one sentence. Flags win over PENSTOCK_* over penstock.toml."""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from penstock.errors import error, suggest

_log = logging.getLogger("penstock.settings")


@dataclass(frozen=True, slots=True)
class Setting:
    """One knob as the reference lists it."""

    name: str
    default: Any
    sentence: str


def _setting(default: Any, sentence: str) -> Any:
    return field(default=default, metadata={"sentence": sentence})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one server; the reference lists each with its default and its sentence."""

    data: str = _setting("penstock-data", "Folder that holds the log, the journal and everything else on disk.")
    host: str = _setting("127.0.0.1", "Address to listen on; anything but loopback requires a token or a user.")
    port: int = _setting(8470, "Port of the HTTP API.")
    token: str = _setting(
        "",
        "Secret of an admin, sent as a bearer token, of at least 32 characters; with users and tokens in the folder it is not needed.",
    )
    trusted_proxies: str = _setting(
        "",
        "Addresses and networks of proxies whose X-Forwarded-For and X-Forwarded-Proto count, separated by commas; empty means none.",
    )
    tls_certificate: str = _setting(
        "", "File with the server's certificate chain (PEM); with tls_key the server speaks HTTPS."
    )
    tls_key: str = _setting("", "File with the certificate's private key (PEM).")
    cors_origins: str = _setting(
        "", "Origins whose web pages may call the API with a token, separated by commas; empty means none."
    )
    session_hours: int = _setting(12, "How long a user stays signed in on the page, in hours.")
    requests_per_s: float = _setting(
        0.0, "Most requests per second of one client, on average over two seconds; 0 means any number."
    )
    subscribers_max: int = _setting(10_000, "Most subscribers at a time; one more is refused.")
    spark_master: str = _setting("local[*]", "Where Spark runs: local[*], local-cluster[...] or a cluster's URL.")
    spark_secret_file: str = _setting(
        "",
        "File (mode 0600) with the secret that signs and encrypts Spark's traffic; every master but local[..] and"
        " local-cluster[..] needs it.",
    )
    spark_memory: str = _setting("1g", "Heap of Spark's JVM, in Spark's spelling.")
    cycle_max_rows: int = _setting(600_000, "Most new rows that one cycle takes from the log.")
    cycle_interval_ms: int = _setting(
        20, "Least time between the beginnings of two cycles; less costs more processor time."
    )
    fill_max_rows: int = _setting(1_000_000, "Most old rows that one cycle reads for queries that fill their window.")
    cycle_stall_s: int = _setting(
        30,
        "Longest time without a committed cycle while readings wait; then health says so, and the cycle is looked into and restarted.",
    )
    worker_memory_mb: int = _setting(
        2048,
        "Most memory that one of Spark's Python workers takes beyond what it starts with; a query that needs more is taken out of the cycles. 0 means any amount.",
    )
    function_timeout_ms: int = _setting(
        5000,
        "Longest processor time of a user's function for one row (vectorised: for 10 000), four times as long by the clock. Beyond it, the queries that call it are taken out of the cycles. 0 means any time.",
    )
    code_workers: int = _setting(
        2,
        "Most processes that merge and finish the states of user aggregates, started when they are needed. One that takes longer than function_timeout_ms for a request is killed, and its query fails.",
    )
    join_memory_mb: int = _setting(
        1024, "Most shared memory for the buffers of joins; beyond it the log is read again."
    )
    query_rows_max: int = _setting(10_000_000, "Longest window of rows (LAST n ROWS) that a standing query may have.")
    queries_max: int = _setting(20_000, "Most standing queries that the server keeps; one more is refused.")
    answers_memory_mb: int = _setting(
        1024, "Most shared memory for the answers of many queries; beyond it they are evaluated when asked for."
    )
    slices_memory_mb: int = _setting(
        512,
        "Most memory for the slices of standing aggregations; beyond it queries fail, the least important first, of these those that have grown the most.",
    )
    exact_values_max: int = _setting(
        5_000_000,
        "Most values that an exact DISTINCT, percentile, TWA, series of readings, VECTOR_SUM or CLUSTERS keeps one by one, in all groups; beyond it those queries fail.",
    )
    series_slots_max: int = _setting(
        4_000_000,
        "Most slots, readings or rows of samples that SERIES and other mining functions see in one answer, and most elements that each of them returns, in all groups.",
    )
    answer_read_max_rows: int = _setting(
        200_000,
        "Most rows of the log that one answer reads in the server process; more are read by Spark or by cycles.",
    )
    discover_max_sensors: int = _setting(
        100_000, "Sensors of a table beyond which none is discovered any more (tables WITH discover)."
    )
    group_commit_ms: int = _setting(5, "How long a reading may wait for others before the log is synced.")
    queue_max_bytes: int = _setting(256 << 20, "Most bytes of readings that wait to be written before senders wait.")
    body_max_bytes: int = _setting(64 << 20, "Largest body of a push; statements have at most 4 MB of it.")
    push_max_rows: int = _setting(1_000_000, "Most readings of one push.")
    compact_after_segments: int = _setting(128, "Hot segments of a table that start a compaction.")
    files_max_per_table: int = _setting(400, "Files of one table's log that compaction keeps below.")
    idempotency_keep_hours: int = _setting(24, "How long an Idempotency-Key is remembered.")
    clock_step_max_s: int = _setting(
        60, "A wall clock that jumps by more seconds is not followed until it was stable, or an admin accepts it."
    )
    scrub_days: float = _setting(
        7.0, "Every file is read once in so many days and its checksum compared, at most 10 MB a second; 0 means never."
    )
    cycles_keep: int = _setting(2000, "Committed cycles that a subscriber can go back to.")
    sleep_after_s: float = _setting(
        60.0,
        "A selection that no client has used for so many seconds sleeps: its window is evaluated when asked; 0: none.",
    )
    headroom: float = _setting(
        0.8,
        "Load of the cycle that queries may come to, as a share of its time; the rest is for questions that are asked once.",
    )
    admission: str = _setting(
        "notice",
        "What a query gets that takes the load above headroom: a notice, or with refuse the error over_budget.",
    )
    subscribers_budget: float = _setting(
        0.15,
        "Share of one processor for the events of aggregates; beyond it a subscriber gets one event for several cycles.",
    )
    selections_budget: float = _setting(
        0.4,
        "Share of one processor for the events of selections; beyond it an event has the rows of several cycles. No row is left out.",
    )
    mining_budget: float = _setting(
        0.25,
        "Share of one processor for SERIES and other mining functions of standing queries: of their events and, as an estimate, of what CREATE QUERY admits.",
    )
    spark_query_budget: float = _setting(0.25, "Share of time that Spark SQL may use to evaluate standing queries.")
    result_max_rows: int = _setting(1_000_000, "Most rows that one answer holds; a larger one is an error.")
    statement_timeout_s: int = _setting(
        60, "Most seconds that one statement may take, waiting included; less or, for admins, more by `timeout_s`."
    )
    statements_max: int = _setting(
        8, "Most statements that read the log or ask Spark at a time; more wait for their turn."
    )
    statements_per_user: int = _setting(4, "The same for one user or token.")
    handed_max_rows: int = _setting(
        20_000_000, "Most rows of a window join that a question on top of it reads; more are an error."
    )
    sinks_max: int = _setting(100, "Most sinks that the server keeps; one more is refused.")
    sink_backlog_mb: int = _setting(
        256, "Most bytes on disk that a sink puts aside while its target is away; beyond it, old cycles are lost to it."
    )
    sink_files: str = _setting("", "Folder below which sinks write files; empty means `out` in the data folder.")
    sensor_files: str = _setting(
        "", "Folder whose files the addresses of sensors may name; empty means `in` in the data folder."
    )
    connect_allow: str = _setting(
        "",
        "Hosts and ports that may be connected to, such as 10.0.0.0/8:9000, *.plant.example. Empty means loopback for addresses"
        " in rows and any host for options of stream types and sinks.",
    )
    line_max_bytes: int = _setting(
        1 << 20, "Longest line or message of a sensor; a longer one is left out and counted as an error."
    )
    log_level: str = _setting("WARNING", "Least severe message that the server prints; INFO has a line per request.")
    log_format: str = _setting("text", "How the server prints messages: text, or json for one object a line.")


SETTINGS = tuple(Setting(f.name, f.default, f.metadata["sentence"]) for f in fields(Settings))

# Settings of earlier versions, and why each is gone. A file or variable that still has one is refused.
REMOVED = {"catalog_url": "it was removed, because the catalog is no longer copied to a database"}

# Settings of the version before with the names that they have now. A warning says so.
RENAMED = {"history_max_rows": "answer_read_max_rows"}


def load_settings(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None, file: Path | None = None
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
        if variable.startswith("PENSTOCK_") and (name in known or name in REMOVED or name in RENAMED):
            chosen[name] = value
    chosen.update({name: value for name, value in (flags or {}).items() if value is not None})
    for old in [name for name in chosen if name in RENAMED]:
        _log.warning('the setting "%s" is now called "%s"; a later version refuses the old name', old, RENAMED[old])
        chosen.setdefault(RENAMED[old], chosen.pop(old))
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
