"""Which queries stop a cycle: how many tries that takes, and what is blamed for it."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable

import pytest

from penstock.cycle.trial import Finding, find_poison
from penstock.cycle.worker import find_culprits


class Cycle:
    """Stands for the trial of a cycle: fails where a bad query is in a try, or where reading itself fails."""

    def __init__(
        self, queries: int, bad: Collection[int], callers: dict[int, str] | None = None, unreadable: int | None = None
    ) -> None:
        self.suspects = list(range(1, queries + 1))
        self.tables = [1, 2, 3, 4, 5]
        self.bad, self._callers, self._unreadable = set(bad), callers or {}, unreadable
        self.tries, self.last_s, self.timed_out, self.out_of_time = 0, 0.0, False, False

    def fails(self, group: Collection[int], tables: Collection[int] | None = None) -> str | None:
        self.tries += 1
        if self._unreadable in (self.tables if tables is None else tables):
            return "signal SIGBUS"
        return "signal SIGSEGV" if self.bad.intersection(group) else None

    def allow_for(self, reading_s: float) -> None:
        pass

    def callers(self, queries: Iterable[int], function: str | None = None) -> list[int]:
        return [q for q in queries if q in self._callers and function in (None, self._callers[q])]

    def alike(self, found: Collection[int]) -> dict[int, str]:
        shared = {self._callers[q] for q in found if len(self.callers(found, self._callers.get(q, "-"))) > 1}
        return {q: f for q, f in self._callers.items() if f in shared}

    def of_table(self, table_id: int, why: str) -> dict[int, str]:
        return dict.fromkeys(self.suspects[table_id :: len(self.tables)], why)


def find(cycle: Cycle) -> Finding:
    return find_poison(cycle)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [1, 2, 4999, 5000, 5001, 10_000])
def test_one_of_ten_thousand_is_found_by_about_fifteen_tries(bad: int) -> None:
    found = find(Cycle(10_000, [bad]))
    assert found.queries == {bad: "signal SIGSEGV"} and found.table is None
    assert found.tries <= 18


def test_a_caller_of_a_function_is_found_sooner() -> None:
    found = find(Cycle(10_000, [7], callers=dict.fromkeys([5, 7, 9000], "f")))
    assert list(found.queries) == [7]
    assert found.tries <= 8


def test_two_callers_of_one_function_stand_for_all_of_them() -> None:
    callers = {q: "f" if q % 2 else "g" for q in range(1, 1000)}
    found = find(Cycle(10_000, [q for q in callers if q % 2], callers=callers))
    assert set(found.queries) == {q for q in callers if q % 2}
    assert found.tries <= 32


def test_a_table_that_cannot_be_read_costs_its_queries() -> None:
    cycle = Cycle(100, [], unreadable=3)
    found = find(cycle)
    assert found.table == 3 and set(found.queries) == set(cycle.of_table(3, ""))
    assert found.tries <= 5


def test_a_slow_machine_is_no_query_s_fault() -> None:
    cycle = Cycle(100, [], unreadable=3)
    cycle.timed_out = True
    found = find(cycle)
    assert found.queries == {} and found.unexplained is not None and found.tries == 1


def test_queries_that_fail_only_together_are_not_blamed() -> None:
    class Crowded(Cycle):
        def fails(self, group: Collection[int], tables: Collection[int] | None = None) -> str | None:
            self.tries += 1
            return "it took too much memory" if len(group) > 60 else None

    found = find(Crowded(100, []))
    assert found.queries == {} and found.unexplained == "it took too much memory"


@pytest.mark.parametrize("seed", range(20))
def test_a_thorough_search_finds_all_that_fail_alone_and_no_other(seed: int) -> None:
    chance = random.Random(seed)
    group = list(range(chance.randint(1, 200)))
    bad = {q for q in group if chance.random() < chance.choice([0.0, 0.01, 0.5])}
    assert set(find_culprits(group, lambda some: "bad" if bad.intersection(some) else None, True)) == bad
