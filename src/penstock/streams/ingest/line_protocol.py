"""InfluxDB's line protocol, read: `measurement,tag=value field=value,field=value timestamp`, one point a line.

Each line is judged alone: a bad one is told with its number and the others stay good. Most lines have no escapes and
no quotes, and are split at their commas; the others are scanned. A string may hold line breaks, as every InfluxDB
takes them although its manual says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

FieldValue = float | int | str | bool

BOOLEANS = {
    **dict.fromkeys(("t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("f", "F", "false", "False", "FALSE"), False),
}
_FLOAT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"-?\d+", re.ASCII)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
# A backslash counts only right before a character that it escapes; everywhere else it is part of the text.
_NAME = re.compile(r"(?:\\[, ]|[^, \n])*")
_KEY = re.compile(r"(?:\\[,= ]|[^,= \n])*")
_BARE = re.compile(r"[^,\s]*")
_ESCAPED_NAME = re.compile(r"\\([, ])")
_ESCAPED_KEY = re.compile(r"\\([,= ])")
_ESCAPED_TEXT = re.compile(r'\\(["\\])')
_SHOWN = 120
PIECE_BYTES = 1 << 20
LINE_MAX_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Point:
    """One line. `time` counts the unit that the writer names; None where the line says none."""

    line: int
    measurement: str
    tags: dict[str, str]
    fields: dict[str, FieldValue]
    time: int | None
    text: str


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no point, and why."""

    line: int
    text: str
    reason: str


def line_pieces(body: bytes) -> Iterator[tuple[int, bytes]]:
    """A body in pieces of whole lines, each with the number of its first line.

    Points and texts take many times their bytes, so a body is parsed and stored piece by piece. A piece ends between strings: a string
    may hold line breaks. A piece of more than LINE_MAX_BYTES is one line.
    """
    at, number = 0, 1
    while at < len(body):
        end = _piece_end(body, at)
        yield number, body[at:end]
        number += body.count(b"\n", at, end)
        at = end


def _piece_end(body: bytes, at: int) -> int:
    end, size = at, len(body)
    while end < size:
        enough = min(end + PIECE_BYTES, size)
        found = size if enough == size else body.rfind(b"\n", end, enough) + 1
        if not found:
            found = body.find(b"\n", enough) + 1 or size
        if end > at and found - at > LINE_MAX_BYTES:
            return end
        end = found
        quotes = body.count(b'"', at, end) - body.count(b'\\"', at, end)
        if quotes % 2 == 0 or end - at > LINE_MAX_BYTES:
            return end
    return end


def parse_lines(body: bytes, number: int = 1) -> tuple[list[Point], list[BadLine]]:
    """The points of a body and its bad lines, numbered from `number`."""
    if len(body) > LINE_MAX_BYTES and body.find(b"\n", 0, -1) < 0:
        shown = _shown(body[:_SHOWN].decode("utf-8", "replace"))
        return [], [BadLine(number, shown, f"the line has more than {LINE_MAX_BYTES} bytes")]
    # Bytes that are no UTF-8 stay recognisable, so that only the values they stand in are refused.
    text = body.decode("utf-8", "surrogateescape")
    points: list[Point] = []
    bad: list[BadLine] = []
    at, size = 0, len(text)
    while at < size:
        end = text.find("\n", at)
        end = size if end < 0 else end
        line = text[at:end]
        if line and not line.isspace() and not line.lstrip().startswith("#"):
            try:
                if '"' in line or "\\" in line:
                    point, end = _Scan(text, at, number).point()
                else:
                    point = _plain(line.strip(" \r\t"), number)
                points.append(point)
            except _Unreadable as problem:
                bad.append(BadLine(number, _shown(line), str(problem)))
        number += text.count("\n", at, end) + 1
        at = end + 1
    return points, bad


class _Unreadable(ValueError):
    """Why a line is no point."""


def _plain(line: str, number: int) -> Point:
    """A line without escapes and quotes."""
    parts = line.split(" ")
    if "" in parts:
        parts = [part for part in parts if part]
    if len(parts) < 2:
        raise _Unreadable("missing fields")
    if len(parts) > 3:
        raise _Unreadable("there is more behind the timestamp")
    measurement, *spelled = parts[0].split(",")
    tags: dict[str, str] = {}
    for pair in spelled:
        key, sign, value = pair.partition("=")
        _add_tag(tags, key, value if sign else None)
        if "=" in value:
            raise _Unreadable(f'the tag "{key}" has an "=" that is not escaped')
    fields: dict[str, FieldValue] = {}
    for pair in parts[1].split(","):
        key, sign, value = pair.partition("=")
        if not key or not sign:
            raise _Unreadable("missing field key" if not key else "missing field value")
        fields[key] = _value(key, value)
    time = _time(parts[2]) if len(parts) == 3 else None
    return Point(number, _checked(measurement), tags, fields, time, line)


