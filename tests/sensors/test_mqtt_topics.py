"""Topics with names in them, held against brute force; payloads without a broker."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pytest
from paho.mqtt.client import topic_matches_sub

from penstock.catalog.model import StreamColumn, Table, TableOptions
from penstock.errors import PenstockError
from penstock.sensors.mqtt import PayloadReader, TopicPattern
from penstock.sensors.mqtt_client import parse_url
from penstock.sensors.options import read_options
from penstock.types import BOOLEAN, DOUBLE, INT, TEXT, Field


@pytest.mark.parametrize(
    ("spelled", "filter_", "topic", "values"),
    [
        ("plant/{site}/{sensor}/ppm", "plant/+/+/ppm", "plant/north/7/ppm", {"site": "north", "sensor": "7"}),
        ("plant/+site/+sensor/ppm", "plant/+/+/ppm", "plant/north/7/ppm", {"site": "north", "sensor": "7"}),
        ("plant/{site}/+/#", "plant/+/+/#", "plant/a/b", {"site": "a"}),
        ("plant/{site}/+/#", "plant/+/+/#", "plant/a/b/c/d", {"site": "a"}),
        ("#", "#", "any/thing", {}),
        ("probe-{id}/{gas}.raw", "+/+", "probe-12/co2.raw", {"id": "12", "gas": "co2"}),
        ("$share/penstock/a/{b}", "$share/penstock/a/+", "a/x", {"b": "x"}),
        ("fixed", "fixed", "fixed", {}),
        ("a.b/{c}", "a.b/+", "axb/1", None),
        ("probe-{id}", "+", "sonde-12", None),
        ("a/{b}", "a/+", "a/b/c", None),
        ("a/{b}", "a/+", "a/", None),
    ],
)
def test_a_pattern_says_what_to_ask_for_and_what_a_topic_means(
    spelled: str, filter_: str, topic: str, values: dict[str, str] | None
) -> None:
    pattern = TopicPattern(spelled)
    assert pattern.filter == filter_
    assert pattern.values(topic) == values
    assert pattern.values(topic) == values, "remembered"


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_pattern_takes_what_its_filter_takes(seed: int) -> None:
    print(f"seed {seed}")
    world = random.Random(seed)
    for _ in range(300):
        names = iter("pqrst")
        levels = [world.choice(["a", "b", "+", "NAME"]) for _ in range(world.randrange(1, 5))]
        if world.random() < 0.3:
            levels.append("#")
        spelled = "/".join("{" + next(names) + "}" if level == "NAME" else level for level in levels)
        topic = "/".join(world.choice("abx") for _ in range(world.randrange(1, 6)))
        pattern = TopicPattern(spelled)
        found = pattern.values(topic)
        assert (found is not None) == topic_matches_sub(pattern.filter, topic), (spelled, topic)
        if found is not None:
            wanted = [part for level, part in zip(levels, topic.split("/"), strict=False) if level == "NAME"]
            assert list(found.values()) == wanted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mqtt://broker", "mqtt://broker:1883"),
        ("broker:1999", "mqtt://broker:1999"),
        ("mqtts://user@broker", "mqtts://broker:8883"),
        ("mqtt://[::1]:5", "mqtt://[::1]:5"),
    ],
)
def test_an_address_is_shown_without_who_calls(text: str, shown: str) -> None:
    assert str(parse_url(text)) == shown


FIELDS = (Field("ppm", DOUBLE), Field("on", BOOLEAN), Field("note", TEXT))


def reader(fields: tuple[Field, ...] = FIELDS, discover: bool = False, **options: str) -> PayloadReader:
    from penstock.sensors.mqtt import OPTIONS

    columns = (Field("site", TEXT), Field("number", INT), Field("floor", INT))
    table = Table(
        1,
        "probes",
        columns,
        ("site", "number"),
        StreamColumn("reading", fields),
        TableOptions(time="valid", discover=discover),
    )
    return PayloadReader(table, read_options("mqtt", OPTIONS, False, {"url": "mqtt://x", **options}))


KEY = {"site": "a", "number": "7"}
NONE: dict[str, Any] = {"ppm": None, "on": None, "note": None}


def test_a_member_is_a_field_a_key_or_left_out() -> None:
    found = reader()
    rows = found.read("t", {"site": "a"}, b'{"number": 7, "ppm": 1, "floor": 3, "x": 1}')
    assert rows == [{**NONE, "site": "a", "number": 7, "ppm": 1}]
    assert found.ignored == ["x"]
    rows = reader(discover=True).read("t/1", KEY, b' {"ppm": 1, "floor": 3}')
    assert rows == [{**NONE, "site": "a", "number": 7, "ppm": 1, "floor": 3, "reading": "t/1"}]


@pytest.mark.parametrize(
    ("options", "time", "us"),
    [
        ({}, 1_700_000_000, 1_700_000_000_000_000),
        ({}, 1_700_000_000.25, 1_700_000_000_250_000),
        ({"unit": "ms"}, 1_700_000_000_123, 1_700_000_000_123_000),
        ({"unit": "us"}, 1_700_000_000_123_456, 1_700_000_000_123_456),
        ({"unit": "ns"}, 1_700_000_000_123_456_789, 1_700_000_000_123_456),
        ({"unit": "ns", "time": "at"}, None, None),
        ({}, "2026-01-05T12:00:00Z", "2026-01-05T12:00:00Z"),
    ],
)
def test_a_number_counts_the_unit_and_a_text_stays_a_text(options: dict[str, str], time: Any, us: Any) -> None:
    (row,) = reader(**options).read("t", KEY, json.dumps({"ppm": 1, "ts": time}).encode())
    assert row.get("ts") == us


@pytest.mark.parametrize(
    ("kind", "payload", "value"),
    [
        ("ppm", b"21.5", 21.5),
        ("ppm", b" -3\n", -3),
        ("on", b"ON", True),
        ("on", b"0", False),
        ("note", b"two words ", "two words "),
        ("note", b"{not json}", None),
    ],
)
def test_a_plain_value_is_read_as_its_field_is(kind: str, payload: bytes, value: Any) -> None:
    if value is None:
        assert reader(format="value", field=kind).read("t", KEY, payload)[0][kind] == "{not json}"
    else:
        assert reader(field=kind).read("t", KEY, payload) == [{**NONE, "site": "a", "number": 7, kind: value}]


@pytest.mark.parametrize(
    ("levels", "payload", "condition"),
    [
        (KEY, b"{", "invalid_body"),
        (KEY, b"[[]]", "invalid_body"),
        (KEY, b"{}", "missing_field"),
        (KEY, b'{"number": 1}', "missing_field"),
        (KEY, b"5", "unknown_field"),
        ({"site": "a", "number": "x"}, b'{"ppm": 1}', "invalid_value"),
        ({**KEY, "field": "ppm"}, b"warm", "invalid_value"),
        ({**KEY, "field": "pmp"}, b"5", "unknown_field"),
        ({**KEY, "field": "on"}, b"maybe", "invalid_value"),
        ({**KEY, "field": "note"}, b"\xff", "invalid_value"),
        (KEY, b'{"ppm": 1, "ts": 1e300}', "invalid_value"),
    ],
)
def test_a_message_that_makes_no_sense_says_why(levels: dict[str, str], payload: bytes, condition: str) -> None:
    with pytest.raises(PenstockError) as caught:
        reader().read("t", levels, payload)
    assert caught.value.condition == condition


def test_whatever_bytes_come_are_rows_or_a_named_error() -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    world = random.Random(seed)
    base = json.dumps({"ppm": 1.5, "on": True, "note": "x", "ts": 5, "number": 3, "deep": {"a": [1]}}).encode()
    found = reader(columns="ppm=deep.a, note=deep.a.b")
    for _ in range(500):
        cuts = sorted(world.randrange(len(base)) for _ in range(3))
        payload = b"".join(base[a:b] for a, b in pairwise([0, *cuts, len(base)]) if world.random() < 0.8)
        try:
            for row in found.read("t", KEY, payload):
                assert set(NONE) <= set(row)
        except PenstockError:
            pass
