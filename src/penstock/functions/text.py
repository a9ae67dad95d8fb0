"""Text: LIKE, regular expressions, concatenation, case, length in characters, trimming, substrings."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.expression import Call
from penstock.functions.casts import cast_value
from penstock.functions.regular_expressions import FUNCTIONS, call_text_function, like_pattern
from penstock.functions.values import OperationInfo, Value, as_array, constant, per_distinct, row_by_row
from penstock.types import TEXT

_LONGEST = 2**31 - 1


def _concat(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    separator = b"" if call.type.kind == "BINARY" else ""
    return pc.binary_join_element_wise(*arguments, pa.scalar(separator, call.type.to_arrow()))


def _like(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    value, pattern = arguments[0], constant(call, 1)
    if pattern is None:
        return pa.nulls(rows, pa.bool_())
    if call.operation == "ilike":
        value, pattern = _change_case(value, lower=True), pattern.lower()
    literal = pattern.strip("%")
    if not any(mark in literal for mark in "%_\\"):
        if pattern == literal:
            return pc.equal(value, literal)
        if pattern == literal + "%":
            return pc.starts_with(value, literal)
        if pattern == "%" + literal:
            return pc.ends_with(value, literal)
        if pattern == "%" + literal + "%":
            return pc.match_substring(value, literal)
    return pc.match_substring_regex(value, like_pattern(pattern))


def _matches(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    pattern = constant(call, 1)
    return pa.nulls(rows, pa.bool_()) if pattern is None else pc.match_substring_regex(arguments[0], pattern)


def _regular(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    return call_text_function(call.operation, as_array(arguments[0], rows), *arguments[1:])


def _change_case(value: pa.Array, lower: bool) -> pa.Array:
    # Arrow maps one character to one; beyond ASCII a case may need two (ß to SS), which Python and Java know.
    if pc.all(pc.string_is_ascii(value)).as_py() in (True, None):
        return (pc.utf8_lower if lower else pc.utf8_upper)(value)
    return per_distinct(str.lower if lower else str.upper, value, pa.string())


def _length(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    value = arguments[0]
    count = pc.binary_length(value) if pa.types.is_binary(value.type) else pc.utf8_length(value)
    return cast_value(count, call.type)


def _trim(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    characters = constant(call, 1)
    return pc.utf8_trim(arguments[0], characters=" " if characters is None else characters)


def _substring(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    start, length = constant(call, 1), constant(call, 2)
    known = len(call.arguments) == 2 or (length is not None and length >= 0)
    if start is not None and known:
        first = max(start - 1, 0)
        stop = _LONGEST if length is None else min(max(start - 1 + length, first), _LONGEST)
        return pc.utf8_slice_codeunits(arguments[0], min(first, _LONGEST), stop)
    return row_by_row(substring, arguments, TEXT, rows)


def substring(text: str, start: int, length: int = 2 * _LONGEST + 2) -> str | None:
    """Position 1 is the first character. Positions before it count, but have no character; a negative length is NULL."""
    return None if length < 0 else text[max(start - 1, 0) : max(start - 1 + length, 0)]


TEXTS = {
    "concat": OperationInfo("a || b || ...; NULL where any is NULL", _concat),
    "like": OperationInfo("a LIKE 'pattern' with %, _ and backslash", _like, is_costly=True),
    "ilike": OperationInfo("LIKE that ignores case", _like, is_costly=True),
    "matches": OperationInfo(
        "a SIMILAR TO pattern, which is a constant regular expression here", _matches, is_costly=True
    ),
    "lower": OperationInfo("in lower case", lambda arguments, call, rows: _change_case(arguments[0], lower=True)),
    "upper": OperationInfo("in upper case", lambda arguments, call, rows: _change_case(arguments[0], lower=False)),
    "length": OperationInfo("number of characters (bytes of a BINARY)", _length),
    "trim": OperationInfo("without spaces (or the given characters) at both ends", _trim),
    "substring": OperationInfo(
        "characters from position b, c of them; positions before 1 count, but are empty", _substring
    ),
    **{
        name: OperationInfo(function.description, _regular, is_costly=True)
        for name, function in FUNCTIONS.items()
        if name not in ("like", "regexp_group") and function.type.kind != "ARRAY"
    },
}
