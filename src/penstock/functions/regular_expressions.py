"""Regular expressions and LIKE over columns of text, in time that is linear in the text: Arrow matches with RE2.

In: a column of text, and a column or a constant for each other argument. Out: a column, NULL where an argument is NULL and
where a pattern from data is no regular expression. Called by kernels (`functions.text`) and in Spark's workers
(`pipeline.session.register_functions`), so both answer alike. Patterns are PostgreSQL's, as far as RE2 has them: see `re2_pattern`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PenstockError, error
from penstock.types import BOOLEAN, INT, TEXT, Type

# How the functions are called in Spark's session. No statement can call a name that begins so.
SPARK_PREFIX = "penstock_"
# Replacements may make a text longer, up to this; all texts of a batch together up to the other.
REPLACED_MAX_BYTES = 1_000_000
BATCH_MAX_BYTES = 256 << 20
PATTERN_MAX_CHARS = 10_000
SOUGHT_MAX_CHARS = 1_000
_PATTERNS_KEPT = 1024
# No text has this byte, because UTF-8 does not. It marks matches inside a text.
_MARK = b"\xff"
_GROUP_MAX = 9
# Lists of matches are made of so many bytes of text at a time, because Python's objects take much more.
_LISTED_BYTES = 1 << 20

# Classes of characters inside of brackets. RE2's own are ASCII only.
_LETTERS, _SPACES = r"\p{L}\p{N}", r"\s\v\x{85}\p{Z}"
CLASSES = {
    "alpha": r"\p{L}",
    "digit": r"\p{Nd}",
    "alnum": _LETTERS,
    "upper": r"\p{Lu}",
    "lower": r"\p{Ll}",
    "space": _SPACES,
    "blank": r" \t",
    "punct": r"!-/:-@\[-`{-~\p{P}",
    "xdigit": "0-9A-Fa-f",
    "word": rf"{_LETTERS}_",
}
_IN_BRACKETS = {r"\w": rf"{_LETTERS}_", r"\d": r"\p{Nd}", r"\D": r"\P{Nd}", r"\s": _SPACES}
_ESCAPES = {
    r"\w": rf"[{_LETTERS}_]",
    r"\W": rf"[^{_LETTERS}_]",
    r"\d": r"\p{Nd}",
    r"\D": r"\P{Nd}",
    r"\s": f"[{_SPACES}]",
    r"\S": f"[^{_SPACES}]",
    r"\y": r"\b",
    r"\Y": r"\B",
    r"\Z": r"\z",
    r"\e": r"\x1b",
}
_GROUP = re.compile(r"\((?:(?!\?)|\?P?<(?![=!])[^>]{0,64}>)")
_CODE_POINT = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))")
_CLASS = re.compile(r"\[:(\w+):\]")
# What Spark's optimizer turns into comparisons (LikeSimplification).
_SIMPLE_LIKE = re.compile(r"[^_%\\]*|[^_%\\]+%|%[^_%\\]+|[^_%\\]+%[^_%\\]+|%[^_%\\]+%")
_LOOKING = re.compile(r"\(\?<?[=!]")
_BACK_REFERENCE = re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern as RE2 reads it. Its groups are named g1 to g9, because Arrow extracts named groups only.

    Further groups have no number: each costs a copy of the text, and no replacement can name them.
    """

    text: str
    groups: int


def re2_pattern(pattern: str) -> Pattern:
    """A pattern in RE2's words: characters beyond ASCII have their classes, and `\\y`, `\\Z` and `\\u0041` their meaning."""
    out: list[str] = []
    place, groups = 0, 0
    while place < len(pattern):
        mark = pattern[place]
        if mark == "\\":
            text, place = _escape(pattern, place, _ESCAPES)
            out.append(text)
        elif mark == "[":
            text, place = _bracket(pattern, place)
            out.append(text)
        elif mark == "(" and (group := _GROUP.match(pattern, place)):
            is_named = groups < _GROUP_MAX
            groups += is_named
            out.append(f"(?P<g{groups}>" if is_named else "(?:")
            place = group.end()
        else:
            out.append(mark)
            place += 1
    return Pattern("".join(out), groups)


