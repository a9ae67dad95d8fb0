"""Messages of a real broker into the log: with QoS 1, at rising rates, until the log falls behind; all of them are counted."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.report import Report
from bench.server import Server
from bench.tables import write_table
from tests.support.mosquitto import PROGRAM, Mosquitto

MESSAGE_RATES = (11_000, 15_000, 20_000, 30_000)
SENSORS = 1_000
WARM_RATE, WARM_S = 2_000, 5.0
DRAIN_S = 120.0
BEHIND_S = 1.0
"""So many seconds of messages may be on their way when the publisher ends."""
TYPE = "CREATE STREAM TYPE probe AS (ppm DOUBLE, seq BIGINT) USING mqtt OPTIONS (url '{url}', topic 'plant/{{sensor}}')"
TABLE = "CREATE TABLE probes (sensor INT PRIMARY KEY, reading STREAM probe) WITH (discover = true)"
ALARM = "CREATE QUERY alarms AS SELECT sensor, ppm, ts FROM probes WHERE ppm > 99 BEGIN (NOW - 1 MINUTE) END (NOW)"


def measure_mqtt(report: Report, seconds: float, rates: Sequence[int]) -> None:
    if PROGRAM is None:
        report.say("[bold red]mqtt:[/bold red] left out, there is no mosquitto here (apt install mosquitto)")
        report.put("mqtt_messages_per_s", None)
        return
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        broker = Mosquitto(Path(folder) / "broker")
        try:
            with Server() as server:
                run(report, server, broker, seconds, rates)
        finally:
            broker.stop()


def run(report: Report, server: Server, broker: Mosquitto, seconds: float, rates: Sequence[int]) -> None:
    for statement in (TYPE.format(url=broker.url), TABLE, ALARM):
        server.sql(statement)
    wait_for_broker(server)
    published = publish(server, broker, WARM_RATE, WARM_S, first=0)["published"]
    steps: list[dict[str, Any]] = []
    for rate in rates:
        report.say(f"mqtt: {rate:,} messages/s for {seconds:.0f} s")
        found = publish(server, broker, rate, seconds, first=published)
        published += found["published"]
        steps.append(found)
        report.say(
            f"  {found['messages_per_s']:.0f} messages/s in the log, {found['behind']} behind:"
            f" {'kept up' if found['kept'] else 'fell behind'}"
        )
        if not found["kept"]:
            break
    best = sustained(steps)
    report.put("mqtt_messages_per_s", best["messages_per_s"], published)
    report.put("mqtt_keeps_up", float(best["kept"]))
    report.put("mqtt_cpu_cores", best["cores"])
    put_counts(report, server, published)
    rows = [{name: step[name] for name in ("rate", "messages_per_s", "behind", "cores", "kept")} for step in steps]
    write_table("console_mqtt", "MQTT messages with QoS 1 into the log", rows)


def publish(server: Server, broker: Mosquitto, rate: int, seconds: float, first: int) -> dict[str, Any]:
    """Publish at a rate and wait until the log has it all; the rate in the log is that while the publisher was at it."""
    before, cpu = taken(server), server.cpu_seconds()
    task = {"port": broker.port, "rate": rate, "seconds": seconds, "first": first, "sensors": SENSORS}
    command = [sys.executable, "-m", "bench.console_publisher", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found = dict(json.loads(done.stdout))
    stored, passed_s = taken(server) - before, time.time() - found["began"]
    cores = (server.cpu_seconds() - cpu) / passed_s
    behind = found["published"] - stored
    reached = found["published"] / found["seconds"]
    wait_until_taken(server, before + found["published"])
    kept = reached >= 0.97 * rate and behind <= BEHIND_S * rate
    return {**found, "rate": rate, "messages_per_s": stored / passed_s, "behind": behind, "cores": cores, "kept": kept}


def sustained(steps: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The highest rate that the log kept up with; where there is none, what it did at the lowest."""
    return max((step for step in steps if step["kept"]), key=lambda step: step["messages_per_s"], default=steps[0])


def put_counts(report: Report, server: Server, published: int) -> None:
    """Every message has a number: what of them is in the log, and is there once?"""
    counted = server.sql("SELECT COUNT(seq) AS stored, COUNT(DISTINCT seq) AS different FROM probes")
    stored, different = counted["rows"][0]
    report.put("mqtt_published", published)
    report.put("mqtt_in_log", stored)
    report.put("mqtt_lost", published - different)
    report.put("mqtt_doubled", stored - different)


def facts(server: Server) -> dict[str, Any]:
    return dict(server.status()["inputs"]["mqtt probes"])


def taken(server: Server) -> int:
    """Messages that the log has."""
    return int(facts(server)["accepted"])


def wait_for_broker(server: Server) -> None:
    deadline = time.monotonic() + 30
    while not facts(server)["connected"]:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the server does not reach the broker: {facts(server)}\n{server.log_tail()}")
        time.sleep(0.05)


def wait_until_taken(server: Server, count: int) -> None:
    """As long as there is progress at all."""
    have, deadline = 0, time.monotonic() + DRAIN_S
    while have < count and time.monotonic() < deadline:
        time.sleep(0.2)
        if (now := taken(server)) > have:
            have, deadline = now, time.monotonic() + DRAIN_S
