"""Calls of the listed functions over rows of edge values, and what PostgreSQL says about them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.clock import parse_timestamp
from penstock.types import Type, parse_type
from scripts.postgres_differences import DIFFERENCES
from tests.support.postgres import PrivatePostgres

_INTS = [0, 1, -1, 2, 3, -7, 10, 31, 100, 2**31 - 1, -(2**31), None]
_SMALL = [0, 1, -1, 2, 3, -2, 5, 7, None]
_BIGS = [0, 1, -1, 5, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), None]
_DOUBLES = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 2.675, 1.0, -1.0, 2.0, 10.0, 100.0, 1e15, -1e300, math.nan]
_DOUBLES += [math.inf, -math.inf, 0.1, -3.75, None]  # type: ignore[list-item]
_DECIMALS = ["0.00", "0.50", "-0.50", "1.25", "-1.25", "99.99", "12345678.90", None]
_TEXTS = [
    "",
    "a",
    "abc",
    "ABC",
    " ab ",
    "a,b,,c",
    "Grüße aus Köln",
    "straße",
    "hello world",
    "ünï-x y/z",
    "a\nb",
    "\tx",
    "x😀y",
]
_TEXTS += ["aXbXc", "100%", "aab", None]  # type: ignore[list-item]
_PARTS = ["a", "", "b", "X", " ", "ß", ",", "ab", "😀", "z", None]
_TIMES = ["1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "2000-02-29 12:34:56.789012", "1900-03-01 00:00:00"]
_TIMES += [
    "2024-02-29 23:59:59",
    "2024-12-30 00:00:00",
    "2026-01-01 00:00:00",
    "2027-01-03 08:09:10.5",
    "1582-10-15 00:00:00",
]
_TIMES += ["2023-12-31 23:59:59.999999", "9999-12-31 23:59:59", None]  # type: ignore[list-item]
_ARRAYS = [[1.0, 2.0, 2.0], [], [math.nan, 1.0], [3.0, None, 1.0], None]

COLUMNS: dict[str, tuple[str, str, list[Any]]] = {
    "i": ("INT", "int", _INTS),
    "j": ("INT", "int", _SMALL),
    "b": ("BIGINT", "bigint", _BIGS),
    "d": ("DOUBLE", "double precision", _DOUBLES),
    "f": ("DOUBLE", "double precision", _DOUBLES[::-1]),
    "e": ("DECIMAL(10, 2)", "numeric(10, 2)", _DECIMALS),
    "o": ("BOOLEAN", "boolean", [True, False, None]),
    "s": ("TEXT", 'text COLLATE "und-x-icu"', _TEXTS),
    "p": ("TEXT", 'text COLLATE "und-x-icu"', _PARTS),
    "t": ("TIMESTAMP", "timestamp", _TIMES),
    "u": ("TIMESTAMP", "timestamp", _TIMES[::-1]),
    "g": ("INT", "int", [0, 1, 2, 3, 4, 5]),
    "h": ("DOUBLE", "double precision", [1.5, 2.0, -3.25, None, 10.0, 0.0, 7.5]),
    "k": ("DOUBLE", "double precision", [4.0, None, 1.0, 2.5, -8.0]),
    "a": ("ARRAY<DOUBLE>", "double precision[]", _ARRAYS),
}
ROWS = 64

_OF_DOUBLE = (
    "sqrt cbrt exp ln log10 sin cos tan cot asin acos atan sinh cosh tanh asinh acosh atanh radians degrees sign floor ceil ceiling"
).split()
_CALLS = (
    "abs(i) abs(b) abs(d) abs(e) round(d) round(e) round(e,1) round(e,-1) trunc(d) trunc(e) trunc(e,1) trunc(e,-1) floor(e) ceil(e) "
    "log(d) log(b) mod(i,j) mod(b,j) mod(e,e) div(i,j) div(e,j) power(d,f) pow(d,f) atan2(d,f) pi() factorial(j) d^2 "
    "width_bucket(d,0,10,5) width_bucket(d,10,0,5) width_bucket(d,-1.5,2.5,4) greatest(d,f) least(d,f) greatest(i,j) least(i,j) "
    "coalesce(i,j) nullif(i,j) nullif(s,p) lower(s) upper(s) initcap(s) reverse(s) length(s) char_length(s) character_length(s) "
    "bit_length(s) octet_length(s) concat(s,p) concat(s,i) concat_ws(',',s,p) concat_ws(p,s,s) trim(s) btrim(s) ltrim(s) rtrim(s) "
    "btrim(s,'ab') ltrim(s,'ab') rtrim(s,'cb') btrim(s,p) substring(s,j) substring(s,j,2) substr(s,j) substr(s,2,j) left(s,j) right(s,j) "
    "lpad(s,j) rpad(s,j) lpad(s,5,p) rpad(s,7,'xy') repeat(s,j) replace(s,p,'-') translate(s,'abX','12') translate(s,p,'') strpos(s,p) "
    "starts_with(s,p) split_part(s,',',j) split_part(s,p,1) split_part(s,p,-1) ascii(s) md5(s) chr(i) "
    "regexp_replace(s,'[ab]','-') regexp_replace(s,'[ab]','-','g') regexp_replace(s,'(a)(b)','\\2\\1') regexp_like(s,'^a') "
    "regexp_count(s,'a') regexp_instr(s,'b') regexp_substr(s,'b.*') "
    "date_part('year',t) date_part('second',t) date_part('epoch',t) date_trunc('week',t) date_trunc('month',t) date_trunc('quarter',t) "
    "date_trunc('year',t) date_trunc('hour',t) date_trunc('second',t) date_trunc('day',t) date_trunc('minute',t) "
    "to_char(t,'YYYY-MM-DD_HH24:MI:SS') to_char(t,'DD.MM.YY') to_char(t,'HH12:MI_AM') to_char(t,'Mon') to_char(t,'MS.US') to_char(t,'DDD') "
    "to_timestamp(i) cardinality(a) array_length(a,1) array_position(a,2.0) array_append(a,d) array_remove(a,2.0) "
    "array_to_string(a,',') array_to_string(a,',','-') i/j d/f i%j s||p e/e e*e s~'^a' s~*'^A' s!~'b' d=f d<f d>f"
).split()
CALLS = [
    *_CALLS,
    *(f"{name}(d)" for name in _OF_DOUBLE),
    "POSITION(p IN s)",
    "OVERLAY(s PLACING 'XX' FROM 2)",
    "OVERLAY(s PLACING 'XX' FROM 2 FOR 1)",
    "SUBSTRING(s FROM 2 FOR 3)",
    "TRIM(LEADING 'a' FROM s)",
    "TRIM(TRAILING 'b' FROM s)",
    *(f"EXTRACT({part} FROM t)" for part in "EPOCH YEAR QUARTER MONTH WEEK DAY DOW DOY HOUR MINUTE SECOND".split()),
    *(f"s LIKE '{pattern}'" for pattern in ("a%", "%b%", "_bc", "%\\%", "")),
    "s ILIKE 'A%'",
    "s LIKE '100#%' ESCAPE '#'",
    *(
        f"s SIMILAR TO '{pattern}'"
        for pattern in ("a%", "(a|abc)", "[a-c]+", "_{3}", "%[^a-z]%", "%[[:upper:]]%", "%(X|\\%)%", "a_b", "")
    ),
    "s NOT SIMILAR TO '%b%'",
    *(f"s SIMILAR TO '{pattern}'" for pattern in ("%\\w", "%[[:alpha:]]", "%\\s%", "%[[:space:][:digit:]]%")),
    *(f"s LIKE '{pattern}'" for pattern in ("%a%b%", "a_%", "%", "_", "a%c", "%ß%u_", "%\n%", "abc", "%😀_")),
    *(f"s ILIKE '{pattern}'" for pattern in ("%ö%n", "%B%", "GRÜ%", "_BC")),
    *(
        "s LIKE p",
        "s LIKE '%' || p || '%'",
        "s NOT LIKE p || '%'",
        "s ILIKE upper(p) || '%'",
        "s LIKE p || '#%' ESCAPE '#'",
    ),
    *(
        f"regexp_count(s, '{pattern}')"
        for pattern in (
            *("\\w", "\\W", "\\d", "\\s", "[[:alpha:]]", "[[:upper:]]", "[^[:alnum:] ]", "[[:punct:]]", "[\\w,]", "."),
            *("^a", "a$", "(?:ab|,)", "a{1,2}", "b+?", "\\ya", "[]a]", "\\u00fc", "(?i)A", "x|y", "a\\Z", "\\AA"),
        )
    ),
    *("regexp_like(s, '^.*b$')", "s ~ p", "s !~ p", "s ~* upper(p)", "s ~* 'STRASSE'", "s ~* 'KÖLN'", "s ~* 'GRÜßE'"),
    *("regexp_instr(s, '[^[:ascii:]]')", "regexp_instr(s, 'y')", "regexp_instr(s, '')", "regexp_instr(s, p)"),
    *("regexp_substr(s, '[a-z]+$')", "regexp_substr(s, 'a.*?b')", "regexp_substr(s, '')", "regexp_substr(s, p)"),
    *(
        "regexp_replace(s, '\\w+', '<\\&>')",
        "regexp_replace(s, '\\w+', '<\\&>', 'g')",
        "regexp_replace(s, 'B', '-', 'gi')",
    ),
    *("regexp_replace(s, 'ß|Ü', '-', 'i')", "regexp_replace(s, p, '-')", "regexp_replace(s, p || p, p, 'g')"),
    *(
        "regexp_replace(s, '(x)|(a)', '[\\1\\2\\3]', 'g')",
        "regexp_replace(s, 'b', '\\0\\\\-\\')",
        "regexp_replace(s, '^', '-')",
    ),
    "s SIMILAR TO '100#%' ESCAPE '#'",
    "make_timestamp(2000 + j, 2, 28 + j, j, 59, 1.5)",
    *(f"{name}() OVER (ORDER BY id)" for name in ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist")),
    "rank() OVER (ORDER BY g)",
    "dense_rank() OVER (ORDER BY g)",
    "ntile(5) OVER (ORDER BY id)",
    "lag(i) OVER (ORDER BY id)",
    "lag(i, 2) OVER (PARTITION BY g ORDER BY id)",
    "lead(i, 1) OVER (ORDER BY id)",
    "first_value(i) OVER (PARTITION BY g ORDER BY id)",
    "last_value(i) OVER (PARTITION BY g ORDER BY id)",
    "nth_value(i, 2) OVER (PARTITION BY g ORDER BY id)",
    "to_timestamp(to_char(t, 'YYYY-MM-DD HH24:MI:SS.US'), 'YYYY-MM-DD HH24:MI:SS.US')",
    "to_timestamp(to_char(t, 'DD Mon YYYY, HH12:MI AM'), 'DD Mon YYYY, HH12:MI AM')",
    "CAST(d AS TEXT)",
    "CAST(d AS INT)",
    "CAST(d AS BIGINT)",
    "CAST(e AS INT)",
    "CAST(i AS TEXT)",
    "CAST(o AS TEXT)",
    "CAST(s AS INT)",
    "CASE WHEN o THEN i ELSE j END",
]
_AGGREGATES = (
    "count(*) count(d) sum(h) sum(j) avg(h) avg(j) min(d) max(d) min(t) max(t) min(i) max(i) stddev(h) stddev_samp(h) stddev_pop(h) "
    "variance(h) var_samp(h) var_pop(h) corr(h,k) covar_samp(h,k) covar_pop(h,k) regr_slope(h,k) regr_intercept(h,k) regr_r2(h,k) "
    "regr_count(h,k) regr_avgx(h,k) regr_avgy(h,k) regr_sxx(h,k) regr_sxy(h,k) regr_syy(h,k) bool_and(o) every(o) bool_or(o) bit_and(b) "
    "bit_or(b) bit_xor(b)"
).split()
AGGREGATES = [
    *_AGGREGATES,
    "count(DISTINCT j)",
    "sum(h) FILTER (WHERE o)",
    "percentile_cont(0.3) WITHIN GROUP (ORDER BY h)",
    "percentile_disc(0.3) WITHIN GROUP (ORDER BY h)",
    "percentile_disc(0.3) WITHIN GROUP (ORDER BY h DESC)",
    "string_agg(CAST(j AS TEXT), ',' ORDER BY j)",
]
# Of each call its type in PostgreSQL, and for each row a text, None or `Refused`.
Answers = dict[str, tuple[str, list[Any]]]
DECLARED = ", ".join(f"{name} {ours}" for name, (ours, _, _) in COLUMNS.items())
# Functions that differ by value somewhere; where PostgreSQL answers with an error, nothing is compared.
LISTED = {d.function for d in DIFFERENCES if not d.postgres.startswith("error") and d.function != "regular expressions"}
# The time, chance, the order of arguments, JSON and PostgreSQL's type "char".
NOT_COMPARED = (
    "random now current_timestamp localtimestamp array_prepend bit_count char json_array_length json_object_keys to_json make_date "
    "array array_agg mode"
).split()
_TYPES = {
    "INT": {"integer", "bigint", "numeric", "double precision"},
    "BIGINT": {"bigint", "numeric", "integer"},
    "DOUBLE": {"double precision", "numeric"},
    "DECIMAL": {"numeric"},
    "TEXT": {"text"},
    "BOOLEAN": {"boolean"},
    "TIMESTAMP": {"timestamp without time zone", "timestamp with time zone"},
    "ARRAY": {"double precision[]"},
}


@dataclass(frozen=True, slots=True)
class Refused:
    """PostgreSQL answered with an error."""

    state: str


def row_values(name: str) -> list[Any]:
    """The values of a column, repeated with a shift so that columns meet in many pairs."""
    values = COLUMNS[name][2]
    shift = list(COLUMNS).index(name)
    return [values[(row + shift * (row // len(values))) % len(values)] for row in range(ROWS)]


_TRY = """
CREATE FUNCTION tried(call text) RETURNS TABLE (id int, value text, kind text) LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
  BEGIN
    RETURN QUERY EXECUTE format('SELECT id, (%s)::text, pg_typeof(%s)::text FROM v ORDER BY id', call, call);
    RETURN;
  EXCEPTION WHEN OTHERS THEN NULL;
  END;
  FOR n IN 0..{rows} - 1 LOOP
    BEGIN
      RETURN QUERY EXECUTE format('SELECT id, (%s)::text, pg_typeof(%s)::text FROM v WHERE id = %s', call, call, n);
    EXCEPTION WHEN OTHERS THEN
      RETURN QUERY SELECT n, SQLSTATE::text, 'error';
    END;
  END LOOP;
