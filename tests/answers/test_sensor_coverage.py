"""EXPLAIN counts the sensors that are missing from a query's answers."""

from __future__ import annotations

from tests.support.pipe import Pipe

WINDOW = "BEGIN (NOW - 1 HOUR) END (NOW)"


def heard(pipe: Pipe, name: str) -> list[str]:
    told: list[str] = pipe.db.execute(f"EXPLAIN {name}").table.column("plan").to_pylist()
    return [line.strip() for line in told if line.strip().startswith("sensors of")]


def test_missing_sensors_are_counted_per_query(pipe: Pipe) -> None:
    pipe.probes("WITH (idle = '10 SECONDS')")
    pipe.db.execute("INSERT INTO probes VALUES (3, 'north', NULL), (4, 'east', NULL)")
    pipe.db.execute(f"CREATE QUERY everywhere AS SELECT AVG(value) AS value FROM probes {WINDOW}")
    pipe.db.execute(f"CREATE QUERY north AS SELECT value FROM probes WHERE place = 'north' {WINDOW}")
    both = "probes a, probes b WINDOW = 1 SECOND WHERE a.value = b.value AND a.place = 'north' AND b.place = 'south'"
    pipe.db.execute(f"CREATE QUERY pairs AS SELECT a.value FROM {both} {WINDOW}")
    pipe.push(1.0)
    pipe.push(2.0, sensor=2)
    pipe.engine.drain()
    assert heard(pipe, "everywhere") == ['sensors of "probes": 4, 2 without readings']
    assert heard(pipe, "north") == ['sensors of "probes": 2, 1 without readings']
    pipe.clock.advance(11_000_000)
    pipe.push(3.0, sensor=3)
    pipe.engine.drain()
    assert heard(pipe, "north") == ['sensors of "probes": 2, 1 silent for more than 10s']
    assert heard(pipe, "pairs") == [heard(pipe, "north")[0], 'sensors of "probes": 1, 1 silent for more than 10s']
    # A sensor that moves is the same one; one that is deleted is nobody's.
    pipe.db.execute("UPDATE probes SET place = 'east' WHERE id = 3; DELETE FROM probes WHERE id = 1")
    pipe.engine.drain()
    assert heard(pipe, "north") == ['sensors of "probes": 0, all of them with readings']
    pipe.restart()
    assert heard(pipe, "everywhere") == ['sensors of "probes": 3, 1 without readings, 1 silent for more than 10s']
