"""A call of every mining function on the table of stories, most of which find something in a random story."""

from __future__ import annotations

WINDOW = "BEGIN (NOW - 130 SECONDS) END (NOW)"
# What a call takes by place, and what by name.
CALLS = {
    "series": ("value", "every => 2 SECONDS"),
    "anomalies": ("value", "every => 2 SECONDS, history => 80 SECONDS, score => 1.5"),
    "anomaly": ("value", "every => 2 SECONDS, history => 80 SECONDS"),
    "baseline": ("value", "every => 2 SECONDS, season => 10 SECONDS"),
    "periods": ("value", "every => 2 SECONDS, strength => 0.1"),
    "periodic_patterns": ("word", "every => 2 SECONDS, period => 10 SECONDS, confidence => 0.4"),
    "frequent_sequences": ("word", "by => lane, every => 2 SECONDS, longest => 3"),
    "change_points": ("value", "every => 2 SECONDS, penalty => 0.5, shortest => 3"),
    "forecast": ("value", "every => 2 SECONDS, ahead => 3, season => 10 SECONDS"),
    "matches": ("value", "every => 2 SECONDS, shape => ARRAY[10, 30.5, 20, -5]"),
    "clusters": ("3, value, value * value", ""),
    "vector_sum": ("vector", ""),
    "vector_avg": ("counts", ""),
}


def call(name: str, window: str = "") -> str:
    """The function with its arguments, over a window of its own where one is given."""
    by_place, by_name = CALLS[name]
    return f"{name.upper()}({', '.join(part for part in (by_place, window, by_name) if part)})"


def question(name: str, window: str = WINDOW) -> str:
    """A SELECT of the function by place."""
    return f"SELECT place, {call(name)} AS found FROM probes GROUP BY place {window}"
