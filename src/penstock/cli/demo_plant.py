"""The demo's plant: where its probes stand, and the statements that describe it. Plain data, no server needed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.sensors.plume import HEIGHT_M, PLACES, WIDTH_M

COLUMNS, ROWS = 10, 6
ALARM_PPM = 35

DEFINITIONS = """
CREATE STREAM TYPE IF NOT EXISTS gas_probe AS (gas_name TEXT, ppm DOUBLE)
  USING simulator OPTIONS (kind 'plume', rate '2', every '60s', strength '400', seed '7');

CREATE TABLE IF NOT EXISTS probes (
  probe_id INT PRIMARY KEY, location TEXT, x DOUBLE, y DOUBLE, reading STREAM gas_probe
) WITH (retention = '1 DAY');
"""

ALARMS = "gas_alarm"
LATEST = "latest"
QUERIES = f"""
CREATE QUERY IF NOT EXISTS {ALARMS} AS
  SELECT probe_id, location, ppm, ts FROM probes WHERE ppm > {ALARM_PPM}
  BEGIN (NOW - 1 MINUTE) END (NOW);

CREATE QUERY IF NOT EXISTS {LATEST} AS
  SELECT probe_id, location, x, y, ppm, ts FROM probes
  BEGIN (LAST 1 ROWS PER SENSOR);
"""

OWN_QUESTIONS = (
    f"SELECT * FROM {ALARMS}",
    "SELECT location, MAX(ppm) AS peak FROM probes GROUP BY location",
    f"SUBSCRIBE {ALARMS}",
    f"ALTER QUERY {ALARMS} SET BEGIN (NOW - 10 MINUTES)",
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