END $$
"""


def ask_postgres(server: PrivatePostgres) -> Answers:
    """Of each call its type and a text, None or `Refused` for each row."""
    out: Answers = {}
    with server.connect() as connection:
        connection.execute("SET timezone = 'UTC'; SET client_min_messages = 'error'")
        connection.execute(_TRY.replace("{rows}", str(ROWS)))
        declared = ", ".join(f"{name} {pg}" for name, (_, pg, _) in COLUMNS.items())
        connection.execute(f"CREATE TABLE v (id int, {declared})")
        data = [row_values(name) for name in COLUMNS]
        marks = ", ".join(f"%s::{pg.partition(' COLLATE')[0]}" for _, pg, _ in COLUMNS.values())
        with connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO v VALUES (%s, {marks})", [(row, *(column[row] for column in data)) for row in range(ROWS)]
            )
        known = connection.execute("SELECT DISTINCT proname FROM pg_proc").fetchall()
        out["names"] = ("name", [name for (name,) in known])
        for difference in DIFFERENCES:
            value = connection.execute("SELECT value, kind FROM tried(%s) WHERE id = 0", (difference.call,)).fetchone()
            assert value is not None
            out[difference.call] = (value[1], [f"error {value[0]}" if value[1] == "error" else value[0]])
        for call in AGGREGATES:
            found = connection.execute(
                f"SELECT g, ({call})::text, pg_typeof({call})::text FROM v GROUP BY g ORDER BY g"
            ).fetchall()
            out[call] = (found[0][2], [value for _, value, _ in found])
        for call in CALLS:
            found = connection.execute("SELECT id, value, kind FROM tried(%s) ORDER BY id", (call,)).fetchall()
            values = [Refused(value) if kind == "error" else value for _, value, kind in found]
            out[call] = (next((kind for _, _, kind in found if kind != "error"), "error"), values)
    return out


def same(wanted: str | None, found: Any, type_: Type) -> bool:
    """Whether a value of ours is what PostgreSQL wrote."""
    if wanted is None or found is None:
        return wanted is None and found is None
    match type_.kind:
        case "DOUBLE":
            number = float(wanted)
            return (math.isnan(number) and math.isnan(found)) or math.isclose(
                number, found, rel_tol=1e-9, abs_tol=1e-15
            )
        case "INT" | "BIGINT":
            return Decimal(wanted) == found
        case "DECIMAL":
            places = max(0, -int(Decimal(found).as_tuple().exponent))  # type: ignore[arg-type]
            return abs(Decimal(wanted) - found) <= Decimal(1).scaleb(-places) / 2
        case "BOOLEAN":
            return (wanted in ("t", "true")) == found
        case "TIMESTAMP":
            moment = datetime.fromisoformat(wanted.removesuffix("+00")).replace(tzinfo=UTC)
            return moment == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=found)
        case "ARRAY":
            inner = [] if wanted == "{}" else wanted.strip("{}").split(",")
            element = type_.element or type_
            return len(inner) == len(found) and all(
                same(None if w == "NULL" else w, f, element) for w, f in zip(inner, found, strict=True)
            )
    return wanted == found


def differences(wanted: list[Any], found: list[Any], type_: Type) -> list[tuple[Any, Any]]:
    """Pairs of values that are not the same. Where PostgreSQL answers with an error, any value will do."""
    pairs = zip(wanted, found, strict=True)
    return [(w, f) for w, f in pairs if not isinstance(w, Refused) and not same(w, f, type_)]


def type_fits(postgres: str, type_: Type) -> bool:
    return postgres == "error" or postgres in _TYPES[type_.kind]


def equal(found: Any, wanted: Any) -> bool:
    """Equality of values of ours, where NaN equals NaN."""
    return found == wanted or (found is not None and found != found and wanted != wanted)


def function_of(call: str) -> str:
    return call.partition("(")[0].lower()


def names_in(call: str) -> set[str]:
    """The functions that a call has."""
    return {word.lower() for word in re.findall(r"(\w+)\(", call)}


def plain(array: pa.Array) -> list[Any]:
    """Python values; times as microseconds."""
    return list((array.cast(pa.int64()) if pa.types.is_timestamp(array.type) else array).to_pylist())


def python_value(name: str, value: Any) -> Any:
    """A value of a column as Arrow and Spark take it; times as microseconds."""
    kind = COLUMNS[name][0].partition("(")[0]
    if value is None:
        return None
    if kind == "TIMESTAMP":
        return parse_timestamp(value)
    return Decimal(value) if kind == "DECIMAL" else value


def arrow_columns() -> dict[str, pa.Array]:
    """The rows as Arrow arrays."""
    return {
        name: pa.array([python_value(name, v) for v in row_values(name)], parse_type(ours).to_arrow())
        for name, (ours, _, _) in COLUMNS.items()
    }
