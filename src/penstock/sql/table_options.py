"""WITH (...) of CREATE TABLE: names, values and what they mean."""

from __future__ import annotations

from typing import Any

from penstock.catalog.model import Deduplicate, TableOptions
from penstock.errors import PenstockError, error, suggest
from penstock.sql.durations import duration_us
from penstock.sql.statements import CreateTable, StatementOption

# Name -> what it takes, in the words of the error message.
TABLE_OPTIONS = {
    "time": "'valid' or 'transaction'",
    "out_of_order": "'refuse', 'clamp' or 'accept'",
    "retention": "a duration, or 'forever'",
    "idle": "a duration",
    "max_ahead": "a duration",
    "always_on": "true or false",
    "discover": "true or false",
}
_CHOICES = {"time": ("valid", "transaction"), "out_of_order": ("refuse", "clamp", "accept")}


def table_options(statement: CreateTable, has_stream: bool, deduplicate: Deduplicate | None) -> TableOptions:
    """The options of a table. Raises invalid_option, pointing at the option."""
    found: dict[str, Any] = {}
    for option in statement.options:
        try:
            if not has_stream:
                raise error(
                    "invalid_option", option=option.name, detail="only a table with a stream column has options"
                )
            key, value = _value(option)
            if key == "discover" and value and not statement.key:
                detail = "a table without a key is one sensor, so there is none to discover"
                raise error("invalid_option", option=option.name, detail=detail, hint="give it a PRIMARY KEY")
            if key in found:
                raise error("invalid_option", option=option.name, detail="it is given twice")
            found[key] = value
        except PenstockError as failure:
            raise statement.source.point(failure, option.at) from None
    return TableOptions(**found, deduplicate=deduplicate)


def _value(option: StatementOption) -> tuple[str, Any]:
    name, text = option.name, option.value.strip().strip("'").lower()
    if name not in TABLE_OPTIONS:
        hint = suggest(name, TABLE_OPTIONS) or "options are " + ", ".join(TABLE_OPTIONS)
        raise error("invalid_option", option=name, detail="there is no such option", hint=hint)
    if name in _CHOICES:
        if text not in _CHOICES[name]:
            raise _bad(name, option.value, suggest(text, _CHOICES[name]))
        return name, text
    if name in ("always_on", "discover"):
        if text not in ("true", "false", "on", "off", "yes", "no"):
            raise _bad(name, option.value, None)
        return name, text in ("true", "on", "yes")
    if name == "retention" and text in ("forever", "none", "unlimited"):
        return "retention_us", None
    try:
        us = duration_us(text.removeprefix("interval").strip().replace("'", ""))
    except PenstockError as failure:
        raise _bad(name, option.value, failure.hint) from None
    if us <= 0 and not (name == "max_ahead" and us == 0):
        raise _bad(name, option.value, "it has to be above zero")
    return f"{name}_us", us


def _bad(name: str, value: str, hint: str | None) -> PenstockError:
    return error("invalid_option", option=name, detail=f'"{value}" is not {TABLE_OPTIONS[name]}', hint=hint)
