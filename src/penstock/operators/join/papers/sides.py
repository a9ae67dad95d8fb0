"""The input of a window join algorithm, one `Side` per stream, and its `Counters`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Side:
    """One stream's rows in a partition, sorted by (ts, log position).

    `fresh` marks the rows that are new in this step: a combination is wanted only if it has one. `key` is what equality
    compares, for all streams of a join or for none. `columns[c]` holds what conditions load, one array of doubles per
    column; `valid[c]` says where it is not NULL (no array: everywhere). Times in columns count from an origin less than
    2**52 microseconds away, so that doubles hold them and their differences exactly.
    """

    ts: Int64s
    fresh: Bools
    key: Int64s | None = None
    columns: Float64s | None = None
    valid: Bools | None = None

    def __len__(self) -> int:
        return len(self.ts)


COUNTED = {
    "iterations": "tuples that looked for partners",
    "window_tests": "candidates whose time was tested against a period",
    "key_comparisons": "candidates whose key was compared",
    "predicate_tests": "conditions evaluated",
    "refinements": "pairs of a finished combination whose window was tested",
    "sweep_tests": "times compared while looking for a starting combination (Mode 1)",
    "admissions": "tuples admitted to the period of a starting combination (Mode 2)",
    "mode_switches": "times that Mode 1 began",
    "dropped": "tuples dropped from the join buffers",
    "results": "combinations found",
}
(
    ITERATIONS,
    WINDOW_TESTS,
    KEY_COMPARISONS,
    PREDICATE_TESTS,
    REFINEMENTS,
    SWEEP_TESTS,
    ADMISSIONS,
    MODE_SWITCHES,
    DROPPED,
    RESULTS,
) = range(len(COUNTED))


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of an algorithm, added up over its steps. Kernels write `slots`, in the order of COUNTED."""

    slots: Int64s = field(default_factory=lambda: np.zeros(len(COUNTED), np.int64))

    def __getitem__(self, name: str) -> int:
        return int(self.slots[list(COUNTED).index(name)])

    def as_dict(self) -> dict[str, int]:
        return {name: int(count) for name, count in zip(COUNTED, self.slots, strict=True)}