def _escape(pattern: str, place: int, known: dict[str, str]) -> tuple[str, int]:
    """What a backslash and the characters behind it mean, and the place behind them."""
    two = pattern[place : place + 2]
    if two == r"\Q":
        literal, _, _ = pattern[place + 2 :].partition(r"\E")
        return re.escape(literal), place + 4 + len(literal)
    if code := _CODE_POINT.match(pattern, place):
        return f"\\x{{{code[1] or code[2]}}}", code.end()
    if not two.isascii():
        return two[1:], place + 2
    return known.get(two, two), place + 2


def _bracket(pattern: str, start: int) -> tuple[str, int]:
    """A bracket expression from `[` on, and the place behind it."""
    place = start + (2 if pattern.startswith("[^", start) else 1)
    first, out = place, pattern[start:place]
    while place < len(pattern):
        mark = pattern[place]
        if mark == "]" and place > first:
            return out + "]", place + 1
        name = _CLASS.match(pattern, place)
        if name is not None and name[1] in CLASSES:
            text, place = CLASSES[name[1]], name.end()
        elif mark == "\\":
            text, place = _escape(pattern, place, _IN_BRACKETS)
        else:
            text, place = mark, place + 1
        out += text
    return out, place


@lru_cache(maxsize=_PATTERNS_KEPT)
def check_pattern(pattern: str) -> Pattern:
    """The pattern in RE2's words. Raises invalid_regular_expression where RE2 cannot read it."""
    try:
        if len(pattern) > PATTERN_MAX_CHARS:
            raise pa.ArrowInvalid(f"regular expression: it has more than {PATTERN_MAX_CHARS} characters")
        found = re2_pattern(pattern)
        pc.match_substring_regex(pa.array([""]), f"(?s){found.text}")
    except pa.ArrowInvalid as failure:
        said = re.search(r"regular expression: ([^:]*)", str(failure))
        detail = said[1].strip() if said else "it cannot be read"
        raise error("invalid_regular_expression", pattern=_shown(pattern), detail=detail, hint=_hint(pattern)) from None
    return found


def _shown(pattern: str) -> str:
    return pattern if len(pattern) <= 60 else f"{pattern[:40]}..."


def _hint(pattern: str) -> str:
    if _LOOKING.search(pattern):
        return "a pattern cannot look ahead or behind; write two conditions: a ~ 'x' AND NOT a ~ 'y'"
    if _BACK_REFERENCE.search(pattern):
        return "a pattern cannot refer back to what its groups matched; only a replacement can"
    return "docs/reference/sql/expressions.md lists what a regular expression may have"


def like_pattern(pattern: str, escape: str = "\\") -> str:
    """The regular expression of a LIKE pattern: % any text, _ any character, the escape takes the next literally."""
    out, escaped = [], False
    for mark in pattern:
        if not escaped and mark == escape:
            escaped = True
        elif escaped or mark not in "%_":
            out.append(re.escape(mark))
            escaped = False
        else:
            out.append(".*" if mark == "%" else ".")
    if escaped:
        out.append(re.escape(escape))
    return r"(?s)\A" + "".join(out) + r"\z"


def is_simple_like(pattern: str) -> bool:
    """Whether Spark evaluates a LIKE pattern without a regular expression, and in linear time.

    It is a comparison with a text, its beginning, its end or both, or it looks for a part that is not too long.
    """
    is_long = len(pattern) > SOUGHT_MAX_CHARS and pattern.startswith("%") and pattern.endswith("%")
    return not is_long and _SIMPLE_LIKE.fullmatch(pattern) is not None