class _Scan:
    """A line with escapes or strings, from left to right; the end may lie lines further on."""

    def __init__(self, text: str, at: int, number: int) -> None:
        self._text = text
        self._begin = self._at = at
        self._number = number

    def point(self) -> tuple[Point, int]:
        self._spaces()
        measurement = _ESCAPED_NAME.sub(r"\1", self._take(_NAME))
        tags: dict[str, str] = {}
        while self._next(","):
            key = self._key()
            value = self._key() if self._next("=") else None
            _add_tag(tags, key, value)
            if self._peek() == "=":
                raise _Unreadable(f'the tag "{key}" has an "=" that is not escaped')
        if not self._spaces() or self._ended():
            raise _Unreadable("missing fields")
        fields: dict[str, FieldValue] = {}
        while True:
            key = self._key()
            if not key:
                raise _Unreadable("missing field key")
            if not self._next("="):
                raise _Unreadable("missing field value")
            fields[key] = self._string(key) if self._peek() == '"' else _value(key, self._take(_BARE))
            if not self._next(","):
                break
        gap = self._spaces()
        if not gap and not self._ended():
            raise _Unreadable(f'the value of "{key}" does not end with its quote')
        time = None if self._ended() else _time(self._take(_BARE))
        self._spaces()
        if not self._ended():
            raise _Unreadable("there is more behind the timestamp")
        point = Point(
            self._number, _checked(measurement), tags, fields, time, _shown(self._text[self._begin : self._at])
        )
        return point, self._at

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        assert found is not None  # each of them matches nothing, too
        self._at = found.end()
        return found.group()

    def _key(self) -> str:
        return _ESCAPED_KEY.sub(r"\1", self._take(_KEY))

    def _string(self, key: str) -> str:
        found = _STRING.match(self._text, self._at)
        if found is None:
            raise _Unreadable(f'the string of "{key}" has no closing quote')
        self._at = found.end()
        return _ESCAPED_TEXT.sub(r"\1", found.group(1))

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self, sign: str) -> bool:
        if self._peek() == sign:
            self._at += 1
            return True
        return False

    def _spaces(self) -> bool:
        begin = self._at
        while self._peek() in (" ", "\r", "\t"):
            self._at += 1
        return self._at > begin

    def _ended(self) -> bool:
        return self._peek() in ("", "\n")


def _checked(measurement: str) -> str:
    if not measurement:
        raise _Unreadable("missing measurement")
    return measurement


def _add_tag(tags: dict[str, str], key: str, value: str | None) -> None:
    if not key:
        raise _Unreadable("missing tag key")
    if not value:
        raise _Unreadable(f'missing tag value for "{key}"')
    if key in tags:
        raise _Unreadable(f'the tag "{key}" comes twice')
    tags[key] = value


def _value(key: str, spelled: str) -> FieldValue:
    """A number or a boolean; strings come with quotes."""
    if not spelled:
        raise _Unreadable(f'missing field value for "{key}"')
    last = spelled[-1]
    if last in "iu" and _WHOLE.fullmatch(spelled, 0, len(spelled) - 1):
        whole = int(spelled[:-1]) if len(spelled) < 32 else 1 << 64
        low, high = (-(1 << 63), 1 << 63) if last == "i" else (0, 1 << 64)
        if not low <= whole < high:
            raise _Unreadable(f'the value {_shown(spelled)} of "{key}" lies outside 64 bits')
        return whole
    if _FLOAT.fullmatch(spelled):
        number = float(spelled)
        if number in (float("inf"), float("-inf")):
            raise _Unreadable(f'the value {_shown(spelled)} of "{key}" lies outside 64 bits')
        return number
    if spelled in BOOLEANS:
        return BOOLEANS[spelled]
    raise _Unreadable(f'invalid value {_shown(spelled)} of "{key}"; a string stands in quotes')


def _time(spelled: str) -> int:
    if not _WHOLE.fullmatch(spelled) or len(spelled) > 20 or not -(1 << 63) <= int(spelled) < 1 << 63:
        raise _Unreadable(f"bad timestamp {_shown(spelled)}")
    return int(spelled)


def _shown(text: str) -> str:
    """A text for people: not longer than a line, and nothing in it that cannot be written."""
    clean = text.strip().encode("utf-8", "replace").decode()
    return clean if len(clean) <= _SHOWN else clean[: _SHOWN - 3] + "..."
