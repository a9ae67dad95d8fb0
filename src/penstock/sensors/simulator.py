"""Simulated sensors, for demos, tests and benches: seeded, and pure functions of seed, address and time.

Reading number k happens at a fixed time and is handed over at that time or a fixed delay later, whether
a query read it before or not. Readings are computed in blocks ahead of their time, so that a poll costs a
look-up: thousands of simulators run beside a server.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from penstock.clock import SECOND, Clock, parse_timestamp
from penstock.errors import error
from penstock.sensors.base import END, Connector, Option, Reading, ReadResult, Row, Sensor, no_value
from penstock.sensors.options import duration, number, one_of, whole_number
from penstock.sensors.signals import (
    BACKGROUND_PPM,
    Floats,
    Ints,
    Plume,
    gaussian,
    periodic,
    position_of,
    seed_of,
    uniform,
    walk,
)
from penstock.types import Field, Type

KINDS = ("plume", "walk", "periodic", "bursty", "silent", "lagging", "out_of_order")
_MOST_ROWS = 8192


def _start(text: str) -> tuple[str, int]:
    """'' (when opened), a time, or how long before the opening."""
    if not text:
        return "ago", 0
    try:
        return "at", parse_timestamp(text)
    except ValueError:
        pass
    try:
        return "ago", duration(text)
    except ValueError:
        raise ValueError(f'"{text}" is neither a time nor a duration') from None


OPTIONS = (
    Option("kind", "walk", "What the sensor does: " + ", ".join(KINDS) + ".", one_of(*KINDS)),
    Option("rate", "1", "Readings per second of each sensor.", number(above=0.0, most=1e6)),
    Option("seed", "1", "Another seed, another world; the same seed, the same readings.", whole_number()),
    Option("start", "", "Time of the first reading, or how long before the opening; empty means the opening.", _start),
    Option("count", "0", "Readings after which the sensor ends; 0 means never.", whole_number()),
    Option("lag", "0s", "How long after its time a reading is handed over (lagging: 5s, out_of_order: 3s).", duration),
    Option("disorder", "0.1", "Share of readings that out_of_order holds back for up to the lag.", number(0.0, 1.0)),
    Option("period", "1m", "Period of a periodic signal.", duration),
    Option("burst", "20", "Readings in one burst of a bursty sensor.", whole_number(1)),
    Option("every", "90s", "Time between two puffs of gas.", duration),
    Option("strength", "300", "Typical peak of a puff at the leak, in ppm.", number(above=0.0)),
)


class Simulator(Sensor):
    """One simulated sensor. The address is its name; for a plume its position 'x,y', a place or any name."""

    OPTIONS = OPTIONS

    def __init__(self, address: str, fields: tuple[Field, ...], options: Mapping[str, Any], clock: Clock) -> None:
        super().__init__(address, fields, options, clock)
        self._kind: str = options["kind"]
        self._seed = seed_of(options["seed"], address)
        self._step_us = max(1, round(SECOND / options["rate"]))
        # A phase of their own keeps thousands of sensors from all being due in the same instant.
        self._phase_us = self._seed % self._step_us
        self._block = int(min(1024, max(16, options["rate"])))
        lag_us = options["lag"] or {"lagging": 5 * SECOND, "out_of_order": 3 * SECOND}.get(self._kind, 0)
        self._lag_us: int = lag_us
        self._plume = Plume(options["seed"], options["every"] / SECOND, options["strength"])
        self._position = position_of(address)
        plume = self._kind == "plume"
        follows = _followers(fields, gas_only=plume)
        self._makers = [column_maker(field, self._seed, field.name not in follows, plume) for field in fields]
        self._stored_us: int | None = None
        self._next = 0  # number of the first reading that is not computed yet
        self._end: int | None = None  # number of the reading that never comes
        self._due: list[int] = []
        self._times: list[int] = []
        self._rows: list[Row] = []
        self._cursor = 0

    @property
    def resumes(self) -> bool:
        return bool(self.options["start"] != ("ago", 0))

    def resume(self, newest_us: int) -> None:
        self._stored_us = newest_us

    def init(self) -> None:
        how, value = self.options["start"]
        opened_us = self.clock.now_us()
        if (how, value) == ("ago", 0):
            # What is on its way at the opening still arrives; what was due before is gone.
            self._next = self._number_at(opened_us - (0 if self.options["count"] else self._lag_us))
        else:
            self._next = self._number_at(value if how == "at" else opened_us - value)
        if self.options["count"]:
            self._end = self._next + self.options["count"]
        if self._stored_us is not None:
            self._next = max(self._next, self._number_at(self._stored_us + 1))
        if (how, value) == ("ago", 0):
            self._fill(opened_us)
            self._cursor = bisect_left(self._due, opened_us)

    def read(self) -> Reading:
        if self._kind == "silent":
            return no_value(self.clock.now_us() + 3600 * SECOND)
        now_us = self.clock.now_us()
        if self._cursor == len(self._due) or self._due[-1] <= now_us or self._lag_us:
            self._fill(now_us)
        last = min(bisect_right(self._due, now_us, lo=self._cursor), self._cursor + _MOST_ROWS)
        if last == self._cursor:
            if self._cursor == len(self._due) and self._end is not None and self._next >= self._end:
                return END
            return no_value(self._next_due_us(last))
        chosen = slice(self._cursor, last)
        self._cursor = last
        return Reading(
            ReadResult.NEW_VALUE, self._rows[chosen], self._times[chosen], next_due_us=self._next_due_us(last)
        )

    def _next_due_us(self, cursor: int) -> int:
        if cursor < len(self._due):
            return self._due[cursor]
        return int(self._times_of(np.array([self._next], dtype=np.int64))[0])

    def _fill(self, now_us: int) -> None:
        """Compute blocks until every reading that may be due by now is there, and one more for later.

        Delays are never negative: once the first time of the next block lies ahead, nothing due is missing.
        """
        if self._cursor:
            del self._due[: self._cursor], self._times[: self._cursor], self._rows[: self._cursor]
            self._cursor = 0
        while (self._end is None or self._next < self._end) and len(self._due) < 2 * _MOST_ROWS:
            upcoming = int(self._times_of(np.array([self._next], dtype=np.int64))[0])
            if upcoming > now_us and self._due:
                break
            last = self._next + self._block if self._end is None else min(self._next + self._block, self._end)
            numbers = np.arange(self._next, last, dtype=np.int64)
            self._next = last
            times_us = self._times_of(numbers)
            due_us = times_us + self._delays_of(numbers)
            signal = self._signal(numbers, times_us)
            self._due += due_us.tolist()
            self._times += times_us.tolist()
            self._rows += zip(*(make(signal, times_us, numbers) for make in self._makers), strict=True)
        if self._kind == "out_of_order":
            order = sorted(range(len(self._due)), key=self._due.__getitem__)
            self._due = [self._due[i] for i in order]
            self._times = [self._times[i] for i in order]
            self._rows = [self._rows[i] for i in order]

    def _number_at(self, time_us: int) -> int:
        """The first reading that does not happen before this time."""
        guess = (time_us - self._phase_us) // self._step_us - 2 * int(self.options["burst"])
        numbers = np.arange(guess, guess + 4 * int(self.options["burst"]) + 4, dtype=np.int64)
        return int(numbers[np.searchsorted(self._times_of(numbers), time_us)])

    def _times_of(self, numbers: Ints) -> Ints:
        if self._kind != "bursty":
            return np.asarray(numbers * self._step_us + self._phase_us, dtype=np.int64)
        burst = int(self.options["burst"])
        group, place = np.divmod(numbers, burst)
        length_us = burst * self._step_us
        shift = (uniform(self._seed, group) * 0.6 * length_us).astype(np.int64)
        times_us = group * length_us + self._phase_us + shift + place * max(1, self._step_us // 20)
        return np.asarray(times_us, dtype=np.int64)

    def _delays_of(self, numbers: Ints) -> Ints:
        if self._kind != "out_of_order":
            return np.full(len(numbers), self._lag_us, dtype=np.int64)
        held = uniform(self._seed ^ 0xA5A5, numbers) < self.options["disorder"]
        return np.where(held, (uniform(self._seed ^ 0x5A5A, numbers) * self._lag_us).astype(np.int64), 0)

    def _signal(self, numbers: Ints, times_us: Ints) -> Floats:
        noise = gaussian(self._seed, numbers)
        if self._kind == "plume":
            clean = self._plume.concentration(self._position, times_us)
            return np.maximum(BACKGROUND_PPM + clean * (1.0 + 0.03 * noise) + 0.2 * noise, 0.0)
        if self._kind == "periodic":
            return periodic(self._seed, times_us, self.options["period"]) + 0.02 * noise
        return walk(self._seed, times_us) + 0.02 * noise


def _followers(fields: tuple[Field, ...], gas_only: bool) -> set[str]:
    """Fields that carry the sensor's signal: the gas fields (or the first number), or the first number alone."""
    numbers = [f.name for f in fields if f.type.kind in ("DOUBLE", "DECIMAL")] or [
        f.name for f in fields if f.type.kind in ("INT", "BIGINT") and not f.name.lower().endswith("id")
    ]
    gases = [f.name for f in fields if names_a_gas(f)]
    booleans = [f.name for f in fields if f.type.kind == "BOOLEAN"]
    return {*(gases if gas_only and gases else numbers[:1]), *booleans}


def _check(fields: tuple[Field, ...], options: Mapping[str, Any]) -> None:
    if options["period"] <= 0 or options["every"] <= 0:
        name = "period" if options["period"] <= 0 else "every"
        raise error("invalid_option", option=name, detail="must be longer than nothing")
    if not fields:
        raise error("invalid_definition", detail="a simulator needs at least one field")


CONNECTOR = Connector(
    name="simulator",
    sentence="Simulated sensors: seeded, deterministic, with plume, walk, periodic, bursty and faulty kinds.",
    mode="pull",
    options=OPTIONS,
    factory=Simulator,
    check=_check,
)


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
