"""Templates of TO_CHAR and TO_TIMESTAMP as patterns of Spark."""

from __future__ import annotations

import re

from penstock.errors import error

_PATTERNS = {
    "YYYY": "yyyy",
    "YY": "yy",
    "MM": "MM",
    "DDD": "DDD",
    "DD": "dd",
    "HH24": "HH",
    "HH12": "hh",
    "HH": "hh",
    "MI": "mm",
    "SS": "ss",
    "MS": "SSS",
    "US": "SSSSSS",
    "Mon": "MMM",
    "Dy": "EEE",
    "AM": "a",
    "PM": "a",
}
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
