"""The console and the ways in and out: from push to screen, MQTT messages a second, and what a reader that stops costs."""

from __future__ import annotations

from bench.console_mqtt import MESSAGE_RATES, measure_mqtt
from bench.console_readers import measure_readers
from bench.console_screen import RATE, measure_screen
from bench.report import Report


class Console:
    """All measures of what people and devices outside see, in one run on one machine."""

    PARTS = ("screen", "mqtt", "readers")

    def __init__(self, seconds: float, memory_minutes: float, only: str, rates: str) -> None:
        """`seconds` that each rate is held, and half of the readers' time; `rates` are tuples/s and messages/s alike.

        `memory_minutes` says nothing here: memory is watched while readers read.
        """
        self.seconds = seconds
        chosen = [int(r) for r in rates.split(",")] if rates else []
        self.rate = max(chosen, default=RATE)
        self.message_rates = sorted(chosen) or list(MESSAGE_RATES)
        self.only = set(filter(None, only.split(",")))
        self.report = Report("console", f"each rate held for {seconds:.0f} s", keep=bool(self.only))

    def run(self) -> None:
        parts = {
            "screen": lambda: measure_screen(self.report, self.seconds, self.rate),
            "mqtt": lambda: measure_mqtt(self.report, self.seconds, self.message_rates),
            "readers": lambda: measure_readers(self.report, 2 * self.seconds),
        }
        for name, part in parts.items():
            if not self.only or name in self.only:
                part()
                self.report.save()
        self.report.show()
