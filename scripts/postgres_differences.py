"""Where a function means something else than in PostgreSQL. The reference shows the table; tests hold it against a real server.

A difference that is neither here nor in `LACKING` is a defect.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference by an example: what PostgreSQL and Penstock answer to `call`, and why. `error` is a SQLSTATE."""

    call: str
    postgres: str
    penstock: str | float | int | None
    reason: str
    subject: str = ""  # if it is not the function that is called

    @property
    def function(self) -> str:
        return self.subject or self.call.partition("(")[0].lower()


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "round(CAST(2.5 AS double precision))",
        "2",
        3.0,
        "halves go away from zero for every type; in PostgreSQL for numeric only",
    ),
    Difference("sign(CAST('NaN' AS double precision))", "0", float("nan"), "NaN has no sign"),
    Difference(
        "CAST(CAST(1.5 AS double precision) AS int)", "2", 1, "CAST to a whole number cuts off; use ROUND first"
    ),
    Difference("CAST(CAST(1 AS double precision) AS text)", "1", "1.0", "a DOUBLE always has a fraction as text"),
    Difference("array_to_string(ARRAY[CAST(1 AS double precision)], ',')", "1", "1.0", "the same, for elements"),
    Difference(
        "atan2(CAST('-0' AS double precision), CAST(-1 AS double precision))",
        "-3.141592653589793",
        3.141592653589793,
        "zero has no sign",
    ),
    Difference("div(CAST(-2147483648 AS int), CAST(-1 AS int))", "2147483648", -2147483648, "whole numbers wrap"),
    Difference("abs(CAST(-2147483648 AS int))", "error 22003", -2147483648, "whole numbers wrap"),
    Difference("CAST(1 AS int) / CAST(0 AS int)", "error 22012", None, "no reading fails a query: NULL", subject="/"),
    Difference("mod(CAST(1 AS int), CAST(0 AS int))", "error 22012", None, "the same"),
    Difference("ln(CAST(0 AS double precision))", "error 2201E", None, "the same"),
    Difference("log(CAST(-1 AS double precision))", "error 2201E", None, "the same"),
    Difference("substring(CAST('abc' AS text), 1, -1)", "error 22011", None, "the same"),
    Difference("split_part(CAST('a,b' AS text), ',', 0)", "error 22023", None, "the same"),
    Difference("chr(0)", "error 54000", None, "the same"),
    Difference("regexp_like('a', concat('(', ''))", "error 2201B", None, "the same, if it is no constant"),
    Difference(
        "regexp_substr('abc', 'a|ab')",
        "ab",
        "a",
        "the first alternative that matches is taken; in PostgreSQL the longest",
        subject="regular expressions",
    ),
    Difference(
        "regexp_replace('abc', 'b*', '-', 'g')",
        "-a--c-",
        "-a-c-",
        "no empty match right behind another match",
        subject="regular expressions",
    ),
    Difference("sqrt(CAST(-1 AS double precision))", "error 2201F", float("nan"), "outside the domain: NaN"),
    Difference("asin(CAST(2 AS double precision))", "error 22003", float("nan"), "the same"),
    Difference("exp(CAST(1000 AS double precision))", "error 22003", float("inf"), "too large: infinite"),
    Difference(
        "power(CAST(0 AS double precision), CAST(-1 AS double precision))", "error 2201F", float("inf"), "the same"
    ),
)
NOTES = (
    "`array_prepend(array, element)` has the array first, as all functions of arrays have.",
    "Regular expressions are those of RE2, which cannot look ahead or behind or refer back to a group: [patterns](sql/expressions.md#patterns).",
    "`\\y` knows words of ASCII letters, digits and underscores only; `\\w` knows all letters.",
    "`levenshtein` and `jaro_winkler_similarity` take at most 1 000 characters, and so do the characters of `btrim` and what `strpos`, `contains`, `replace`, "
    "`split_part` and `substring_index` look for. Beyond that the answer is NULL.",
    "`array_distinct`, `array_union`, `array_intersect`, `array_except` and `arrays_overlap` take at most 1 000 elements where these are arrays, structs "
    "or binaries.",
    "`regexp_replace` gives NULL where its text could be longer than a million bytes, as `repeat`, `lpad` and `rpad` do.",
    "`array_agg` leaves NULL out.",
)
# Names that PostgreSQL has no function for; the others are compared with it.
LACKING = frozenset(
    "signum expm1 log2 log1p pmod sec csc hypot rand rint bround isnan is_nan nanvl getbit bit_get shiftleft shiftright "
    "shiftrightunsigned bin hex unhex conv ifnull nvl if iif lcase ucase len substring_index instr locate charindex startswith "
    "ends_with endswith contains split find_in_set elt levenshtein jaro_winkler_similarity soundex luhn_check regexp_extract "
    "regexp_extract_all url_encode url_decode parse_url base64 unbase64 typeof sha1 sha sha2 crc32 hash xxhash64 get_json_object "
    "year quarter month weekofyear week_of_year day dayofmonth day_of_month dayofyear day_of_year dayofweek weekday hour minute "
    "second dayname monthname date_format date_add date_sub add_months last_day next_day datediff date_diff months_between "
    "from_utc_timestamp to_utc_timestamp from_unixtime unix_timestamp unix_micros unix_millis unix_seconds timestamp_micros "
    "timestamp_millis timestamp_seconds array_size size array_contains array_has array_distinct array_compact array_union "
    "array_intersect array_except arrays_overlap array_max array_min array_sort sort_array slice element_at flatten array_join "
    "count_if countif any_value first last min_by arg_min argmin max_by arg_max argmax stdev variance_samp variance_pop skewness "
    "kurtosis median percentile percentile_approx approx_count_distinct twa arrayagg collect_list collect_set group_concat".split()
)
