"""A gamma detector as a stream type: what stands in `USING python OPTIONS (class 'apps.hazmat.detector:Detector')`."""

from __future__ import annotations

from apps.hazmat.belt import SCENARIOS, SECOND, SIDES, Belt, bursts
from penstock.sensors.base import Option, Reading, ReadResult, Row, Sensor, no_value
from penstock.sensors.options import whole_number

LOOK_EVERY_US = SECOND // 4
LONGEST_GAP_US = 600 * SECOND
"""What a detector measured while no server listened is sent later, up to this age."""


def scenario(text: str) -> str:
    if text not in SCENARIOS:
        raise ValueError(f'there is no scenario "{text}"; there are {", ".join(SCENARIOS)}')
    return text


class Detector(Sensor):
    """A detector on one side of the belt; its address is the side. A burst is one second of counts per channel."""

    OPTIONS = (
        Option("scenario", "belt", "belt, empty or threats.", scenario),
        Option("seed", "1", "Another seed, other boxes.", whole_number()),
        Option("period_s", "20", "Seconds from box to box.", whole_number(least=5)),
    )
    _newest_us: int | None = None

    @property
    def resumes(self) -> bool:
        return True

    def resume(self, newest_us: int) -> None:
        self._newest_us = newest_us

    def init(self) -> None:
        if self.address not in SIDES:
            raise ValueError(f'there is no detector "{self.address}"; there are {", ".join(SIDES)}')
        self._belt = Belt(self.options["seed"], self.options["period_s"], self.options["scenario"])
        now_us = self.clock.now_us()
        self._seen_us = now_us if self._newest_us is None else max(self._newest_us, now_us - LONGEST_GAP_US)

    def read(self) -> Reading:
        now_us = self.clock.now_us()
        rows, times = self.measured(self._seen_us, now_us)
        self._seen_us = max(self._seen_us, now_us)
        if not rows:
            return no_value(now_us + LOOK_EVERY_US)
        return Reading(ReadResult.NEW_VALUE, rows, times, next_due_us=now_us + LOOK_EVERY_US)

    def measured(self, after_us: int, until_us: int) -> tuple[list[Row], list[int]]:
        """The bursts that ended in a span of time, in order."""
        rows: list[Row] = []
        times: list[int] = []
        side = SIDES.index(self.address)
        for number in range(self._belt.number_at(after_us), self._belt.number_at(until_us) + 1):
            ends = [self._belt.begins_us(number) + (second + 1) * SECOND for second in range(self._belt.stay_s)]
            wanted = [second for second, end in enumerate(ends) if after_us < end <= until_us]
            if not wanted:
                continue
            counts = bursts(self._belt, number)
            for second in wanted:
                one = counts[second, side]
                rows.append((self._belt.name(number), 1.0, int(one.sum()), one.tolist()))
                times.append(ends[second])
        return rows, times
