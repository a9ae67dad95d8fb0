"""Messages of an MQTT broker: one subscription for a whole table, or one topic for each sensor.

A topic may have names in it: 'plant/{site}/{sensor}/ppm' subscribes to plant/+/+/ppm and reads two columns from each topic.
`{name}` is a level, or a part of one, that gives a static column its value; `+name` is another way to write `{name}`. `+` and `#`
mean what MQTT means by them. `{field}`, where no static column is called so, says which field a plain value is for.

A payload is a JSON object, an array of them, or a plain value. Members that the table has no place for are left out and named to the
caller; a field that an object does not have is NULL, but an object without a single field is refused. What is wrong with a message
is raised as a named error, and concerns that message only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from penstock.catalog.model import TIME_COLUMN, Table
from penstock.errors import error, suggest
from penstock.sensors.base import Connector, Option
from penstock.sensors.mqtt_client import ACCESS, parse_url
from penstock.sensors.options import duration, flag, one_of, whole_number
from penstock.types import Field

FIELD = "field"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_NAMED_LEVEL = re.compile(r"\+([A-Za-z_]\w*)")
_SHARED = re.compile(r"(\$share/[^/+#]+/)(.+)", re.S)
_TOPIC_MOST = 65_535
_REMEMBERED = 1_000_000  # topics with values that are kept; more that report in turn are read anew each time


class TopicPattern:
    """What to subscribe to, and what a topic says. ValueError with a sentence where it cannot be a topic."""

    def __init__(self, spelled: str) -> None:
        shared = _SHARED.fullmatch(spelled)
        prefix, levels = (shared.group(1), shared.group(2)) if shared else ("", spelled)
        check_filter(levels.replace("{", "").replace("}", "") or levels)
        self.names: list[str] = []
        filters: list[str] = []
        patterns: list[str] = []
        for level in levels.split("/"):
            named = _NAMED_LEVEL.fullmatch(level)
            if named:
                level = "{" + named.group(1) + "}"
            filters.append(level if level in ("+", "#") else "+" if _PLACEHOLDER.search(level) else level)
            patterns.append(self._pattern(level))
        self.filter = prefix + "/".join(filters)
        check_filter("/".join(filters))
        if len(set(self.names)) < len(self.names):
            raise ValueError(f'"{spelled}" names a column twice')
        # '#' stands for the levels below and for none at all, so the slash before it belongs to it.
        self._regex = re.compile("/".join(patterns).replace("/(?:.*)", "(?:/.*)?"), re.S)
        self.values = lru_cache(maxsize=_REMEMBERED)(self._values)

    def _pattern(self, level: str) -> str:
        if level == "+":
            return "[^/]*"
        if level == "#":
            return "(?:.*)"
        pattern, at = "", 0
        for found in _PLACEHOLDER.finditer(level):
            name = found.group(1).strip()
            if not name:
                raise ValueError(f'"{level}" has braces without a name')
            self.names.append(name)
            pattern += re.escape(level[at : found.start()]) + "([^/]+)"
            at = found.end()
        return pattern + re.escape(level[at:])

    def _values(self, topic: str) -> Mapping[str, str] | None:
        """Texts by name; None where the topic is not one of these."""
        found = self._regex.fullmatch(topic)
        return dict(zip(self.names, found.groups(), strict=True)) if found else None


def check_filter(text: str) -> None:
    """That a broker can be asked for this."""
    if not text or "\0" in text or len(text.encode("utf-8", "replace")) > _TOPIC_MOST:
        raise ValueError(f'"{text[:60]}" is not a topic')
    levels = text.split("/")
    for place, level in enumerate(levels):
        if "#" in level and (level != "#" or place < len(levels) - 1):
            raise ValueError("# stands alone, at the end of a topic")
        if "+" in level and level != "+" and not _NAMED_LEVEL.fullmatch(level):
            raise ValueError("+ stands alone between two slashes, or before a column's name")


def flag_value(text: str) -> bool:
    """True and false as switches say them."""
    word = text.strip().lower()
    if word in ("true", "t", "1", "on", "yes"):
        return True
    if word in ("false", "f", "0", "off", "no"):
        return False
    raise ValueError(f'"{text[:60]}" is neither true nor false')


# Unit of a number -> (times, over): so many microseconds are one.
UNITS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
_NOTHING = object()
_LEVEL_READERS: dict[str, Callable[[str], Any]] = {"INT": int, "BIGINT": int, "DOUBLE": float, "BOOLEAN": flag_value}


class PayloadReader:
    """Reads messages for a table as it is defined at one moment."""

    def __init__(self, table: Table, options: Mapping[str, Any]) -> None:
        assert table.stream is not None
        stream = table.stream
        self.table = table
        self._format: str = options["format"]
        self._times, self._over = UNITS[options["unit"]]
        self._time: str = options["time"]
        self._keeps_times = table.options.time == "valid"
        self._static = {column.name: column for column in table.columns}
        self._settable = set(self._static if table.options.discover else table.key)
        self._address = stream.name if table.options.discover else None
        self._fields = {f.name: f for f in stream.fields}
        self._spelled = table.field_names()
        self._empty: dict[str, Any] = dict.fromkeys(self._spelled.values())
        self._paths: dict[str, list[str]] = options["columns"]
        self._mapped = {path[0] for path in self._paths.values()}
        self._plain: str = options["field"] or (stream.fields[0].name if len(stream.fields) == 1 else "")
        self.ignored: list[str] = []

    def read(self, topic: str, levels: Mapping[str, Any], payload: bytes) -> list[dict[str, Any]]:
        """The readings of a message. `levels` are values that the topic, or the sensor's row, gives."""
        row = self._empty.copy()
        field = self._place_levels(row, levels)
        if self._address is not None:
            row[self._address] = topic
        begins = payload[:64].lstrip()[:1]
        if self._format == "value" or (self._format == "auto" and begins not in (b"{", b"[")):
            self._place_plain(row, field or self._plain, payload)
            return [row]
        try:
            found = orjson.loads(payload)
        except orjson.JSONDecodeError as problem:
            raise error("invalid_body", detail=f"not JSON: {problem}") from None
        objects = found if isinstance(found, list) else [found]
        rows = []
        for each in objects:
            if type(each) is not dict:
                raise error("invalid_body", detail="not a JSON object, and not an array of objects")
            rows.append(row.copy())
            self._place_members(rows[-1], each)
        return rows

    def _place_levels(self, row: dict[str, Any], levels: Mapping[str, Any]) -> str | None:
        field: str | None = None
        for name, text in levels.items():
            column = self._static.get(name)
            if column is None:
                if name == FIELD:
                    field = text
                continue
            if name in self._settable:
                row[name] = _level(column, text) if isinstance(text, str) else text
        return field

    def _place_plain(self, row: dict[str, Any], name: str, payload: bytes) -> None:
        field = self._fields.get(name)
        if field is None:
            detail = f'a plain value for "{name}"' if name else "a plain value, and several fields to choose from"
            raise error("unknown_field", table=self.table.name, field=name, hint=f"this is {detail}; see option field")
        row[self._spelled[name]] = _plain_value(field, payload)

    def _place_members(self, row: dict[str, Any], found: dict[str, Any]) -> None:
        known = False
        for name, path in self._paths.items():
            value = _at(found, path)
            if value is not _NOTHING:
                known = self._place(row, name, value) or known
        for name, value in found.items():
            if name in self._paths or name in self._mapped or name == self._time:
                continue
            if name in self._fields or name in self._static:
                known = self._place(row, name, value) or known
            else:
                self.ignored.append(name)
        if not known:
            raise error("missing_field", field=", ".join(self._fields))
        if self._keeps_times and self._time in found:
            row[TIME_COLUMN] = self._time_of(found[self._time])

    def _place(self, row: dict[str, Any], name: str, value: Any) -> bool:
        if name in self._fields and name not in self._static:
            row[self._spelled[name]] = value
            return True
        if name in self._settable:
            row[name] = value
        return False

    def _time_of(self, value: Any) -> Any:
        """Microseconds of a number; a text is left to be read as a time later."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            if not math.isfinite(value) or abs(value) * self._times / self._over > 2**62:
                raise error("invalid_value", field=self._time, detail=f"{value} is not a time")
            return int(value * self._times // self._over)
        return value


def _level(column: Field, text: str) -> Any:
    try:
        return _LEVEL_READERS.get(column.type.kind, str)(text)
    except ValueError:
        detail = f'the topic has "{text[:60]}", which is not {column.type}'
        raise error("invalid_value", field=column.name, detail=detail) from None


def _plain_value(field: Field, payload: bytes) -> Any:
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        raise error("invalid_value", field=field.name, detail="the payload is not UTF-8") from None
    if field.type.kind in ("TEXT", "TIMESTAMP", "BINARY", "DECIMAL"):
        return text if field.type.kind == "TEXT" else text.strip()
    try:
        return flag_value(text) if field.type.kind == "BOOLEAN" else orjson.loads(text)
    except ValueError:
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise error("invalid_value", field=field.name, detail=f'"{shown}" is not {field.type}') from None


def _at(found: dict[str, Any], path: list[str]) -> Any:
    value: Any = found
    for member in path:
        if not isinstance(value, dict) or member not in value:
            return _NOTHING
        value = value[member]
    return value


def _qos(text: str) -> int:
    if text not in ("0", "1"):
        raise ValueError(f'"{text}" is neither 0 nor 1')
    return int(text)


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
        lambda text: TopicPattern(text) if text else None,
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
        whole_number(1, 65_535),
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
