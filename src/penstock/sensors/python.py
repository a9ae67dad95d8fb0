"""A sensor class of one's own, named in the stream type: USING python OPTIONS (class 'my_module:MySensor').

The class is a `Sensor` or a `PushSensor`; its module must be importable by the server. Options other than
`class` are the class's own: checked against its OPTIONS where it declares any, else handed over as texts.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from penstock.clock import Clock
from penstock.errors import error
from penstock.sensors.base import AnySensor, Connector, Option, PushSensor, Sensor
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


def _create(address: str, fields: tuple[Field, ...], options: Mapping[str, Any], clock: Clock) -> AnySensor:
    sensor: type[Sensor] | type[PushSensor] = options["class"]
    return sensor(address, fields, _own_options(options), clock)


def _check(fields: tuple[Field, ...], options: Mapping[str, Any]) -> None:
    if not fields:
        raise error("invalid_definition", detail="a sensor needs at least one field")
    _own_options(options)


CONNECTOR = Connector(
    name="python",
    sentence="A Sensor or PushSensor class of one's own.",
    mode="pull",
    options=(Option("class", None, "Where the class is: 'module:Class'.", load_class),),
    factory=_create,
    check=_check,
    free_options=True,
)
