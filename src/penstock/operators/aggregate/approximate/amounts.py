"""APPROX_COUNT and APPROX_SUM: cells that BEGIN cuts count in part, which gives hard bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.operators.aggregate.approximate.base import CUT, Bracketed, Brackets, Floats
from penstock.operators.aggregate.partials.base import ALL_KINDS, Ints, Numbers, State, Values
from penstock.operators.aggregate.partials.sums import add_pairs, add_rows


class ApproxCount(Bracketed):
    """How many values there are, within `epsilon` of the truth, for certain."""

    name = "approx_count"
    functions = frozenset({"approx_count", "approx_count_error"})
    kinds = ALL_KINDS
    arguments = (0, 1)
    share_of_error = 1.5  # the value is in the middle of the bounds; whole numbers need a margin

    def own(self) -> dict[str, tuple[Any, Any]]:
        return {"count": (np.int64, 0)}

    def take(self, state: State, values: Values) -> None:
        state["count"] += np.bincount(values.cells, minlength=len(state["count"]))

    def join(self, state: State, at: Ints, other: State, prefix: str) -> None:
        np.add.at(state[prefix + "count"], at, other[prefix + "count"])

    def brackets(self, state: State) -> Brackets:
        lowers = state["count"].astype(np.float64)
        uppers = lowers + state[CUT + "count"]
        return Brackets(np.floor((lowers + uppers) / 2), lowers, uppers, np.ones(len(lowers), np.bool_))


class ApproxSum(Bracketed):
    """A sum within `epsilon` of the sum of absolute values, for certain: positive and negative values are kept apart."""

    name = "approx_sum"
    functions = frozenset({"approx_sum", "approx_sum_error"})
    share_of_error = 1.5

    def own(self) -> dict[str, tuple[Any, Any]]:
        sums = ("plus_high", "plus_low", "minus_high", "minus_low")
        return {"count": (np.int64, 0), **dict.fromkeys(sums, (np.float64, 0.0))}

    def take(self, state: State, values: Values) -> None:
        reals = values.numbers[0].astype(np.float64)
        state["count"] += np.bincount(values.cells, minlength=len(state["count"]))
        for name, chosen, sign in (("plus", ~(reals < 0), 1.0), ("minus", reals < 0, -1.0)):
            add_rows(state[f"{name}_high"], state[f"{name}_low"], values.cells[chosen], sign * reals[chosen])

    def join(self, state: State, at: Ints, other: State, prefix: str) -> None:
        np.add.at(state[prefix + "count"], at, other[prefix + "count"])
        for name in (f"{prefix}plus", f"{prefix}minus"):
            high, low = f"{name}_high", f"{name}_low"
            add_pairs(state[high], state[low], at, other[high], other[low])

    def weights(self, state: State) -> Floats:
        weights: Floats = state["plus_high"] + state["minus_high"]
        return weights

    def _sum(self, state: State, name: str) -> Numbers:
        total: Numbers = state[f"{name}_high"] + state[f"{name}_low"]
        return total

    def brackets(self, state: State) -> Brackets:
        plus, minus = self._sum(state, "plus"), self._sum(state, "minus")
        more, less = self._sum(state, CUT + "plus"), self._sum(state, CUT + "minus")
        with np.errstate(invalid="ignore"):
            middle = (plus - minus) + (more - less) / 2
            return Brackets(middle, plus - (minus + less), (plus + more) - minus, state["count"] > 0)

    def within(self, state: State) -> npt.NDArray[np.bool_]:
        found = self.brackets(state)
        sure = self._sum(state, "plus") + self._sum(state, "minus")
        nothing_cut = state[CUT + "count"] == 0
        good: npt.NDArray[np.bool_] = nothing_cut | (found.known & (found.errors <= self.epsilon * sure))
        return good


class ApproxAvg(ApproxSum):
    """A mean within `epsilon` of the mean of absolute values, for certain."""

    name = "approx_avg"
    functions = frozenset({"approx_avg", "approx_avg_error"})
    share_of_error = 0.5  # both sum and count are uncertain

    def brackets(self, state: State) -> Brackets:
        plus, minus = self._sum(state, "plus"), self._sum(state, "minus")
        more, less = self._sum(state, CUT + "plus"), self._sum(state, CUT + "minus")
        sure = state["count"].astype(np.float64)
        every = sure + state[CUT + "count"]
        with np.errstate(invalid="ignore", divide="ignore"):
            lowest, highest = plus - (minus + less), (plus + more) - minus
            lowers = np.where(lowest < 0, lowest / sure, lowest / every)
            uppers = np.where(highest < 0, highest / every, highest / sure)
            exact = state[CUT + "count"] == 0
            middle = np.where(exact, (plus - minus) / sure, (lowers + uppers) / 2)
            lowers, uppers = np.where(exact, middle, lowers), np.where(exact, middle, uppers)
        return Brackets(middle, lowers, uppers, sure > 0)

    def within(self, state: State) -> npt.NDArray[np.bool_]:
        found = self.brackets(state)
        every = state["count"] + state[CUT + "count"]
        with np.errstate(invalid="ignore", divide="ignore"):
            # At least so much is the mean of absolute values, whichever rows of the cut cells are inside.
            least = (self._sum(state, "plus") + self._sum(state, "minus")) / every
            good: npt.NDArray[np.bool_] = found.known & (found.errors <= self.epsilon * least)
        return np.asarray(good | (state[CUT + "count"] == 0), np.bool_)
