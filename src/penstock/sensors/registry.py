"""Which connectors there are: the built-in ones and those that installed packages bring.

A package brings its own with an entry point in the group `penstock.sensors` that names a `Connector`, or a
class that is a `Sensor` or a `PushSensor`. Built-in names win.

The connector `python` is for a sensor class of one's own that no package brings: USING python OPTIONS (class 'my_module:MySensor').
Its module must be importable by the server. Options other than `class` are the class's own: checked against its OPTIONS where it
declares any, else handed over as texts.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from penstock.catalog.model import Table
from penstock.clock import Clock
from penstock.errors import PenstockError, error, suggest
from penstock.sensors import mqtt, replay, simulator, tcp
from penstock.sensors.address_rules import AddressRules
from penstock.sensors.base import AnySensor, Connector, Mode, Option, PushSensor, Sensor, connector_of
from penstock.sensors.options import read_options
from penstock.types import Field


def load_class(spelled: str) -> type[Sensor] | type[PushSensor]:
    """The class behind 'module:Class'; ValueError with a sentence where there is none."""
    module_name, _, class_name = spelled.partition(":")
    if not module_name or not class_name:
        raise ValueError(f'"{spelled}" is not written module:Class')
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except Exception as cause:
        raise ValueError(f'"{spelled}" cannot be imported: {cause}') from cause
    if not inspect.isclass(found) or not issubclass(found, Sensor | PushSensor) or inspect.isabstract(found):
        raise ValueError(f'"{spelled}" is not a Sensor or a PushSensor with all its methods')
    return found


def _own_options(options: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: text for name, text in options.items() if name != "class"}
    sensor: type[Sensor] | type[PushSensor] = options["class"]
    return read_options(sensor.__name__, sensor.OPTIONS, not sensor.OPTIONS, own)


def _create_own(address: str, fields: tuple[Field, ...], options: Mapping[str, Any], clock: Clock) -> AnySensor:
    sensor: type[Sensor] | type[PushSensor] = options["class"]
    return sensor(address, fields, _own_options(options), clock)


def _check_own(fields: tuple[Field, ...], options: Mapping[str, Any]) -> None:
    if not fields:
        raise error("invalid_definition", detail="a sensor needs at least one field")
    _own_options(options)


PYTHON = Connector(
    name="python",
    sentence="A Sensor or PushSensor class of one's own.",
    mode="pull",
    options=(Option("class", None, "Where the class is: 'module:Class'.", load_class),),
    factory=_create_own,
    check=_check_own,
    free_options=True,
)


GROUP = "penstock.sensors"
HTTP = Connector(
    name="http",
    sentence="Readings are pushed to POST /v1/tables/TABLE/readings; always logged, also without a query.",
    mode="outside",
)
BUILT_IN = (simulator.CONNECTOR, replay.CONNECTOR, tcp.CONNECTOR, mqtt.CONNECTOR, HTTP, PYTHON)


def find_connector(name: str) -> Connector:
    """The connector of that name; connector_not_found, with the nearest name, where there is none."""
    for connector in BUILT_IN:
        if connector.name == name.lower():
            return connector
    known = [c.name for c in BUILT_IN] + list(_entry_point_names())
    if name not in _entry_point_names():
        hint = suggest(name, known) or "there are " + ", ".join(known)
        raise error("connector_not_found", connector=name, hint=hint)
    try:
        return _load_entry_point(name)
    except Exception as cause:
        raise error("connector_not_found", connector=name, hint=f"its package does not load: {cause}") from cause


def mode_of(table: Table) -> Mode | None:
    """How the readings of a table come; None where it has no stream, or one that is pushed without a connector."""
    if table.stream is None or table.stream.connector is None:
        return None
    try:
        return find_connector(table.stream.connector).mode
    except PenstockError:
        # Its package is gone since the stream type was created: opening fails, and says so sensor by sensor.
        return "pull"


def parse_options(connector: Connector, options: Mapping[str, str]) -> dict[str, Any]:
    """Defaults and given options as values; invalid_option for an unknown, missing or unreadable one."""
    return read_options(connector.name, connector.options, connector.free_options, options)


def validate_connector(name: str, options: Mapping[str, str], fields: tuple[Field, ...]) -> Connector:
    """Everything that can be said before a sensor is opened: for CREATE STREAM TYPE."""
    connector = find_connector(name)
    parsed = parse_options(connector, options)
    if connector.check is not None:
        connector.check(fields, parsed)
    return connector


def validate_table(table: Table) -> None:
    """What a connector has to say about a table of its sensors: for CREATE TABLE."""
    if table.stream is None or table.stream.connector is None:
        return
    connector = find_connector(table.stream.connector)
    if connector.check_table is not None:
        connector.check_table(table, parse_options(connector, table.stream.options))


def check_addresses(table: Table, addresses: Iterable[str | None], rules: AddressRules) -> None:
    """Refuse addresses that the rules do not allow as they are written: for INSERT and UPDATE."""
    if table.stream is None or table.stream.connector is None:
        return
    check = find_connector(table.stream.connector).check_address
    if check is not None:
        for address in addresses:
            if address:
                check(address, rules)


def create_sensor(
    name: str,
    address: str,
    fields: tuple[Field, ...],
    options: Mapping[str, str],
    clock: Clock,
    rules: AddressRules | None = None,
) -> AnySensor | None:
    """A sensor that is ready for `init`; None where the connector opens nothing. Without rules it reaches loopback only."""
    connector = find_connector(name)
    if connector.factory is None:
        return None
    sensor = connector.factory(address, fields, parse_options(connector, options), clock)
    sensor.rules = rules or AddressRules()
    return sensor


@cache
def _entry_point_names() -> tuple[str, ...]:
    return tuple(sorted(point.name for point in entry_points(group=GROUP)))


@cache
def _load_entry_point(name: str) -> Connector:
    (point, *_) = entry_points(group=GROUP, name=name)
    found = point.load()
    if isinstance(found, Connector):
        return found
    if inspect.isclass(found) and issubclass(found, Sensor | PushSensor):
        return connector_of(name, found)
    raise TypeError(f"{point.value} is neither a Connector nor a Sensor")
