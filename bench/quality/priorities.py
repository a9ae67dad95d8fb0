"""How long an alarm of class high waits beside a heavy query of class low and of class normal; as the negative control, both are normal.

The heavy query calls a slow function on every row. Markers are the alarm's rows: a latency is from the push of a reading to the event
of a subscriber. The first seconds, in which the pace learns the cost, are left out by a run before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.foundations import drain
from bench.queries_server import hold, set_up, task_of
from bench.server import Server

RATE = 10_000
SECONDS = 30.0
LEARN_S = 8.0
SEED = 52
# About half a millisecond a row: five seconds of work for each second of readings.
SLOW = "CREATE FUNCTION slow(x INT) RETURNS BOOLEAN LANGUAGE python AS $$ sum(i * i for i in range(20_000)) % 2 == x % 2 $$"
HEAVY = "SELECT sensor_id, a FROM readings WHERE slow(a) BEGIN (NOW - 10 SECONDS) END (NOW)"


def run(settings: Any = None) -> dict[str, float | None]:
    """`settings` may have `seconds`, how long the rate is held."""
    seconds = float(getattr(settings, "seconds", None) or SECONDS)
    say = getattr(settings, "say", print)
    found: dict[str, float | None] = {}
    for name, alarm, heavy in (
        ("heavy", "high", "low"),
        ("heavy_normal", "high", "normal"),
        ("control", "normal", "normal"),
        ("alone", "high", None),
    ):
        found |= measure(name, alarm, heavy, seconds, say)
    return found


def measure(
    name: str, alarm: str, heavy: str | None, seconds: float, say: Callable[[str], None]
) -> dict[str, float | None]:
    """`alarm` and `heavy`: the classes of the two queries."""
    with Server() as server:
        set_up(server)
        server.sql(f"ALTER QUERY markers SET PRIORITY {alarm}")
        if heavy is not None:
            server.sql(SLOW)
            server.sql(f"CREATE QUERY heavy WITH (priority = '{heavy}') AS {HEAVY}")
        hold(server, task_of(server, RATE, LEARN_S, SEED))
        held = hold(server, task_of(server, RATE, seconds, SEED + 1))
        behind = server.sql("SELECT MAX(behind) FROM penstock.queries")["rows"][0][0]
        say(f"alarm, {name}: p50 {held['p50_ms']:.0f} ms, p99 {held['p99_ms']:.0f} ms, {behind} rows behind")
        if heavy is None:
            drain(server)
        return {
            f"alarm_delay_p50_ms_{name}": held["p50_ms"],
            f"alarm_delay_p99_ms_{name}": held["p99_ms"],
            f"alarm_delay_seen_{name}": held["markers_seen"] / max(1, held["markers"]),
            f"alarm_rows_behind_{name}": float(behind),
        }
