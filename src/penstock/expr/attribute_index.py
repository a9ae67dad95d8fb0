"""The comparisons on one attribute, kept in the order of their constants while factors come and go."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.bits import Words
from penstock.expr.expression import Expr
from penstock.expr.normal_form import GE, IN, LT, NOT_IN, Comparison
from penstock.expr.vector_kernels import TABLE_MAX, Bytes, Int32s, fill_vectors, find_gaps, gap_table, look_up_gaps
from penstock.functions.comparisons import compare_floats
from penstock.functions.values import fixed_width

# Below this many factors on an attribute, comparing them one by one is quicker than sorting into gaps.
SHARE_FROM = 32


class Attribute:
    """The constants that factors compare one attribute with. A change is applied when the next rows come."""

    def __init__(self, expr: Expr) -> None:
        self.expr = expr
        self.members: dict[Comparison, int] = {}
        self._dtype: Any = {"TEXT": object, "DOUBLE": np.float64}.get(expr.type.kind, np.int64)
        self._uses: Counter[Any] = Counter()
        self._changed: set[Any] = set()
        self._constants: npt.NDArray[Any] = np.empty(0, self._dtype)
        self._slots: npt.NDArray[np.int32] = np.empty((2, 0), np.int32)  # of `<` and of `>=`, by constant
        self._lists: _Lists | None = None
        self._values: Any = None  # the constants as the look-up needs them: a table, or an Arrow array of texts

    def add(self, comparison: Comparison, slot: int) -> None:
        self.members[comparison] = slot
        for constant in comparison.constants:
            self._uses[constant] += 1
        self._note(comparison)

    def remove(self, comparison: Comparison) -> None:
        del self.members[comparison]
        for constant in comparison.constants:
            self._uses[constant] -= 1
            if not self._uses[constant]:
                del self._uses[constant]
        self._note(comparison)

    def _note(self, comparison: Comparison) -> None:
        self._changed.update(comparison.constants)
        if comparison.code in (IN, NOT_IN):
            self._lists = None

    def gaps(self, array: pa.Array) -> Int32s:
        """The gap of every row between the constants, -1 for NULL."""
        self._settle()
        if self._dtype is object:
            gaps = self._text_gaps(array)
        else:
            values = fixed_width(array)
            if self._dtype is np.float64:
                gaps = find_gaps(values.astype(np.float64, copy=False), self._constants)
            elif self._table_fits():
                if self._values is None:
                    self._values = gap_table(self._constants)
                gaps = look_up_gaps(values, self._constants[0] - 1, self._values)
            else:
                gaps = find_gaps(values.astype(np.int64, copy=False), self._constants)
        if array.null_count:
            gaps[array.is_null().to_numpy(zero_copy_only=False)] = -1
        return gaps

    def _table_fits(self) -> bool:
        first, last = int(self._constants[0]), int(self._constants[-1])
        return last - first < TABLE_MAX and first > -(2**63) and last < 2**63 - 1

    def fill(self, gaps: Int32s, vectors: Words, states: Bytes) -> None:
        """Write the vectors of a block of rows, given their gaps."""
        lists = self._lists
        assert lists is not None
        fill_vectors(gaps, self._slots, (lists.slots, lists.negated, lists.starts, lists.indices), vectors, states)

    def _settle(self) -> None:
        """Apply changed constants to the arrays; the others are moved without a comparison."""
        if self._changed:
            changed = np.array(sorted(self._changed), self._dtype)
            kept = np.array([c in self._uses for c in changed.tolist()], np.bool_)
            places = np.searchsorted(self._constants, changed)
            known = np.zeros(len(changed), np.bool_)
            inside = places < len(self._constants)
            known[inside] = self._constants[places[inside]] == changed[inside]
            gone = places[known & ~kept]
            fresh = changed[kept & ~known]
            if len(gone) or len(fresh):
                self._values = None
                self._constants = np.delete(self._constants, gone)
                self._slots = np.delete(self._slots, gone, axis=1)
                at = np.searchsorted(self._constants, fresh)
                self._constants = np.insert(self._constants, at, fresh)
                self._slots = np.ascontiguousarray(np.insert(self._slots, at, -1, axis=1))
            for place, constant in zip(
                np.searchsorted(self._constants, changed[kept]), changed[kept].tolist(), strict=True
            ):
                for row, code in ((0, LT), (1, GE)):
                    self._slots[row, place] = self.members.get(Comparison(self.expr, code, (constant,)), -1)
            self._changed.clear()
            if self._lists is not None and (len(gone) or len(fresh)):
                self._lists = self._lists.moved(self._constants)
        if self._lists is None:
            self._lists = _Lists.of(self.members, self._constants)

    def _text_gaps(self, array: pa.Array) -> Int32s:
        """Texts are only ever compared for equality: gap 0 stands for every text that no factor names."""
        if self._values is None:
            self._values = pa.array(self._constants, pa.string())
        named = pc.index_in(array, value_set=self._values)
        gaps: Int32s = pc.add(pc.multiply(named, 2), 1).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
        return gaps


class _Lists:
    """The members that compare with a list of constants, as arrays for the kernel."""

    def __init__(self, slots: Int32s, negated: npt.NDArray[np.bool_], sizes: list[int], options: Any) -> None:
        self.slots, self.negated, self._options = slots, negated, options
        self.starts = np.cumsum([0, *sizes]).astype(np.int64)
        self.indices = np.empty(0, np.int32)

    @classmethod
    def of(cls, members: dict[Comparison, int], constants: npt.NDArray[Any]) -> _Lists:
        lists = [(c, slot) for c, slot in members.items() if c.code in (IN, NOT_IN)]
        found = cls(
            np.array([slot for _, slot in lists], np.int32),
            np.array([c.code == NOT_IN for c, _ in lists], np.bool_),
            [len(c.constants) for c, _ in lists],
            np.array([constant for c, _ in lists for constant in c.constants], constants.dtype),
        )
        return found.moved(constants)

    def moved(self, constants: npt.NDArray[Any]) -> _Lists:
        self.indices = np.searchsorted(constants, self._options).astype(np.int32)
        return self


def matches(array: pa.Array, comparison: Comparison) -> npt.NDArray[np.bool_]:
    """One comparison over a column, for attributes that few factors name; what stands at a NULL is arbitrary."""
    out: npt.NDArray[np.bool_]
    if comparison.attribute.type.kind == "TEXT":
        found = pc.is_in(array, value_set=pa.array(comparison.constants, pa.string()))
        out = found.to_numpy(zero_copy_only=False)
        return ~out if comparison.code == NOT_IN else out
    values = fixed_width(array)
    if comparison.code in (IN, NOT_IN):
        if len(comparison.constants) == 1:
            out = values == comparison.constants[0]
            return out if comparison.code == IN else ~out
        wide = values if values.dtype == np.float64 else values.astype(np.int64, copy=False)
        return np.isin(wide, np.array(comparison.constants, wide.dtype), invert=comparison.code == NOT_IN)
    constant = comparison.constants[0]
    if values.dtype == np.float64:
        out = compare_floats("lt" if comparison.code == LT else "ge", values, np.float64(constant))
    else:
        out = values < constant if comparison.code == LT else values >= constant
    return out
