"""The newest time per version, against a dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.expr.newest_times import newest_by_version
from tests.support.examples import examples

VIDS = st.integers(0, 9) | st.integers(0, 2**31 - 1)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(VIDS, st.integers(-(2**63), 2**63 - 1)), max_size=30))
def test_each_version_has_the_newest_of_its_times(rows: list[tuple[int, int]]) -> None:
    expected: dict[int, int] = {}
    for vid, ts in rows:
        expected[vid] = max(expected.get(vid, ts), ts)
    vids, newest = newest_by_version(np.array([r[0] for r in rows], np.int32), np.array([r[1] for r in rows], np.int64))
    assert vids.dtype == np.int32
    assert list(zip(vids.tolist(), newest.tolist(), strict=True)) == sorted(expected.items())
