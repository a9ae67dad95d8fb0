"""What the application tells the server: detectors, actions, functions, and the queries from bursts to verdicts."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from apps.hazmat.actions import ACTIONS, recommend
from apps.hazmat.belt import SIDES
from apps.hazmat.box_state import STATE, VERDICT
from apps.hazmat.functions import MATCHES, PEAK
from apps.hazmat.reading import suro
from apps.hazmat.split import MATERIALS, TEST_BACKGROUND
from penstock.types import parse_type

WINDOW_MINUTES = 10
"""How far back `verdicts` reaches."""


@dataclass(frozen=True, slots=True)
class Site:
    """How a site is set up: its background run, the weakest threat that matters, and how long a box may take.

    `webhook`: the URL that alarms are sent to; without one they go to files.
    """

    background: str
    seed: int = 1
    scenario: str = "belt"
    period_s: int = 20
    a_min: float = 8.0
    max_s: float = 18.0
    webhook: str = ""


def tables(site: Site) -> str:
    return f"""
CREATE STREAM TYPE IF NOT EXISTS gamma_detector AS (box TEXT, live_s DOUBLE, total INT, counts ARRAY<INT> NOT NULL)
  USING python OPTIONS (class 'apps.hazmat.detector:Detector', scenario '{site.scenario}', seed '{site.seed}', period_s '{site.period_s}');

CREATE TABLE IF NOT EXISTS detectors (
  detector TEXT PRIMARY KEY, side TEXT, a0 DOUBLE, a1 DOUBLE, a2 DOUBLE, burst STREAM gamma_detector)
  WITH (time = 'valid', idle = '5 SECONDS', retention = '1 DAY');

CREATE TABLE IF NOT EXISTS actions (finding TEXT PRIMARY KEY, threat BOOLEAN, action TEXT);

CREATE TABLE IF NOT EXISTS decisions (
  box TEXT PRIMARY KEY, verdict TEXT, finding TEXT, confidence DOUBLE, after_s DOUBLE);
"""


def functions(site: Site) -> str:
    """The aggregate that decides, and functions that look at the spectrum of a box."""
    return f"""
CREATE AGGREGATE IF NOT EXISTS judge(detector TEXT, counts ARRAY<INT>, live_s DOUBLE, at TIMESTAMP, a0 DOUBLE, a1 DOUBLE, a2 DOUBLE)
  RETURNS {VERDICT}
  STATE {STATE} LANGUAGE python AS $$
from apps.hazmat import box_state
from apps.hazmat.decision import Rules

def init(): return box_state.init()
def add(state, detector, counts, live_s, at, a0, a1, a2): return box_state.add(state, detector, counts, live_s, at, (a0, a1, a2))
def merge(a, b): return box_state.merge(a, b)
def finish(state): return box_state.finish(state, {site.background!r}, Rules(a_min={site.a_min:g}, max_s={site.max_s:g}))
$$;
CREATE OR REPLACE FUNCTION peaks(bins ARRAY<DOUBLE>) RETURNS {PEAK} LANGUAGE python VECTORISED AS $$
    from apps.hazmat.functions import find_peaks
    return find_peaks(bins)
$$;
CREATE OR REPLACE FUNCTION matches(bins ARRAY<DOUBLE>, live_s DOUBLE) RETURNS {MATCHES} LANGUAGE python VECTORISED AS $$
    from apps.hazmat.functions import match_all
    return match_all(bins, live_s, {site.background!r})
$$;
"""


_CALIBRATION = ", ".join(f"COALESCE({name}, CAST('Infinity' AS DOUBLE))" for name in ("a0", "a1", "a2"))
_JUDGED = f"judge(detector, counts, COALESCE(live_s, 0.0), ts, {_CALIBRATION})"
"""An aggregate leaves rows with NULL out. A burst without live seconds or a calibration is a fault of its box instead."""
_FIELDS = ",\n         ".join(f"({_JUDGED}).{field.name}" for field in parse_type(VERDICT).fields)
QUERIES = {
    "verdicts": f"""CREATE QUERY verdicts AS
  SELECT box, MIN(ts) AS since, MAX(ts) AS last,
         {_FIELDS}
  FROM detectors GROUP BY box BEGIN (NOW - {WINDOW_MINUTES} MINUTES) END (NOW);""",
    "sides": """CREATE QUERY sides AS
  SELECT l.box, AVG(l.total) AS left_counts, AVG(r.total) AS right_counts FROM detectors l, detectors r
  WINDOW(l, r) = 2 SECONDS WHERE l.box = r.box AND l.side = 'left' AND r.side = 'right'
  GROUP BY l.box BEGIN (NOW - 10 MINUTES) END (NOW);""",
    "alarms": """CREATE QUERY alarms AS
  SELECT v.box, v.finding, v.confidence, a.action FROM verdicts v LEFT JOIN actions a ON a.finding = v.finding
  WHERE v.verdict = 'alarm';""",
    "advice": "CREATE QUERY advice AS SELECT finding, action FROM actions;",
}


def create_sink(site: Site) -> str:
    """Alarms go to files below the server's data folder, or to a webhook."""
    target = "files (folder = 'alarms', max_age = 10 SECONDS)"
    if site.webhook:
        target = f"webhook (url = {quoted_text(site.webhook)})"
    return f"CREATE SINK IF NOT EXISTS alarms_out FOR alarms TO {target};"


def quoted_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


LOOK_AT_BOX = """SELECT v.box, v.verdict, v.finding, matches(v.bins, v.live_s) AS matched, peaks(v.bins) AS peaks
FROM verdicts v WHERE v.box = $1"""
"""What the other methods say of one box, and its peaks."""
RECORDED = """\
CREATE STREAM TYPE recorded_burst AS (live_s DOUBLE, counts ARRAY<INT>) USING replay OPTIONS (speed '60x');
CREATE TABLE recordings (name TEXT PRIMARY KEY, burst STREAM recorded_burst) WITH (time = 'valid');
INSERT INTO recordings VALUES ('near potassium', 'k40_bursts.parquet');
CREATE QUERY recorded AS
  SELECT name, COUNT(*) AS bursts, SUM(live_s) AS live_s, VECTOR_SUM(counts) AS counts
  FROM recordings GROUP BY name BEGIN (NOW - 1 DAY) END (NOW);
"""
"""Real bursts of a detector, played by the connector for recordings instead of the simulator."""
INSERT_DECISION = "INSERT INTO decisions VALUES ($1, $2, $3, $4, $5)"
UPDATE_DECISION = "UPDATE decisions SET verdict = $2, finding = $3, confidence = $4, after_s = $5 WHERE box = $1"


def insert_detectors(simulated: bool = True) -> str:
    """Four detectors of the unit whose runs the simulator plays. Without an address, a detector has to push its bursts."""
    a0, a1, a2 = suro()[TEST_BACKGROUND].calibration

    def address(side: str) -> str:
        return f"'{side}'" if simulated else "NULL"

    rows = ", ".join(f"('{side}', '{side}', {a0}, {a1}, {a2}, {address(side)})" for side in SIDES)
    return f"INSERT INTO detectors VALUES {rows};"


def insert_actions() -> str:
    """An action for each finding, and for each pair of materials. Operators may change them while it runs."""
    pairs = [" + ".join(pair) for pair in itertools.combinations(MATERIALS, 2)]
    threat = {action.finding: action.threat for action in ACTIONS}
    findings = [*threat, *pairs]
    rows = ",\n  ".join(f"('{name}', {str(threat.get(name, True)).lower()}, '{recommend(name)}')" for name in findings)
    return f"INSERT INTO actions VALUES\n  {rows};"
