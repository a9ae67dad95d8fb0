"""A camera as a stream type of one's own: what stands in `USING python OPTIONS (class 'apps.cameras.camera:Camera')`."""

from __future__ import annotations

from apps.cameras.town import CAMERAS
from apps.cameras.traffic import SECOND, Traffic
from penstock.sensors.base import Option, Reading, ReadResult, Sensor, no_value
from penstock.sensors.options import number, whole_number

# How often a camera looks. Later than a car passes, but with the time when it did.
LOOK_EVERY_US = SECOND // 5


class Camera(Sensor):
    """A camera of the simulated town; its address is its name."""

    OPTIONS = (
        Option("seed", "1", "Another seed, other cars.", whole_number()),
        Option("every_s", "1", "Seconds between two cars that set out.", number(above=0.0)),
    )

    def init(self) -> None:
        if self.address not in CAMERAS:
            raise ValueError(f'there is no camera "{self.address}"; there are {", ".join(CAMERAS)}')
        self._traffic = Traffic(self.options["seed"], self.options["every_s"])
        self._seen_us = self.clock.now_us()

    def read(self) -> Reading:
        now_us = self.clock.now_us()
        sightings = self._traffic.seen(self.address, self._seen_us, now_us)
        self._seen_us = max(self._seen_us, now_us)
        if not sightings:
            return no_value(now_us + LOOK_EVERY_US)
        return Reading(
            ReadResult.NEW_VALUE,
            [(sighting.feature,) for sighting in sightings],
            [sighting.time_us for sighting in sightings],
            next_due_us=now_us + LOOK_EVERY_US,
        )
