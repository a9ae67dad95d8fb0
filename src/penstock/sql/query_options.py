"""WITH (...) of CREATE QUERY: owner, description, and how its answer is stored."""

from __future__ import annotations

from penstock.catalog.model import STRATEGIES
from penstock.errors import PenstockError, error, suggest
from penstock.sql.statements import CreateQuery

STRATEGY_WORDS = (*STRATEGIES, "auto")
QUERY_OPTIONS = ("description", "owner", "strategy")


def strategy_named(text: str) -> str | None:
    """A strategy as definitions store it: None for `auto`. Raises invalid_option."""
    word = text.lower()
    if word not in STRATEGY_WORDS:
        hint = suggest(text, STRATEGY_WORDS) or "strategies are " + ", ".join(STRATEGY_WORDS)
        raise error("invalid_option", option="strategy", detail=f'"{text}" is not a strategy', hint=hint)
    return None if word == "auto" else word


def query_facts(statement: CreateQuery) -> dict[str, str | None]:
    """Owner, description and strategy, as far as they are given. Raises invalid_option, pointing at the option."""
    found: dict[str, str | None] = {}
    for option in statement.options:
        name, text = option.name, option.value.strip()
        try:
            if name not in QUERY_OPTIONS:
                hint = suggest(name, QUERY_OPTIONS) or "options are " + ", ".join(QUERY_OPTIONS)
                raise error("invalid_option", option=name, detail="there is no such option", hint=hint)
            if name in found:
                raise error("invalid_option", option=name, detail="it is given twice")
            found[name] = strategy_named(text) if name == "strategy" else text or None
        except PenstockError as problem:
            raise statement.source.point(problem, option.at) from None
    return found
