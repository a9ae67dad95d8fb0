"""FREQUENT_SEQUENCES: which symbols follow each other in many sequences, such as slow, normal, fast on most days.

A pattern grows by one symbol behind its last one (prefix growth, as PrefixSpan of Pei and others, 2001). What is kept of a pattern is where
its occurrences end. Of the occurrences that end at a place only the one that begins last matters, and the nearest end in front of a place
has the last beginning: so a pattern never has more ends than there are elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.cancellation import check
from penstock.errors import error
from penstock.operators.mining.series import Columns, Ints, Options, Series, symbols_of, text_of

MOST_PATTERNS = 100_000
MOST_WORK = 50_000_000
"""How many elements are looked at behind the ends of all patterns, at most: some seconds."""
_PATTERN_WORK = 1000
"""Growing a pattern takes as long as looking at so many elements, even where there are few."""
_UNBOUNDED = np.iinfo(np.int64).max
Pattern = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Elements:
    """The elements of all sequences, one behind the other.

    An element that stands for several equal ones has the numbers of the first and of the last of them.
    """

    symbols: npt.NDArray[Any]
    sequences: Ints
    firsts: Ints
    lasts: Ints
    ends: Ints  # by sequence, behind its last element
    words: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Occurrences:
    """Where occurrences of a pattern end, ascending, and the last place where one that ends there begins."""

    ends: Ints
    begins: Ints


def frequent_sequences(sequences: Sequence[Series], options: Options) -> Columns:
    """The patterns of most sequences first, then the longer ones, then by their symbols."""
    elements = _elements_of(sequences, options)
    count = len(elements.ends)
    least = next((n for n in range(1, count + 1) if round(n / count, 9) >= options["share"]), count + 1)
    known = _patterns(elements, options, least)
    found = [pattern for pattern in known.keys() - _extended(known) if len(pattern) > 1]
    found.sort(key=lambda pattern: (-known[pattern], -len(pattern), pattern))
    found = found[: int(options["top"])]
    items = np.empty(len(found), object)
    items[:] = [[text_of(elements.words[symbol]) for symbol in pattern] for pattern in found]
    having = np.array([known[pattern] for pattern in found], np.int64)
    return items, having, having / max(count, 1)


def _elements_of(sequences: Sequence[Series], options: Options) -> _Elements:
    """Sequences without an element do not count."""
    seen = [symbols_of(series, options["levels"]) for series in sequences]
    seen = [each for each in seen if len(each[0])]
    words = tuple(sorted(set().union(*(words for _, _, words in seen))))
    place = {word: at for at, word in enumerate(words)}
    dtype = np.min_scalar_type(len(words))  # numbers of 16 bits are sorted fastest
    parts: list[tuple[npt.NDArray[Any], Ints, Ints]] = []
    for at, symbols, own in seen:
        codes = np.array([place[word] for word in own], dtype)[symbols]
        new = np.ones(len(codes), np.bool_)
        if options["collapse"]:
            new[1:] = codes[1:] != codes[:-1]
        begins = np.flatnonzero(new)
        parts.append((codes[begins], at[begins], at[np.append(begins[1:], len(at)) - 1]))
    lengths = np.array([len(part[0]) for part in parts], np.int64)
    nothing = np.empty(0, dtype), np.empty(0, np.int64), np.empty(0, np.int64)
    symbols, firsts, lasts = (np.concatenate(columns) for columns in zip(nothing, *parts, strict=True))
    return _Elements(symbols, np.repeat(np.arange(len(parts)), lengths), firsts, lasts, np.cumsum(lengths), words)


def _patterns(elements: _Elements, options: Options, least: int) -> dict[Pattern, int]:
    """Every pattern that occurs in at least so many sequences, and in how many it does."""
    within = _UNBOUNDED if options["within"] is None else int(options["within"])
    everywhere = np.arange(len(elements.symbols))
    found: dict[Pattern, int] = {}
    waiting: list[tuple[Pattern, _Occurrences]] = []
    work = 0

    def take(pattern: Pattern, grown: _Occurrences) -> None:
        for symbol, count, own in _by_symbol(elements, grown):
            if count >= least:
                found[(*pattern, symbol)] = count
                waiting.append(((*pattern, symbol), own))

    take((), _Occurrences(everywhere, everywhere))
    while waiting:
        check()
        pattern, own = waiting.pop()
        if len(pattern) == options["longest"]:
            continue
        grown = _grown(elements, own, int(options["gap"]), within)
        take(pattern, grown)
        work += _PATTERN_WORK + len(grown.ends)
        if work > MOST_WORK or len(found) > MOST_PATTERNS:
            detail = "FREQUENT_SEQUENCES finds too many patterns"
            raise error("over_budget", detail=detail, hint="raise share, or make longest, gap or within smaller")
    return found


def _grown(elements: _Elements, own: _Occurrences, gap: int, within: int) -> _Occurrences:
    """The places where the next symbol of a pattern may be, each reached from the nearest end in front of it."""
    following = np.append(own.ends[1:], len(elements.symbols))
    until = np.minimum(own.ends + gap + 1, following)
    counts = np.minimum(until, elements.ends[elements.sequences[own.ends]] - 1) - own.ends
    places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(own.ends + 1, counts)
    begins = np.repeat(own.begins, counts)
    if within < _UNBOUNDED:
        near = elements.firsts[places] - elements.lasts[begins] <= within
        places, begins = places[near], begins[near]
    return _Occurrences(places, begins)


def _by_symbol(elements: _Elements, grown: _Occurrences) -> Iterator[tuple[int, int, _Occurrences]]:
    """By symbol, in how many sequences it is there, and where."""
    symbols = elements.symbols[grown.ends]
    order = np.argsort(symbols, kind="stable")
    symbols, ends, begins = symbols[order], grown.ends[order], grown.begins[order]
    if not len(order):
        return
    sequences = elements.sequences[ends]
    other = np.append(True, symbols[1:] != symbols[:-1])
    new = other | np.append(True, sequences[1:] != sequences[:-1])
    at = np.flatnonzero(other)
    counts = np.add.reduceat(new, at, dtype=np.int64)
    for symbol, count, low, high in zip(
        symbols[at].tolist(), counts.tolist(), at.tolist(), [*at[1:].tolist(), len(order)], strict=True
    ):
        yield symbol, count, _Occurrences(ends[low:high], begins[low:high])


def _extended(known: dict[Pattern, int]) -> set[Pattern]:
    """Patterns that occur in no more sequences than one with a further symbol in front or behind."""
    return {
        shorter
        for pattern, count in known.items()
        for shorter in (pattern[1:], pattern[:-1])
        if known.get(shorter) == count
    }
