"""Sketches of everything so far, from Apache DataSketches: distinct values, quantiles, frequent values.

They never forget, and merge: one per slice, and a window is the union of its slices (`slices`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import datasketches
import numpy as np

from bench.papers.base import NOTHING, Arrays, Estimate, Ints, Synopsis, Values

TWO_DEVIATIONS = 2


class Landmark(Synopsis):
    """One sketch without a window, saved in the library's own form."""

    sketch: Any

    def _expire(self) -> None:
        """Nothing ever leaves."""

    def _serialized(self) -> bytes:
        return bytes(self.sketch.serialize())

    def _state(self) -> Arrays:
        return {"sketch": np.frombuffer(self._serialized(), np.uint8)}

    @property
    def nbytes(self) -> int:
        return len(self._serialized())


def each(update: Callable[[Any], None], values: Iterable[Any]) -> None:
    """The library takes one value at a time; this loop at least runs outside the interpreter."""
    deque(map(update, values), maxlen=0)


class HllDistinct(Landmark):
    """Distinct values by HyperLogLog: 2^log_size bytes, standard error about 0.8 / 2^(log_size/2)."""

    kind = "hll_distinct"

    def __init__(self, *, log_size: int = 12) -> None:
        super().__init__(log_size=log_size)
        self.sketch = datasketches.hll_sketch(log_size)

    def answers(self, window: int | None = None) -> list[Estimate]:
        s = self.sketch
        return [Estimate(s.get_estimate(), s.get_lower_bound(TWO_DEVIATIONS), s.get_upper_bound(TWO_DEVIATIONS), 0.95)]

    @property
    def nbytes(self) -> int:
        return int(self.sketch.get_updatable_serialization_bytes())

    def _insert(self, values: Values, times: Ints) -> None:
        each(self.sketch.update, np.unique(values).tolist())

    def _absorb(self, other: Self) -> None:
        union = datasketches.hll_union(self.sketch.lg_config_k)
        union.update(self.sketch)
        union.update(other.sketch)
        self.sketch = union.get_result(datasketches.HLL_8)

    def _serialized(self) -> bytes:
        return bytes(self.sketch.serialize_updatable())

    def _restore(self, arrays: Arrays) -> None:
        self.sketch = datasketches.hll_sketch.deserialize(arrays["sketch"].tobytes())


class ThetaDistinct(Landmark):
    """Distinct values by a theta sketch: 8 * 2^log_size bytes, and intersections are possible."""

    kind = "theta_distinct"

    def __init__(self, *, log_size: int = 12) -> None:
        super().__init__(log_size=log_size)
        self.log_size = log_size
        self.sketch = datasketches.update_theta_sketch(log_size)
        self.merged: Any = None  # what came from other sketches and from bytes, which the library cannot update

    @property
    def whole(self) -> Any:
        if self.merged is None:
            return self.sketch.compact()
        union = datasketches.theta_union(self.log_size)
        union.update(self.merged)
        union.update(self.sketch)
        return union.get_result()

    def answers(self, window: int | None = None) -> list[Estimate]:
        s = self.whole
        return [Estimate(s.get_estimate(), s.get_lower_bound(TWO_DEVIATIONS), s.get_upper_bound(TWO_DEVIATIONS), 0.95)]

    def _insert(self, values: Values, times: Ints) -> None:
        each(self.sketch.update, np.unique(values).tolist())

    def _absorb(self, other: Self) -> None:
        union = datasketches.theta_union(self.log_size)
        union.update(self.whole)
        union.update(other.whole)
        self.merged, self.sketch = union.get_result(), datasketches.update_theta_sketch(self.log_size)

    def _serialized(self) -> bytes:
        return bytes(self.whole.serialize())

    def _restore(self, arrays: Arrays) -> None:
        self.merged = datasketches.compact_theta_sketch.deserialize(arrays["sketch"].tobytes())


class KllQuantiles(Landmark):
    """Values at the given ranks by a KLL sketch: the bounds are the values at the ranks a little below and above."""

    kind = "kll_quantiles"
    randomised = True  # by merging, which draws lots

    def __init__(self, *, ranks: Sequence[float] = (0.5,), size: int = 200) -> None:
        super().__init__(ranks=list(ranks), size=size)
        self.ranks = list(ranks)
        self.sketch = datasketches.kll_doubles_sketch(size)

    def answers(self, window: int | None = None) -> list[Estimate]:
        if self.sketch.is_empty():
            return [Estimate(NOTHING.value, NOTHING.lower, NOTHING.upper, key=rank) for rank in self.ranks]
        slack = self.sketch.normalized_rank_error(False)
        return [
            Estimate(
                self.sketch.get_quantile(rank),
                self.sketch.get_quantile(max(0.0, rank - slack)),
                self.sketch.get_quantile(min(1.0, rank + slack)),
                0.99,
                rank,
            )
            for rank in self.ranks
        ]

    def _insert(self, values: Values, times: Ints) -> None:
        self.sketch.update(np.ascontiguousarray(values, np.float64))

    def _absorb(self, other: Self) -> None:
        self.sketch.merge(other.sketch)

    def _restore(self, arrays: Arrays) -> None:
        self.sketch = datasketches.kll_doubles_sketch.deserialize(arrays["sketch"].tobytes())


_SERIALIZERS = {
    "i": datasketches.PyLongsSerDe,
    "f": datasketches.PyDoublesSerDe,
    "U": datasketches.PyStringsSerDe,
}
"""By what the values are: whole numbers, numbers, texts."""


class FrequentValues(Landmark):
    """The values that occur most often, with certain bounds of how often: errors below 3.5 / 2^log_size of all rows."""

    kind = "frequent"

    def __init__(self, *, top: int = 10, log_size: int = 8) -> None:
        super().__init__(top=top, log_size=log_size)
        self.top = top
        self.sketch = datasketches.frequent_items_sketch(log_size)
        self.of = "i"

    def answers(self, window: int | None = None) -> list[Estimate]:
        rule = datasketches.frequent_items_error_type.NO_FALSE_NEGATIVES
        found = sorted(self.sketch.get_frequent_items(rule, 0), key=lambda item: (-item[1], str(item[0])))
        return [
            Estimate(float(estimate), float(lower), float(upper), key=value)
            for value, estimate, lower, upper in found[: self.top]
        ]

    @property
    def nbytes(self) -> int:
        # Keys are objects of the interpreter, of about 32 bytes, beside a count.
        return 40 * int(self.sketch.num_active_items)

    def _insert(self, values: Values, times: Ints) -> None:
        self.of = {"O": "U", "b": "i", "u": "i"}.get(values.dtype.kind, values.dtype.kind)
        found, counts = np.unique(values, return_counts=True)
        deque(map(self.sketch.update, found.tolist(), counts.tolist()), maxlen=0)

    def _absorb(self, other: Self) -> None:
        if not other.sketch.is_empty():
            self.of = other.of
            self.sketch.merge(other.sketch)

    def _serialized(self) -> bytes:
        return self.of.encode() + bytes(self.sketch.serialize(_SERIALIZERS[self.of]()))

    def _restore(self, arrays: Arrays) -> None:
        data = arrays["sketch"].tobytes()
        self.of = data[:1].decode()
        self.sketch = datasketches.frequent_items_sketch.deserialize(data[1:], _SERIALIZERS[self.of]())


LANDMARKS: dict[str, type[Landmark]] = {
    kind.kind: kind for kind in (HllDistinct, ThetaDistinct, KllQuantiles, FrequentValues)
}