def check_like(pattern: str) -> None:
    """Raise invalid_regular_expression for a LIKE pattern that is too long."""
    if len(pattern) > PATTERN_MAX_CHARS and not is_simple_like(pattern):
        detail = f"it has more than {PATTERN_MAX_CHARS} characters"
        raise error("invalid_regular_expression", pattern=_shown(pattern), detail=detail)


def backslash_pattern(pattern: str, escape: str) -> str:
    """A LIKE pattern with another escape character, or with none, as one with backslashes."""
    if escape == "\\":
        return pattern
    out, escaped = [], False
    for mark in pattern:
        if not escaped and mark == escape:
            escaped = True
        else:
            out.append("\\" + mark if mark == "\\" or (escaped and mark in "%_") else mark)
            escaped = False
    return "".join(out) + (escape if escaped else "")


def _like(texts: pa.Array, pattern: str, escape: str = "\\") -> pa.Array:
    check_like(pattern)
    return pc.match_substring_regex(texts, like_pattern(pattern, escape))


def _regexp_like(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(texts, f"(?s){check_pattern(pattern).text}")


def _regexp_count(texts: pa.Array, pattern: str) -> pa.Array:
    # Arrow's own count looks at the rest of a text only, where ^ matches again. Each match makes a text one byte longer.
    regex = f"(?s){check_pattern(pattern).text}"
    with_marks, without = (pc.binary_length(pc.replace_substring_regex(texts, regex, mark)) for mark in ("x", ""))
    return pc.subtract(with_marks, without)


def _first_match(texts: pa.Array, pattern: str) -> tuple[list[pa.Array], int]:
    """The text before the first match, the match, the text behind it, and the groups; NULL where there is none."""
    found = check_pattern(pattern)
    regex = rf"(?s)\A(?P<before>.*?)(?P<found>{found.text})(?P<behind>.*)\z"
    parts = pc.extract_regex(texts, regex)
    before, match, *groups, behind = (pc.struct_field(parts, [i]) for i in range(found.groups + 3))
    return [before, match, behind, *groups], found.groups


def _regexp_instr(texts: pa.Array, pattern: str) -> pa.Array:
    (before, *_), _groups = _first_match(texts, pattern)
    place = pc.add(pc.utf8_length(before), pa.scalar(1, pa.int32()))
    return pc.if_else(texts.is_null(), None, place.fill_null(0))


def _regexp_substr(texts: pa.Array, pattern: str) -> pa.Array:
    return _regexp_group(texts, pattern, 0)


def _regexp_group(texts: pa.Array, pattern: str, group: int) -> pa.Array:
    """A group of the first match, NULL where there is no match; 0 is the whole match."""
    found = check_pattern(pattern)
    if not 0 <= group <= found.groups:
        return pa.nulls(len(texts), pa.string())
    return pc.struct_field(pc.extract_regex(texts, f"(?s)(?P<g0>{found.text})"), [group])


def _regexp_extract(texts: pa.Array, pattern: str, group: int) -> pa.Array:
    """As Spark has it: an empty text where there is no match."""
    if not 0 <= group <= check_pattern(pattern).groups:
        return pa.nulls(len(texts), pa.string())
    found = _regexp_group(texts, pattern, group)
    return pc.if_else(texts.is_null(), None, found.fill_null(""))


def _regexp_extract_all(texts: pa.Array, pattern: str, group: int) -> pa.Array:
    found = check_pattern(pattern)
    if not 0 <= group <= min(found.groups, _GROUP_MAX):
        return pa.nulls(len(texts), pa.list_(pa.string()))
    return _lists(texts, found, group, lambda parts: parts[1::2])


def _split(texts: pa.Array, pattern: str, limit: int) -> pa.Array:
    found = check_pattern(pattern)
    return _lists(texts, found, 0, lambda parts: _pieces(parts, limit))


def _pieces(parts: list[bytes], limit: int) -> list[bytes]:
    """The texts between matches. A match of no characters at either end of the text divides nothing."""
    if len(parts) > 1 and parts[0] == parts[1] == b"":
        parts = parts[2:]
    if len(parts) > 1 and parts[-1] == parts[-2] == b"":
        parts = parts[:-2]
    last = 2 * (limit - 1)
    if limit <= 0 or len(parts) <= last:
        return parts[::2]
    return [*parts[:last:2], b"".join(parts[last:])]


def _lists(texts: pa.Array, pattern: Pattern, group: int, choose: Callable[[list[bytes]], list[bytes]]) -> pa.Array:
    """Of each text the parts that `choose` takes: before the first match, the match, between it and the next, and so on."""
    regex, mark = f"(?s){pattern.text}", _MARK + b"\\%d" % group + _MARK
    rows = max(1, len(texts) * _LISTED_BYTES // max(texts.nbytes, 1))
    chunks = []
    for start in range(0, len(texts), rows):
        marked = pc.replace_substring_regex(texts.slice(start, rows), regex, mark)
        parts = pc.split_pattern(marked.cast(pa.binary()), _MARK).to_pylist()
        found = pa.array([None if p is None else choose(p) for p in parts], pa.list_(pa.binary()))
        chunks.append(found.cast(pa.list_(pa.string())))
    return pa.concat_arrays(chunks)


def _regexp_replace(texts: pa.Array, pattern: str, replacement: str) -> pa.Array:
    """The first match only. Arrow's own count of replacements forgets what is around a match."""
    (before, match, behind, *groups), count = _first_match(texts, pattern)
    parts = _replacement_parts(replacement, count)
    added, copies = _growth(parts)
    rest = pc.add(pc.binary_length(before), pc.binary_length(behind))
    before = _bounded(before, rest, pc.binary_length(match), pa.scalar(1), added, copies)
    written = [pa.scalar(part) if isinstance(part, str) else [match, *groups][part] for part in parts]
    replaced = pc.binary_join_element_wise(before, *written, behind, "")
    return pc.if_else(match.is_null(), texts, replaced)


def _regexp_replace_all(texts: pa.Array, pattern: str, replacement: str) -> pa.Array:
    found = check_pattern(pattern)
    parts = _replacement_parts(replacement, found.groups)
    written = "".join(part.replace("\\", "\\\\") if isinstance(part, str) else f"\\{part}" for part in parts)
    added, copies = _growth(parts)
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    most = (longest + 1) * added + (copies + 1) * longest
    if most > REPLACED_MAX_BYTES or most * len(texts) > BATCH_MAX_BYTES:
        rest = pc.binary_length(pc.replace_substring_regex(texts, f"(?s){found.text}", ""))
        matched = pc.subtract(pc.binary_length(texts), rest)
        texts = _bounded(texts, rest, matched, _regexp_count(texts, pattern), added, copies)
    return pc.replace_substring_regex(texts, f"(?s){found.text}", written)


def _growth(parts: Sequence[str | int]) -> tuple[int, int]:
    """How many bytes a replacement adds for each match, and how many copies of parts of the match."""
    written = [part for part in parts if isinstance(part, str)]
    return sum(len(part.encode()) for part in written), len(parts) - len(written)


def _bounded(texts: pa.Array, rest: Any, matched: Any, matches: Any, added: int, copies: int) -> pa.Array:
    """The texts, NULL for those that would become too long: `rest` bytes stay, `matched` bytes of `matches` are replaced."""
    sizes = [pc.cast(size, pa.int64()) for size in (rest, matched, matches)]
    most = pc.add(sizes[0], pc.add(pc.multiply(sizes[1], copies), pc.multiply(sizes[2], added)))
    before = pc.add(sizes[0], sizes[1])
    fits = pc.less_equal(most, pc.max_element_wise(before, REPLACED_MAX_BYTES))
    if (pc.sum(pc.if_else(fits, most, 0)).as_py() or 0) > BATCH_MAX_BYTES:
        raise error(
            "over_budget", detail="regexp_replace makes more text than memory may hold", hint="ask for fewer rows"
        )
    return pc.if_else(fits, texts, None)


def _replacement_parts(replacement: str, groups: int) -> tuple[str | int, ...]:
    """PostgreSQL's replacement as texts and numbers of groups: `\\1` to `\\9`, `\\&` is the match, `\\\\` a backslash."""
    parts: list[str | int] = []
    for part in re.findall(r"\\[1-9&\\]|[^\\]+|\\", replacement):
        if part == r"\&":
            parts.append(0)
        elif len(part) == 2 and part[0] == "\\" and part[1].isdigit():
            if int(part[1]) <= groups:
                parts.append(int(part[1]))
        else:
            parts.append("\\" if part == "\\\\" else part)
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class TextFunction:
    """One function: what it gives, its type, and how it is computed for texts and one value of each other argument."""

    description: str
    type: Type
    run: Callable[..., pa.Array]


_TEXTS = Type("ARRAY", element=TEXT)
FUNCTIONS: dict[str, TextFunction] = {
    "like": TextFunction("a LIKE b, c is the escape character", BOOLEAN, _like),
    "regexp_like": TextFunction("whether a regular expression matches", BOOLEAN, _regexp_like),
    "regexp_count": TextFunction("how often it matches", INT, _regexp_count),
    "regexp_instr": TextFunction("place of the first match in characters, 0 for none", INT, _regexp_instr),
    "regexp_substr": TextFunction("the first match, NULL for none", TEXT, _regexp_substr),
    "regexp_group": TextFunction("group c of the first match, NULL for none", TEXT, _regexp_group),
    "regexp_extract": TextFunction("group c of the first match, empty for none", TEXT, _regexp_extract),
    "regexp_extract_all": TextFunction("group c of all matches", _TEXTS, _regexp_extract_all),
    "regexp_replace": TextFunction("with c instead of the first match", TEXT, _regexp_replace),
    "regexp_replace_all": TextFunction("with c instead of all matches", TEXT, _regexp_replace_all),
    "split": TextFunction("the texts between matches, at most c of them", _TEXTS, _split),
}


def call_text_function(name: str, texts: pa.Array, *others: pa.Array | pa.Scalar) -> pa.Array:
    """The column that a function gives. Rows with the same other arguments are computed together."""
    function = FUNCTIONS[name]
    codes = np.zeros(len(texts), np.int64)
    for other in others:
        if not isinstance(other, pa.Scalar):
            encoded = other.dictionary_encode()
            indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            codes = np.unique(codes * (len(encoded.dictionary) + 1) + indices + 1, return_inverse=True)[1]
    _, first, where, counts = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    if len(first) <= 1:
        return _run(function, texts, others, 0)
    order = np.argsort(where, kind="stable")
    ordered, start, pieces = texts.take(pa.array(order)), 0, []
    for row, count in zip(first, counts, strict=True):
        pieces.append(_run(function, ordered.slice(start, count), others, int(row)))
        start += count
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_arrays(pieces).take(pa.array(back))


def _run(function: TextFunction, texts: pa.Array, others: Sequence[pa.Array | pa.Scalar], row: int) -> pa.Array:
    """The function for texts that have the other arguments of one row."""
    type_ = function.type.to_arrow()
    if not len(texts):
        return pa.nulls(0, type_)
    values = [(other if isinstance(other, pa.Scalar) else other[row]).as_py() for other in others]
    if None in values:
        return pa.nulls(len(texts), type_)
    try:
        found = function.run(texts, *values)
    except pa.ArrowInvalid:  # a pattern of LIKE is too large for RE2
        return pa.nulls(len(texts), type_)
    except PenstockError as failure:
        if failure.condition != "invalid_regular_expression":
            raise
        return pa.nulls(len(texts), type_)
    return found if found.type == type_ else found.cast(type_)
