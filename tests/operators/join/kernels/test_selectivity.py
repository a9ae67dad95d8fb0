"""Which stream a combination takes next: whatever keeps the whole cheap, as seen so far."""

from __future__ import annotations

from penstock.operators.join.kernels.step import GUESS, Selectivity, selectivity_of


def test_what_was_seen_replaces_the_guess_and_follows_the_data() -> None:
    seen = Selectivity()
    assert seen.of("near", 2) == GUESS**2
    seen.learn("near", 0.0, 0)
    assert seen.of("near", 1) == GUESS, "nothing was looked at"
    seen.learn("near", 1_000.0, 500)
    assert seen.of("near", 1) == 0.5
    for _ in range(20):
        seen.learn("near", 1_000.0, 0)
    assert seen.of("near", 1) < GUESS


def test_each_join_learns_for_itself() -> None:
    selectivity_of(("one", 1)).learn("near", 10.0, 10)
    assert selectivity_of(("one", 1)).of("near", 1) == 1.0
    assert selectivity_of(("another", 1)).of("near", 1) == GUESS
