"""WITH (...) of CREATE QUERY: owner, description, and how its answer is stored."""

from __future__ import annotations

from penstock.catalog.model import STRATEGIES
from penstock.errors import error, suggest
from penstock.sql.statements import CreateQuery

STRATEGY_WORDS = (*STRATEGIES, "auto")
QUERY_OPTIONS = ("description", "owner", "strategy")


def strategy_named(word: str) -> str | None:
    """A strategy as definitions store it: None for `auto`."""
    return None if word == "auto" else word


def query_facts(statement: CreateQuery) -> dict[str, str | None]:
    """Owner, description and strategy, as far as they are given. Raises invalid_option, pointing at the option."""
    found: dict[str, str | None] = {}
    for option in statement.options:
        name, text = option.name, option.value.strip()
        problem = None
        if name not in QUERY_OPTIONS:
            hint = suggest(name, QUERY_OPTIONS) or "options are " + ", ".join(QUERY_OPTIONS)
            problem = error("invalid_option", option=name, detail="there is no such option", hint=hint)
        elif name in found:
            problem = error("invalid_option", option=name, detail="it is given twice")
        elif name == "strategy" and text.lower() not in STRATEGY_WORDS:
            hint = suggest(text, STRATEGY_WORDS) or "strategies are " + ", ".join(STRATEGY_WORDS)
            problem = error("invalid_option", option=name, detail=f'"{text}" is not a strategy', hint=hint)
        if problem is not None:
            raise statement.source.point(problem, option.at)
        found[name] = strategy_named(text.lower()) if name == "strategy" else text or None
    return found
