"""The three highest readings of each of a thousand sensors in the last minute: ours, with a subscriber, and the same SQL on Spark.

Spark's streaming refuses ROW_NUMBER over anything but time. So Spark evaluates the window as a batch, once per five seconds of readings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.quality import Figures
from bench.quality.against_spark import PER_SECOND, SENSORS, Question, measure

MOST, WINDOW_S = 3, 60
SQL = (
    f"SELECT sensor_id, b, ts FROM readings QUALIFY ROW_NUMBER() OVER (PARTITION BY sensor_id ORDER BY b DESC) <= {MOST}"
    f" BEGIN (NOW - {WINDOW_S} SECONDS) END (NOW)"
)


def any_sensor(chance: np.random.Generator, second: int) -> np.ndarray:
    return chance.integers(0, SENSORS, PER_SECOND)


def run(settings: Any) -> Figures:
    """`topk_ratio_spark`: how many times Spark's rate ours is."""
    checked = "SELECT COUNT(*) AS found, SUM(b) AS total FROM asked"
    return measure(Question("topk", SQL, f"topk {MOST}", WINDOW_S, any_sensor, checked), settings)
