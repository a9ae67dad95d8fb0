"""Readers of option texts, shared by the connectors. Each raises ValueError with a whole sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import PenstockError, error, suggest
from penstock.sensors.base import Option
from penstock.types import parse_duration


def number(least: float = -math.inf, most: float = math.inf, above: float | None = None) -> Callable[[str], float]:
    """A finite number within bounds; `above` excludes its own value."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f'"{text}" is not a number') from None
        if not math.isfinite(value) or not least <= value <= most or (above is not None and value <= above):
            bound = f"more than {above:g}" if above is not None else f"from {least:g} to {most:g}"
            raise ValueError(f"{text} is not {bound}")
        return value

    return parse


def whole_number(least: int = 0, most: int | None = None) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f'"{text}" is not a whole number') from None
        if value < least:
            raise ValueError(f"{value} is less than {least}")
        if most is not None and value > most:
            raise ValueError(f"{value} is more than {most}")
        return value

    return parse


def duration(text: str) -> int:
    """Microseconds."""
    try:
        return parse_duration(text)
    except PenstockError as cause:
        raise ValueError(f"{cause.message}; {cause.hint}") from None


def flag(text: str) -> bool:
    if text.lower() in ("true", "yes", "on", "1"):
        return True
    if text.lower() in ("false", "no", "off", "0"):
        return False
    raise ValueError(f'"{text}" is neither true nor false')


def one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f'"{text}" is none of {", ".join(words)}')
        return text.lower()

    return parse


def read_options(owner: str, known: tuple[Option, ...], free: bool, given: Mapping[str, str]) -> dict[str, Any]:
    """Defaults and given options as values. `free`: unknown ones are kept as texts instead of refused."""
    texts = {key.lower(): str(value) for key, value in given.items()}
    names = [o.name for o in known]
    parsed: dict[str, Any] = {}
    for name in texts:
        if name not in names:
            if not free:
                hint = suggest(name, names) or ("options are " + ", ".join(names) if names else "it has no options")
                raise error("invalid_option", option=name, detail=f'"{owner}" has no such option', hint=hint)
            parsed[name] = texts[name]
    for option in known:
        text = texts.get(option.name, option.default)
        if text is None:
            raise error("invalid_option", option=option.name, detail=f'"{owner}" needs it', hint=option.sentence)
        try:
            parsed[option.name] = option.parse(text)
        except ValueError as cause:
            raise error("invalid_option", option=option.name, detail=str(cause), hint=option.sentence) from None
    return parsed
