"""What EXPLAIN says of a window join."""

from __future__ import annotations

import pytest

from penstock.sql.explain.plan import explain
from penstock.sql.parse import parse_script
from tests.sql.stages import stages
from tests.sql.world import World
from tests.support.join_plans import SILENCE


def test_explain_says_how_a_path_is_joined(world: World) -> None:
    plan = world.join(
        "SELECT /*+ JOIN(extended) */ a.ppm, ts FROM sensors a, loops b, loops c "
        "DWINDOW(a,b) = 30 SECONDS AND WINDOW(b,c) BETWEEN 5 SECONDS AND 1 MINUTE "
        "WHERE a.sensor_id = 1 AND b.speed > 3 AND b.loop_id = c.loop_id AND similar(a.ppm, b.speed)"
    )
    assert explain(plan, world).splitlines() == [
        "window join of 3 streams, directed path, in the cycle beside the shared pass",
        '  a: stream of "sensors"',
        "    window: BEGIN (START) END (NOW)",
        "    initial scan: sensor_id = 1",
        "    stream predicate: none",
        "    key: none",
        '  b: stream of "loops"',
        "    window: BEGIN (START) END (NOW)",
        "    initial scan: every sensor",
        "    stream predicate: speed > 3.0",
        "    key: none",
        '  c: stream of "loops"',
        "    window: BEGIN (START) END (NOW)",
        "    initial scan: every sensor",
        "    stream predicate: none",
        "    key: none",
        "  times: b at most 30s after a; c 5s to 1m30s after a; c 5s to 1m after b",
        "  conditions: (b.loop_id = c.loop_id) AND similar(a.ppm, b.speed)",
        "  algorithm: extended, as the hint asks",
        "  output: ppm DOUBLE = a.ppm, ts TIMESTAMP = greatest(a.ts, b.ts, c.ts)",
        "  functions: similar",
    ]


@pytest.mark.parametrize(
    ("windows", "form", "times"),
    [
        ("WINDOW = '1h'", "uniform clique", "a and b at most 1h apart"),
        ("WINDOW(a,b) = '1m' AND WINDOW(b,c) = '1m'", "path", "a and c at most 2m apart"),
        ("WINDOW(a,b) = '1m' AND WINDOW(b,c) = '1m' AND WINDOW(a,c) = '90s'", "clique", "a and c at most 1m30s apart"),
        ("DWINDOW(b,a) = '1m' AND DWINDOW(c,b) = '1m'", "directed path", "b at most 1m before a"),
        ("WINDOW(a,b) = '0s' AND WINDOW(b,c) = '1m'", "path", "a and b at the same time"),
        ("WINDOW(a,b) BETWEEN '-5s' AND '1m' AND WINDOW(b,c) = '1m'", "path", "b from 5s before to 1m after a"),
    ],
)
def test_explain_names_the_form_and_the_distance_of_every_pair(
    world: World, windows: str, form: str, times: str
) -> None:
    lines = explain(world.join(f"SELECT a.ppm FROM sensors a, loops b, loops c {windows}"), world).splitlines()
    assert lines[0].split(", ")[1] == form
    (stated,) = [line for line in lines if line.startswith("  times: ")]
    assert times in stated.removeprefix("  times: ").split("; ")


def test_explain_says_when_a_row_without_partner_answers(world: World) -> None:
    left = world.join("SELECT a.ppm FROM sensors a LEFT JOIN loops b ON TRUE WINDOW(a,b) BETWEEN '-9s' AND '-5s'")
    assert "  without a partner: NULL for b, once NOW > a.ts - 5s" in explain(left, world).splitlines()
    assert "  answers: p without a partner, once NOW > p.ts + 5m" in explain(world.join(SILENCE), world).splitlines()


def test_the_stages_of_a_join_end_with_its_plan(world: World) -> None:
    (statement,) = parse_script(
        "CREATE QUERY q AS SELECT /*+ JOIN(scan) */ a.ppm FROM sensors a, loops b WINDOW = '1m'"
    )
    lines = stages(statement, world, joins=True).splitlines()
    assert "/*+ JOIN(scan) */" in "\n".join(lines[: lines.index("bound")])
    assert lines[lines.index("plan") + 1] == "  window join of 2 streams, binary, in the cycle beside the shared pass"
