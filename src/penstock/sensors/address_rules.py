"""What addresses in rows may name: files, hosts, and how long a line from there may be."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from penstock.sensors.sensor_files import SensorFiles
from penstock.sensors.targets import Targets
from penstock.settings import Settings

LINE_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class AddressRules:
    """The rules of one server. Without settings: no file, loopback only."""

    files: SensorFiles = field(default_factory=lambda: SensorFiles(None))
    targets: Targets = field(default_factory=Targets)
    line_max_bytes: int = LINE_MAX_BYTES


def rules_of(settings: Settings, data: Path) -> AddressRules:
    """The rules that the settings of a server with this data folder make."""
    folder = data / (settings.sensor_files or "in")
    return AddressRules(SensorFiles(folder), Targets(settings.connect_allow), settings.line_max_bytes)
