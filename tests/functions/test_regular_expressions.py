"""Functions of regular expressions over columns: what they give, how patterns are read, and their bounds."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.functions import regular_expressions
from penstock.functions.regular_expressions import (
    FUNCTIONS,
    backslash_pattern,
    call_text_function,
    check_like,
    check_pattern,
    like_pattern,
)
from tests.support.examples import examples

TEXTS = ["", "a", "abcabc", "ABC", "a\nb", "größer", "x😀y", "  tab\t", "a,b,,c", None]


def called(name: str, text: str | None, *others: Any) -> Any:
    """One row: with constants, and with columns beside a row whose other arguments are NULL."""
    types = [pa.string(), *(pa.int32() if isinstance(o, int) else pa.string() for o in others)]
    column = pa.array([text], pa.string())
    constants = [pa.scalar(o, t) for o, t in zip(others, types[1:], strict=True)]
    (found,) = call_text_function(name, column, *constants).to_pylist()
    beside = [pa.array([v, None], t) for v, t in zip((text, *others), types, strict=True)]
    assert call_text_function(name, beside[0], *beside[1:]).to_pylist() == [found, None]
    return found


@pytest.mark.parametrize("pattern", ("a", "b.", "^a", "c$", "", "[^a-c]+", "(?:ab|c)+", "x?", "\\.", "😀", "ö|y"))
@pytest.mark.parametrize("text", [t for t in TEXTS if t is not None])
def test_matches_are_those_of_python(text: str, pattern: str) -> None:
    regex = re.compile(pattern.replace("$", "\\Z"), re.S)
    first = regex.search(text)
    assert called("regexp_like", text, pattern) is (first is not None)
    assert called("regexp_instr", text, pattern) == (first.start() + 1 if first else 0)
    assert called("regexp_substr", text, pattern) == (first[0] if first else None)
    assert called("regexp_extract", text, pattern, 0) == (first[0] if first else "")
    assert called("regexp_replace", text, pattern, "<\\&>") == regex.sub(lambda m: f"<{m[0]}>", text, count=1)


@pytest.mark.parametrize("pattern", ("a", "^a", "c$", "[^a-c]+", "(?:ab|c)+", "😀", "\\ba"))
@pytest.mark.parametrize("text", [t for t in TEXTS if t is not None])
def test_all_matches_are_those_of_python(text: str, pattern: str) -> None:
    regex = re.compile(pattern.replace("$", "\\Z"), re.S)
    assert called("regexp_count", text, pattern) == len(regex.findall(text))
    assert called("regexp_extract_all", text, pattern, 0) == regex.findall(text)
    assert called("regexp_replace_all", text, pattern, "<\\&>") == regex.sub(lambda m: f"<{m[0]}>", text)
    assert called("split", text, pattern, -1) == regex.split(text)
    assert called("split", text, pattern, 2) == regex.split(text, maxsplit=1)


def test_an_empty_match_divides_a_text_into_its_characters() -> None:
    assert called("split", "aö😀", "", -1) == ["a", "ö", "😀"]
    assert called("split", "abc", "", 2) == ["a", "bc"]
    assert called("split", "abc", "x*", 0) == ["a", "b", "c"]
    assert called("split", "", ",", -1) == [""]
    assert called("split", ",", ",", -1) == ["", ""]


@pytest.mark.parametrize(
    "replacement, wanted",
    (
        ("\\2\\1", "[ba]c[ba]c"),
        ("\\&\\&", "[abab]c[abab]c"),
        ("\\\\", "[\\]c[\\]c"),
        ("\\0\\", "[\\0\\]c[\\0\\]c"),
        ("\\9", "[]c[]c"),
        ("$1", "[$1]c[$1]c"),
        ("", "[]c[]c"),
    ),
)
def test_replacements_are_postgresqls(replacement: str, wanted: str) -> None:
    found = called("regexp_replace_all", "abcabc", "(a)(b)", f"[{replacement}]")
    assert found == wanted
    assert called("regexp_replace", "abcabc", "(a)(b)", f"[{replacement}]") == wanted.partition("c")[0] + "cabc"


def test_all_nine_groups_can_be_replaced_and_extracted() -> None:
    pattern = "".join(f"({c})" for c in "abcdefghi")
    assert called("regexp_replace", "xabcdefghiy", pattern, "\\9\\8\\1") == "xihay"
    assert called("regexp_replace_all", "xabcdefghiy", pattern, "\\9\\8\\1") == "xihay"
    assert called("regexp_extract", "xabcdefghiy", pattern, 9) == "i"
    assert called("regexp_extract_all", "xabcdefghiy", pattern, 9) == ["i"]
    assert called("regexp_extract", "xabcdefghiy", pattern + "(y)", 10) is None
    assert check_pattern("(a)" * 1000).groups == 9
    assert called("regexp_extract_all", "abc", "a", 1) is None


@pytest.mark.parametrize(
    "pattern, text, count",
    (
        ("\\w", "aÖ_1٣-", 5),
        ("\\W", "aÖ_1-", 1),
        ("\\d", "1٣a", 2),
        ("\\D", "1٣a", 1),
        ("\\s", " \t\n\u00a0\u2003x", 5),
        ("\\S", " \u00a0x", 1),
        ("[[:alpha:]]", "aÖ1", 2),
        ("[^[:alpha:]]", "aÖ1", 1),
        ("[\\w.]", "aÖ.-", 3),
        ("[[:upper:]]", "aÖ", 1),
        ("[]a]", "]ab", 2),
        ("[^]a]", "]ab", 1),
        ("\\u00d6", "aÖ", 1),
        ("\\U0001F600", "x😀", 1),
        ("\\ö", "ö", 1),
        ("\\Q(a\\E", "(a(a", 2),
        ("(?i)ö", "öÖ", 2),
        ("\\yb\\y", "a b c", 1),
        ("a\\Z", "aba", 1),
        ("(?P<n>a)(?<m>b)", "abab", 2),
        ("a{2}", "aaaa", 2),
        (".", "a\nb", 3),
        ("[(]", "a(", 1),
        ("\\[(a)", "[a", 1),
    ),
)
def test_patterns_are_read_as_postgresql_reads_them(pattern: str, text: str, count: int) -> None:
    assert called("regexp_count", text, pattern) == count


@pytest.mark.parametrize(
    "pattern, groups", (("(a)(?:b)(?i)[(]\\(", 1), ("(?P<x>a)((b))", 3), ("\\Q(\\E(a)", 1), ("[)(](a)", 1))
)
def test_groups_are_counted(pattern: str, groups: int) -> None:
    assert check_pattern(pattern).groups == groups


@pytest.mark.parametrize(
    "pattern", ("a(?=b)", "(a)\\1", "a(", "[a", "\\", "a" * 10_001, "((((a{100}){100}){100}){100})")
)
def test_a_pattern_that_cannot_be_read_is_refused_or_null(pattern: str) -> None:
    with pytest.raises(PenstockError) as caught:
        check_pattern(pattern)
    assert caught.value.condition == "invalid_regular_expression" and caught.value.hint
    for name, function in FUNCTIONS.items():
        if name != "like":
            others = (
                (pattern,) if function.run.__code__.co_argcount == 2 else (pattern, 1 if "replace" not in name else "x")
            )
            assert called(name, "ab", *others) is None, name


def test_a_refusal_says_what_to_do() -> None:
    for pattern, word in (("a(?=b)", "AND NOT"), ("(?<!a)b", "AND NOT"), ("(a)\\1", "refer back"), ("a(", "docs/")):
        with pytest.raises(PenstockError) as caught:
            check_pattern(pattern)
        assert word in str(caught.value.hint)


def test_every_row_has_its_own_pattern() -> None:
    texts = pa.array(["abc", "abc", None, "abc", "xyz", "abc"])
    patterns = pa.array(["b.", None, "b", "(", "z", "b."])
    assert call_text_function("regexp_substr", texts, patterns).to_pylist() == ["bc", None, None, None, "z", "bc"]
    marks = pa.array(["1", "2", "3", "4", None, "6"])
    found = call_text_function("regexp_replace", texts, patterns, marks).to_pylist()
    assert found == ["a1", None, None, None, None, "a6"]
    assert call_text_function("regexp_like", texts.slice(0, 0), patterns.slice(0, 0)).to_pylist() == []


def test_a_slice_gives_the_slice_of_the_answer() -> None:
    texts, patterns = pa.array(["a", "b", "c", None] * 5), pa.array(["a", "b|c", None] * 6 + ["c", "b"])
    found = call_text_function("regexp_like", texts, patterns).to_pylist()
    assert call_text_function("regexp_like", texts.slice(3, 9), patterns.slice(3, 9)).to_pylist() == found[3:12]


@pytest.mark.parametrize("name", ("regexp_replace", "regexp_replace_all"))
def test_a_replacement_makes_no_text_of_more_than_a_million_bytes(name: str) -> None:
    def replaced(texts: list[str], pattern: str, replacement: str) -> list[str | None]:
        found: list[str | None] = call_text_function(
            name, pa.array(texts), pa.scalar(pattern), pa.scalar(replacement)
        ).to_pylist()
        return found

    long = "b" * 999_999
    assert replaced(["a", long, long + "a"], "a", "x" * 1001) == ["x" * 1001, long, None]
    assert replaced([long + long + "a"], "a", "x") == [long + long + "x"]
    assert replaced(["a" * 600_000, "ab"], "a+", "\\&\\&") == [None, "aab"]
    assert replaced([f"{long[:-3]}ab"], "(a)b", "[\\1]") == [f"{long[:-3]}[a]"]


def test_replacements_of_a_batch_are_bounded_together() -> None:
    texts = pa.array(["a" * 1000] * 300)
    with pytest.raises(PenstockError) as caught:
        call_text_function("regexp_replace_all", texts, pa.scalar("a"), pa.scalar("x" * 900))
    assert caught.value.condition == "over_budget"
    assert call_text_function("regexp_replace_all", texts, pa.scalar("a"), pa.scalar("x" * 1001)).null_count == 300


def test_lists_of_long_texts_are_made_piece_by_piece() -> None:
    texts = pa.array(["a," * 200_000, None, "", "b"] * 4)
    found = call_text_function("split", texts, pa.scalar(","), pa.scalar(-1))
    assert found.value_lengths().to_pylist() == [200_001, None, 1, 1] * 4


def test_patterns_of_nested_repetition_end() -> None:
    text = "a" * 100_000 + "!"
    assert called("regexp_like", text, "(a+)+$") is False
    assert called("regexp_replace", text, "(a|aa)+$", "x") == text
    assert called("like", text, "%" + "a%" * 50 + "b") is False


@pytest.mark.parametrize("pattern", ("", "%", "a%", "_b%", "100\\%", "a\\", "\\_", "%.%", "a\\\\b"))
def test_like_has_an_escape_character(pattern: str) -> None:
    other = pattern.replace("\\", "#")
    assert like_pattern(other, "#") == like_pattern(pattern) or "\\" in pattern[-1:] or "\\\\" in pattern
    for text in ("", "a", "ab", "100%", "a\\", "_", "x.y", "a\\b", "a#b"):
        wanted = called("like", text, other, "#")
        assert called("like", text, backslash_pattern(other, "#")) == wanted
    assert called("like", "a\\%", backslash_pattern("a\\%", "")) is True


def test_a_like_pattern_that_is_too_long_is_refused_or_null() -> None:
    check_like("a" * 10_001 + "%")
    pattern = "%a_" * 3334
    with pytest.raises(PenstockError, match="more than 10000"):
        check_like(pattern)
    assert called("like", "a", pattern) is None and called("like", "a", pattern[3:]) is False


@settings(max_examples=examples(100), deadline=None)
@given(st.text("ab\\()[]{}*+?|^$.:<>P=!Q1wäE-,i😀", max_size=12), st.text("ab\n(ä😀", max_size=8))
def test_any_pattern_is_refused_or_gives_an_answer(pattern: str, text: str) -> None:
    try:
        groups = check_pattern(pattern).groups
    except PenstockError:
        assert called("regexp_like", text, pattern) is None
        return
    matched = called("regexp_like", text, pattern)
    assert (called("regexp_substr", text, pattern) is not None) is matched
    assert (called("regexp_instr", text, pattern) > 0) is matched
    assert (called("regexp_count", text, pattern) > 0) is matched
    assert called("regexp_replace_all", text, pattern, "\\&") == text
    assert called("regexp_replace", text, pattern, "\\&") == text
    found = called("regexp_extract_all", text, pattern, 0)
    assert len(found) == called("regexp_count", text, pattern)
    assert called("regexp_extract", text, pattern, groups) is not None


def test_the_cache_of_patterns_is_bounded() -> None:
    assert regular_expressions.check_pattern.cache_info().maxsize == 1024
