"""Messages of an MQTT broker: one subscription for a whole table, or one topic for each sensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.catalog.model import Table
from penstock.errors import error, suggest
from penstock.sensors.base import Connector, Option
from penstock.sensors.mqtt_client import ACCESS, parse_url
from penstock.sensors.mqtt_payload import FIELD, TopicPattern
from penstock.sensors.options import duration, flag, one_of, whole_number
from penstock.types import Field


def _topic(text: str) -> TopicPattern | None:
    return TopicPattern(text) if text else None


def _qos(text: str) -> int:
    if text not in ("0", "1"):
        raise ValueError(f'"{text}" is neither 0 nor 1')
    return int(text)


def _in_flight(text: str) -> int:
    value = whole_number(1)(text)
    if value > 65_535:
        raise ValueError(f"{value} is more than 65535")
    return value


def _columns(text: str) -> dict[str, list[str]]:
    """'field=path.to.member, ...'"""
    found: dict[str, list[str]] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, sign, path = (part.strip() for part in pair.partition("="))
        if not sign or not name or not all(path.split(".")):
            raise ValueError(f'"{pair}" is not written field=member or field=object.member')
        found[name] = path.split(".")
    return found


OPTIONS = (
    Option(
        "url", None, "The broker: mqtt://host:1883, or mqtts://host:8883 with TLS; user@ before the host.", parse_url
    ),
    Option(
        "topic",
        "",
        "Topic with static columns in braces: 'plant/{site}/{sensor}/ppm'; + and # too. Empty: each sensor's address is its topic.",
        _topic,
    ),
    Option("qos", "1", "1: every message is stored before it is acknowledged; 0: what is lost is lost.", _qos),
    Option(
        "format",
        "auto",
        "Payloads: json (an object or an array of them), value, or auto.",
        one_of("auto", "json", "value"),
    ),
    Option(
        "field", "", "Field that a plain value is for; empty means the only one, or what {field} in the topic says."
    ),
    Option(
        "columns", "", "Which member feeds which column: 'ppm=values.co2, site=meta.site'; others by name.", _columns
    ),
    Option("time", "ts", "Member with the time of a reading: ISO 8601, or a number."),
    Option("unit", "s", "What such a number counts: s, ms, us or ns.", one_of("s", "ms", "us", "ns")),
    Option(
        "retained", "false", "Whether to take the retained messages that a new subscription gets; they are old.", flag
    ),
    Option("protocol", "5", "MQTT version: 5 or 3.1.1.", one_of("5", "3.1.1")),
    Option("client_id", "", "Name of the session at the broker; empty means one of this data folder and table."),
    Option(
        "session_expiry", "7 days", "How long the broker keeps messages for a server that is gone (MQTT 5).", duration
    ),
    Option(
        "in_flight",
        "5000",
        "Messages that are taken before the first of them is stored; then reading waits.",
        _in_flight,
    ),
    Option("keepalive", "30s", "Silence after which broker and server ask whether the other is there.", duration),
    Option("timeout", "10s", "How long connecting may take.", duration),
    *ACCESS,
)


def _check(fields: tuple[Field, ...], options: Mapping[str, Any]) -> None:
    names = [f.name for f in fields]
    if options["field"] and options["field"] not in names:
        detail = f'the stream has no field "{options["field"]}"'
        raise error("invalid_option", option="field", detail=detail, hint=suggest(options["field"], names))
    if sum(bool(options[name]) for name in ("password", "password_file", "password_env")) > 1:
        raise error("invalid_option", option="password", detail="it is given in two ways")
    if options["keepalive"] < 1_000_000:
        raise error("invalid_option", option="keepalive", detail="it is less than a second")


def _check_table(table: Table, options: Mapping[str, Any]) -> None:
    """That the topic's names, and those of `columns`, are columns of the table."""
    assert table.stream is not None
    static = [column.name for column in table.columns]
    pattern: TopicPattern | None = options["topic"]
    for name in pattern.names if pattern is not None else ():
        if name not in static and name != FIELD:
            detail = f'"{table.name}" has no static column "{name}", which the topic names'
            raise error("invalid_option", option="topic", detail=detail, hint=suggest(name, static))
    known = [*static, *(f.name for f in table.stream.fields)]
    for name in options["columns"]:
        if name not in known:
            detail = f'"{table.name}" has no column or field "{name}"'
            raise error("invalid_option", option="columns", detail=detail, hint=suggest(name, known))
    if pattern is None and table.options.discover:
        detail = "without it the server does not know which topics new sensors have"
        raise error("invalid_option", option="topic", detail=detail, hint="'plant/{site}/{sensor}', for example")


CONNECTOR = Connector(
    name="mqtt",
    sentence="Messages of an MQTT broker (3.1.1 and 5), always logged, also without a query; acknowledged when stored.",
    mode="subscribed",
    options=OPTIONS,
    check=_check,
    check_table=_check_table,
)
