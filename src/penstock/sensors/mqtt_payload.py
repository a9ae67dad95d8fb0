"""A message's topic and payload made into readings: JSON objects, arrays of them, and plain values.

Members that the table has no place for are left out and named to the caller; a field that an object does not have is NULL, but an object without
a single field is refused. What is wrong with a message is raised as a named error, and concerns that message only.

A topic may have names in it: 'plant/{site}/{sensor}/ppm' subscribes to plant/+/+/ppm and reads two columns from each topic. `{name}` is a level, or a part of one, that gives a static column its value; `+name` is another way to write `{name}`. `+` and `#` mean what MQTT
means by them. `{field}`, where no static column is called so, says which field a plain value is for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import orjson

from penstock.catalog.model import TIME_COLUMN, Table
from penstock.errors import error
from penstock.types import Field

FIELD = "field"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_NAMED_LEVEL = re.compile(r"\+([A-Za-z_]\w*)")
_SHARED = re.compile(r"(\$share/[^/+#]+/)(.+)", re.S)
_TOPIC_MOST = 65_535
_REMEMBERED = 100_000  # topics with values that are kept; beyond it each is read again


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
        self._known: dict[str, dict[str, str] | None] = {}

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

    def values(self, topic: str) -> Mapping[str, str] | None:
        """Texts by name; None where the topic is not one of these."""
        try:
            return self._known[topic]
        except KeyError:
            found = self._regex.fullmatch(topic)
            values = dict(zip(self.names, found.groups(), strict=True)) if found else None
            if len(self._known) < _REMEMBERED:
                self._known[topic] = values
            return values


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


def level_value(kind: str, text: str) -> Any:
    """A level as its column's type has it; ValueError where it is none."""
    if kind in ("INT", "BIGINT"):
        return int(text)
    if kind == "DOUBLE":
        return float(text)
    if kind == "BOOLEAN":
        return flag_value(text)
    return text


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
            if name in self._paths or name in self._mapped:
                continue
            if name == self._time:
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
        return level_value(column.type.kind, text)
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
