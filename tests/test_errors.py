"""Errors as they travel between processes."""

from __future__ import annotations

import pickle

from penstock.errors import PenstockError, error


def test_an_error_crosses_a_process_border_with_everything_it_carries() -> None:
    sent = error("table_not_found", table="probs", hint="did you mean probes?").at("SELECT * FROM probs", 1, 15, 5)
    found: PenstockError = pickle.loads(pickle.dumps(sent.of_many(2, "gas", 9)))
    assert found.render() == sent.render()
    assert (found.condition, found.index, found.query, found.hint) == ("table_not_found", 2, "gas", sent.hint)
