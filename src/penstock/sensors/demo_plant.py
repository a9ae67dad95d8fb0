"""The demo's plant: where its probes stand, and the statements that describe it. Plain data, no server needed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.sensors.signals import HEIGHT_M, PLACES, WIDTH_M

COLUMNS, ROWS = 10, 6
ALARM_PPM = 35

DEFINITIONS = """
CREATE STREAM TYPE IF NOT EXISTS gas_probe AS (gas_name TEXT, ppm DOUBLE)
  USING simulator OPTIONS (kind 'plume', rate '2', every '60s', strength '400', seed '7', start '3m');

CREATE TABLE IF NOT EXISTS probes (
  probe_id INT PRIMARY KEY, location TEXT, x DOUBLE, y DOUBLE, reading STREAM gas_probe
) WITH (time = 'valid', retention = '1 DAY');
"""

ALARMS = "gas_alarm"
LATEST = "latest"
TRACKS = "plume_path"
SILENT = "silent"
SILENT_AFTER_S = 10
# The probes remember three minutes, so that the plume has been somewhere when the demo begins. a0, b0 and c0 are the
# readings just before a, b and c: together they say that the gas has just come. A neighbour is at most 60 m away, and
# gas that comes to all three at once has not come along that way.
QUERIES = f"""
CREATE QUERY IF NOT EXISTS {ALARMS} AS
  SELECT probe_id, location, ppm, ts FROM probes WHERE ppm > {ALARM_PPM}
  BEGIN (NOW - 1 MINUTE) END (NOW);

CREATE QUERY IF NOT EXISTS {LATEST} AS
  SELECT probe_id, location, x, y, ppm, ts FROM probes
  BEGIN (LAST 1 ROWS PER SENSOR);

CREATE QUERY IF NOT EXISTS {TRACKS} AS
  SELECT a.probe_id AS first, b.probe_id AS second, c.probe_id AS third, c.location AS place, a.ts AS began, ts
  FROM probes a0, probes a, probes b0, probes b, probes c0, probes c
  DWINDOW(a, b) = 1 MINUTE AND DWINDOW(b, c) = 1 MINUTE AND WINDOW(a, c) BETWEEN 20 SECONDS AND 2 MINUTES
    AND WINDOW(a0, a) BETWEEN 1 MS AND 900 MS
    AND WINDOW(b0, b) BETWEEN 1 MS AND 900 MS
    AND WINDOW(c0, c) BETWEEN 1 MS AND 900 MS
  WHERE a0.probe_id = a.probe_id AND a0.ppm <= {ALARM_PPM} AND a.ppm > {ALARM_PPM}
    AND b0.probe_id = b.probe_id AND b0.ppm <= {ALARM_PPM} AND b.ppm > {ALARM_PPM}
    AND c0.probe_id = c.probe_id AND c0.ppm <= {ALARM_PPM} AND c.ppm > {ALARM_PPM}
    AND b.x > a.x AND (b.x - a.x) * (b.x - a.x) + (b.y - a.y) * (b.y - a.y) < 3600
    AND c.x > b.x AND (c.x - b.x) * (c.x - b.x) + (c.y - b.y) * (c.y - b.y) < 3600
  BEGIN (NOW - 5 MINUTES) END (NOW);

CREATE QUERY IF NOT EXISTS {SILENT} AS
  SELECT p.probe_id, p.location, p.ts FROM probes p
  WHERE NOT EXISTS (
    SELECT 1 FROM probes n WHERE n.probe_id = p.probe_id AND n.ts > p.ts DWINDOW(p, n) = {SILENT_AFTER_S} SECONDS)
  BEGIN (NOW - 5 MINUTES) END (NOW);
"""

OWN_QUESTIONS = (
    f"SELECT * FROM {ALARMS}",
    "SELECT location, MAX(ppm) AS peak FROM probes GROUP BY location",
    f"SUBSCRIBE {TRACKS}",
    f"ALTER QUERY {ALARMS} SET BEGIN (NOW - 10 MINUTES)",
    "DELETE FROM probes WHERE probe_id = 60",
)


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe: metres east and north of the plant's south-west corner."""

    probe_id: int
    location: str
    x: float
    y: float


def probes() -> tuple[Probe, ...]:
    """Sixty probes on a grid with every other row moved, each named after the nearest place."""
    found = []
    for row in range(ROWS):
        for column in range(COLUMNS):
            x = WIDTH_M / COLUMNS * (column + (0.65 if row % 2 else 0.35))
            y = HEIGHT_M / ROWS * (row + 0.5)
            near = min(PLACES, key=lambda place: math.dist((x, y), PLACES[place]))
            found.append(Probe(row * COLUMNS + column + 1, near, round(x, 1), round(y, 1)))
    return tuple(found)


def insert_statement() -> str:
    """INSERT of every probe; the address of a simulated probe is its position."""
    rows = ",\n  ".join(f"({p.probe_id}, '{p.location}', {p.x}, {p.y}, '{p.x:g},{p.y:g}')" for p in probes())
    return f"INSERT INTO probes VALUES\n  {rows};"
