"""Sessions of a thousand sensors: ours, with a subscriber, and Spark's session_window in a streaming query.

Each sensor sends for 8 of 20 seconds, so it has a session every 20 seconds, with pauses of 12. Spark gives a session when the watermark has
passed it, ours is in the answer from its first reading on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.quality import Figures
from bench.quality.against_spark import PER_SECOND, SENSORS, Question, measure

GAP_S, WINDOW_S, ACTIVE_S, PERIOD_S = 5, 60, 8, 20
SQL = (
    "SELECT sensor_id, window_start, window_end, COUNT(*) AS n, AVG(b) AS mean FROM readings"
    f" GROUP BY sensor_id, SESSION({GAP_S} SECONDS) BEGIN (NOW - {WINDOW_S} SECONDS) END (NOW)"
)


def active(chance: np.random.Generator, second: int) -> np.ndarray:
    """The sensor of each reading, of those that send in this second."""
    sensors = np.arange(SENSORS)
    sending = sensors[(sensors + second) % PERIOD_S < ACTIVE_S]
    return sending[chance.integers(0, len(sending), PER_SECOND)]


def run(settings: Any) -> Figures:
    """`sessions_ratio_spark`: how many times Spark's rate ours is."""
    checked = "SELECT COUNT(*) AS sessions, SUM(n * mean) AS total FROM asked"
    return measure(Question("sessions", SQL, f"sessions {GAP_S}", WINDOW_S, active, checked), settings)
