"""Values of a simulated sensor's fields: its signal, converted by the field's type and name."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from penstock.sensors.signals import Floats, Ints, gaussian, seed_of, walk
from penstock.types import Field, Type

# (words in a field's name, centre, deviation): the range in which a numeric field wanders.
QUANTITIES: tuple[tuple[tuple[str, ...], float, float], ...] = (
    (("ppm", "concentration", "gas", "methane", "co2"), 20.0, 8.0),
    (("temp",), 21.0, 4.0),
    (("pressure", "hpa"), 1013.0, 8.0),
    (("humid", "percent", "level", "battery"), 55.0, 12.0),
    (("speed", "wind"), 60.0, 15.0),
    (("volt",), 12.0, 0.6),
    (("flow", "load", "power"), 100.0, 20.0),
)
GAS_WORDS = QUANTITIES[0][0]
_COUNTERS = ("seq", "sequence", "counter", "n", "number")
_TEXTS = (
    (("gas", "substance"), ("methane", "ammonia", "chlorine", "hydrogen sulfide")),
    (("unit",), ("ppm",)),
    (("status", "state", "quality"), ("ok",)),
)
_DIGITS = 4

# A signal has a deviation near 1 around 0, unless `absolute` says it is the value itself.
ColumnMaker = Callable[[Floats, Ints, Ints], list[Any]]


def names_a_gas(field: Field) -> bool:
    return field.type.kind in ("DOUBLE", "DECIMAL") and any(word in field.name.lower() for word in GAS_WORDS)


def column_maker(field: Field, seed: int, own_signal: bool, absolute: bool) -> ColumnMaker:
    """How to make a field's column from (signal, times_us, numbers of the readings).

    `own_signal`: the field wanders by itself instead of following the sensor's signal. `absolute`: the
    signal is the value itself (a concentration) and is not scaled.
    """
    name, type_ = field.name.lower(), field.type
    field_seed = seed_of(seed, name)
    if name in _COUNTERS and type_.kind in ("INT", "BIGINT"):
        limit = 2**31 if type_.kind == "INT" else 2**62
        return lambda signal, times_us, numbers: (numbers % limit).tolist()
    if type_.kind in ("INT", "BIGINT") and (name == "id" or name.endswith("_id")):
        identity = seed % 4 + 1
        return lambda signal, times_us, numbers: [identity] * len(numbers)
    if type_.kind == "TEXT":
        text = _text(name, seed)
        return lambda signal, times_us, numbers: [text] * len(numbers)
    if type_.kind == "TIMESTAMP":
        return lambda signal, times_us, numbers: times_us.tolist()
    if type_.kind == "BINARY":
        return lambda signal, times_us, numbers: [int(n % 2**32).to_bytes(4, "big") for n in numbers]
    if type_.kind == "STRUCT":
        makers = [(part.name, column_maker(part, field_seed, own_signal, absolute)) for part in type_.fields]
        return lambda signal, times_us, numbers: [
            dict(zip([n for n, _ in makers], values, strict=True))
            for values in zip(*(make(signal, times_us, numbers) for _, make in makers), strict=True)
        ]
    if type_.kind == "ARRAY" and type_.element is not None:
        make_element = column_maker(Field(field.name, type_.element), field_seed, own_signal, absolute)
        return lambda signal, times_us, numbers: [[value] for value in make_element(signal, times_us, numbers)]
    return _numeric_maker(name, type_, field_seed, own_signal, absolute)


def _numeric_maker(name: str, type_: Type, seed: int, own_signal: bool, absolute: bool) -> ColumnMaker:
    centre, deviation = next(
        ((c, d) for words, c, d in QUANTITIES if any(word in name for word in words)), (50.0, 10.0)
    )
    if absolute and not own_signal:
        centre, deviation = 0.0, 1.0

    def make(signal: Floats, times_us: Ints, numbers: Ints) -> list[Any]:
        base = walk(seed, times_us) + 0.02 * gaussian(seed, numbers) if own_signal else signal
        values = np.round(centre + deviation * base, _DIGITS)
        if type_.kind == "DECIMAL":
            digits = Decimal(1).scaleb(-type_.scale)
            return [Decimal(str(v)).quantize(digits) for v in values.tolist()]
        if type_.kind == "BOOLEAN":
            return list((values > (10.0 if absolute else centre)).tolist())
        if type_.kind in ("INT", "BIGINT"):
            return list(np.rint(values).astype(np.int64).tolist())
        return list(values.tolist())

    return make


def _text(name: str, seed: int) -> str:
    for words, choices in _TEXTS:
        if any(word in name for word in words):
            return choices[seed % 4 % len(choices)]
    return name
