"""Patterns that SQL has and other parts read differently: SIMILAR TO as regular expressions, templates of times as patterns of Spark."""

from __future__ import annotations

import re

from penstock.errors import PenstockError, error
from penstock.functions.regular_expressions import CLASSES, check_pattern

_META = "|*+?)"
_REPEATS = re.compile(r"\{(\d{1,3})(,(\d{1,3})?)?\}")
_SHORTHANDS = "dwsDWS"


def similar_pattern(pattern: str, escape: str = "\\") -> str:
    """The regular expression that a whole text has to match.

    `%` is any text, `_` any character, `|*+?{}()[]` are as in regular expressions, everything else stands for itself.
    """
    if len(escape) > 1:
        raise error("syntax_error", detail="ESCAPE takes one character, or none")
    out, place = [], 0
    while place < len(pattern):
        mark = pattern[place]
        if escape and mark == escape:
            out.append(_escaped(pattern[place + 1 : place + 2]))
            place += 2
            continue
        if mark == "[":
            text, place = _bracket(pattern, place, escape)
            out.append(text)
            continue
        if mark == "{":
            bounds = _REPEATS.match(pattern, place)
            if bounds is None:
                raise error("syntax_error", detail=f"'{pattern}' repeats without a number, such as {{2,5}}")
            out.append(bounds[0])
            place = bounds.end()
            continue
        out.append({"%": ".*", "_": ".", "(": "(?:"}.get(mark) or (mark if mark in _META else re.escape(mark)))
        place += 1
    try:
        return check_pattern(r"(?s)\A(?:" + "".join(out) + r")\z").text
    except PenstockError:
        raise error("syntax_error", detail=f"'{pattern}' is not a pattern of SIMILAR TO") from None


def _escaped(mark: str) -> str:
    if not mark:
        raise error("syntax_error", detail="the pattern ends with its escape character")
    if mark in _SHORTHANDS:
        return "\\" + mark  # PostgreSQL takes the digits, words and spaces of regular expressions
    if (mark.isascii() and mark.isalnum()) or mark == '"':
        raise error("not_supported", feature=f"\\{mark} in SIMILAR TO")
    return re.escape(mark)


def _bracket(pattern: str, start: int, escape: str) -> tuple[str, int]:
    """A bracket expression from `[` on, and the place behind it."""
    place, out = start + 1, "["
    if pattern[place : place + 1] == "^":
        place, out = place + 1, "[^"
    first = place
    while place < len(pattern):
        mark = pattern[place]
        if mark == "]" and place > first:
            return out + "]", place + 1
        name = re.match(r"\[:(\w+):\]", pattern[place:])
        if name is not None:
            if name[1] not in CLASSES:
                raise error("not_supported", feature=f"[:{name[1]}:] in SIMILAR TO")
            out, place = out + CLASSES[name[1]], place + len(name[0])
        elif escape and mark == escape:
            out, place = out + _escaped(pattern[place + 1 : place + 2]), place + 2
        else:
            out += mark if mark == "-" or mark.isalnum() else "\\" + mark if mark.isascii() else mark
            place += 1
    raise error("syntax_error", detail=f"'{pattern}' has a bracket without an end")


_PAIRS = (
    "YYYY=yyyy YY=yy MM=MM DDD=DDD DD=dd HH24=HH HH12=hh HH=hh MI=mm SS=ss MS=SSS US=SSSSSS Mon=MMM Dy=EEE AM=a PM=a"
)
_PATTERNS = dict(pair.split("=") for pair in _PAIRS.split())
_LENIENT = {"MM": "M", "DD": "d", "HH24": "H", "HH12": "h", "HH": "h", "MI": "m", "SS": "s"}
_NUMBERS = {name.lower(): pattern for name, pattern in _PATTERNS.items() if name.isupper() and name not in ("AM", "PM")}
_TOKEN = re.compile(r'"([^"]*)"|(HH24|HH12|YYYY|DDD|YY|MM|DD|HH|MI|SS|MS|US|Mon|Dy|AM|PM)|([A-Za-z]+)|(.)', re.S)
_ANY_CASE = re.compile(r"(hh24|hh12|yyyy|ddd|yy|mm|dd|hh|mi|ss|ms|us)")


def spark_format(template: str, *, reading: bool = False) -> str:
    """The pattern of a template. PenstockError not_supported for words that are none of those above.

    A pattern for `reading` takes numbers with fewer digits, too.
    """
    out: list[str] = []
    text = ""
    for quoted, word, other, mark in _TOKEN.findall(template):
        if word:
            out.append(_LENIENT.get(word, _PATTERNS[word]) if reading else _PATTERNS[word])
        elif other:
            out.append(_lower_case(other))
        else:
            text += quoted or mark
            continue
        out[-1:-1], text = _literal(text), ""
    return "".join([*out, *_literal(text)])


def _literal(text: str) -> list[str]:
    return ["'" + text.replace("'", "''") + "'"] if text else []


def _lower_case(word: str) -> str:
    parts = _ANY_CASE.findall(word)
    if "".join(parts) != word:
        hint = "there are " + ", ".join(_PATTERNS) + '; other words stand in double quotes: "at"'
        raise error("not_supported", feature=f'"{word}" in a template of a time', hint=hint)
    return "".join(_NUMBERS[part] for part in parts)
