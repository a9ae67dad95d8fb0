"""Calls of the listed functions over rows of edge values, and what PostgreSQL says about them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg

from penstock.types import Type
from tests.support.postgres import PrivatePostgres

_INTS = [0, 1, -1, 2, 3, -7, 10, 31, 100, 2**31 - 1, -(2**31), None]
_SMALL = [0, 1, -1, 2, 3, -2, 5, 7, None]
_BIGS = [0, 1, -1, 5, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), None]
_DOUBLES = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 2.675, 1.0, -1.0, 2.0, 10.0, 100.0, 1e15, -1e300, math.nan]
_DOUBLES += [math.inf, -math.inf, 0.1, -3.75, None]  # type: ignore[list-item]
_DECIMALS = ["0.00", "0.50", "-0.50", "1.25", "-1.25", "99.99", "12345678.90", None]
_TEXTS = ["", "a", "abc", "ABC", " ab ", "a,b,,c", "Grüße aus Köln", "straße", "hello world", "ünï-x y_z", "a\nb", "\tx", "x😀y"]
_TEXTS += ["aXbXc", "100%", "aab", None]  # type: ignore[list-item]
_PARTS = ["a", "", "b", "X", " ", "ß", ",", "ab", "😀", "z", None]
_TIMES = ["1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "2000-02-29 12:34:56.789012", "1900-03-01 00:00:00"]
_TIMES += ["2024-02-29 23:59:59", "2024-12-30 00:00:00", "2026-01-01 00:00:00", "2027-01-03 08:09:10.5", "1582-10-15 00:00:00"]
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
    "a": ("ARRAY<DOUBLE>", "double precision[]", _ARRAYS),
}
ROWS = 64

_OF_DOUBLE = (
    "sqrt cbrt exp ln log10 sin cos tan cot asin acos atan sinh cosh tanh asinh acosh atanh radians degrees sign floor ceil ceiling"
).split()
CALLS = (
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
    "to_char(t,'YYYY-MM-DD_HH24:MI:SS') to_char(t,'DD.MM.YY') to_char(t,'HH12:MI_AM') to_char(t,'Mon') to_char(t,'MS') to_char(t,'DDD') "
    "to_timestamp(i) cardinality(a) array_length(a,1) array_position(a,2.0) array_append(a,d) array_remove(a,2.0) "
    "array_to_string(a,',') array_to_string(a,',','-') i/j d/f i%j s||p e/e e*e s~'^a' s~*'^A' s!~'b' d=f d<f d>f"
).split() + [
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
    "s SIMILAR TO '100#%' ESCAPE '#'",
    "make_timestamp(2000 + j, 2, 28 + j, j, 59, 1.5)",
    "CAST(d AS INT)",
    "CAST(d AS BIGINT)",
    "CAST(e AS INT)",
    "CAST(i AS TEXT)",
    "CAST(o AS TEXT)",
    "CAST(s AS INT)",
    "CASE WHEN o THEN i ELSE j END",
]


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


def postgres_answers(server: PrivatePostgres, calls: list[str]) -> dict[str, tuple[str, list[Any]]]:
    """Of each call its type and a text, None or `Refused` for each row."""
    parts = server.url.partition("host=")[2]
    from urllib.parse import unquote

    out: dict[str, tuple[str, list[Any]]] = {}
    with psycopg.connect(host=unquote(parts), user="penstock", dbname="postgres", autocommit=True) as connection:
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
        for call in calls:
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
            return (math.isnan(number) and math.isnan(found)) or math.isclose(number, found, rel_tol=1e-9, abs_tol=1e-15)
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
