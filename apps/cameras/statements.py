"""What the application tells the server: the cameras, what "alike" means, and one window join per route."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from apps.cameras.town import CAMERAS, FASTEST_M_PER_S, ROUTES, SLOWEST_M_PER_S, length_m

DEFINITIONS = """
CREATE STREAM TYPE IF NOT EXISTS camera AS (feature DOUBLE)
  USING python OPTIONS (class 'apps.cameras.camera:Camera', seed '{seed}', every_s '{every_s:g}');

CREATE TABLE IF NOT EXISTS cameras (camera TEXT PRIMARY KEY, x DOUBLE, y DOUBLE, seen STREAM camera)
  WITH (time = 'valid', idle = '2 SECONDS', retention = '1 HOUR');

CREATE FUNCTION similar(a DOUBLE, b DOUBLE) RETURNS BOOLEAN LANGUAGE python VECTORISED AS $$
    return pc.less_equal(pc.abs(pc.subtract(a, b)), 4.1)
$$;
"""
_ALIASES = "abcdefgh"


def insert_cameras() -> str:
    rows = ",\n  ".join(f"('{name}', {x:g}, {y:g}, '{name}')" for name, (x, y) in CAMERAS.items())
    return f"INSERT INTO cameras VALUES\n  {rows};"


def query_name(route: str) -> str:
    return route.replace(" ", "_")


def follow(route: str) -> str:
    """The standing query of one route: sightings one after the other, as far apart as its roads are long."""
    places = ROUTES[route]
    aliases = _ALIASES[: len(places)]
    windows = " AND ".join(
        f"WINDOW({a}, {b}) BETWEEN {shortest_ms} MS AND {longest_ms} MS"
        for a, b, (shortest_ms, longest_ms) in zip(aliases[:-1], aliases[1:], _drives_ms(places), strict=True)
    )
    conditions = [f"{alias}.camera = '{place}'" for alias, place in zip(aliases, places, strict=True)]
    conditions += [f"similar({a}.feature, {b}.feature)" for a, b in itertools.pairwise(aliases)]
    return f"""CREATE QUERY {query_name(route)} AS
  SELECT {", ".join(f"{alias}.ts AS {alias}" for alias in aliases)}, a.feature
  FROM {", ".join(f"cameras {alias}" for alias in aliases)}
  {windows}
  WHERE {" AND ".join(conditions)}
  BEGIN (NOW - 10 MINUTES) END (NOW);"""


def _drives_ms(places: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Shortest and longest time of each road of a route, rounded outwards."""
    for one, other in itertools.pairwise(places):
        way = length_m(one, other)
        yield int(way / FASTEST_M_PER_S * 10) * 100, int(way / SLOWEST_M_PER_S * 10 + 1) * 100
