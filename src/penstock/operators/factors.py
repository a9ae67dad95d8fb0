"""Boolean factors: the conjuncts of many predicates, each distinct one evaluated once per batch.

Factors that compare one attribute with constants share one pass over it: the rows are sorted into the gaps between
the constants, and the vector of each factor follows from its neighbour's. All others are evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.operators.bits import Words, full, pack, words_for
from penstock.operators.evaluate import Columns, Functions, evaluate, evaluate_mask
from penstock.operators.expr import Call, Expr, Literal
from penstock.operators.gaps import EQ, GE, GT, IN, LE, LT, NE, NOT_IN, fill_rows, find_gaps, sort_by_gap
from penstock.operators.operations.comparisons import compare_floats
from penstock.operators.operations.values import fixed_width, literal_scalar

_CODES = {"lt": LT, "le": LE, "gt": GT, "ge": GE, "eq": EQ, "ne": NE}
_NAMES = {code: name for name, code in _CODES.items()}
_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_NUMERIC = ("INT", "BIGINT", "DOUBLE", "TIMESTAMP")

# Below this many factors on an attribute, comparing them one by one is quicker than sorting into gaps.
SHARE_FROM = 32


def conjuncts(expr: Expr | None) -> Iterator[Expr]:
    """The factors whose AND is the predicate."""
    if expr is None:
        return
    if isinstance(expr, Call) and expr.operation == "and":
        for argument in expr.arguments:
            yield from conjuncts(argument)
    else:
        yield expr


@dataclass(frozen=True, slots=True)
class Comparison:
    """`attribute code constants`: what the shared pass understands. Constants are plain numbers or texts."""

    attribute: Expr
    code: int
    constants: tuple[Any, ...]


def as_comparison(expr: Expr) -> Comparison | None:
    """The factor as a comparison of one attribute with constants, or None."""
    if isinstance(expr, Call) and expr.operation == "not" and isinstance(expr.arguments[0], Call):
        inner = as_comparison(expr.arguments[0])
        return Comparison(inner.attribute, NOT_IN, inner.constants) if inner and inner.code == IN else None
    if not isinstance(expr, Call):
        return None
    if expr.operation == "in":
        attribute, options, code = expr.arguments[0], expr.arguments[1:], IN
    elif expr.operation in _CODES:
        left, right = expr.arguments
        name = expr.operation
        if isinstance(left, Literal):
            left, right, name = right, left, _FLIPPED[name]
        attribute, options, code = left, (right,), _CODES[name]
    else:
        return None
    if isinstance(attribute, Literal) or not all(isinstance(o, Literal) for o in options):
        return None
    kind = attribute.type.kind
    if kind not in _NUMERIC and not (kind == "TEXT" and code in (EQ, NE, IN)):
        return None
    constants = tuple(_plain(o) for o in options if isinstance(o, Literal) and o.type == attribute.type)
    # NULL and NaN constants follow rules of their own: left to the evaluator.
    if len(constants) < len(options) or any(c is None or c != c for c in constants):
        return None
    return Comparison(attribute, code, constants)


def _plain(literal: Literal) -> Any:
    if literal.value is None:
        return None
    scalar = literal_scalar(literal)
    return scalar.value if pa.types.is_timestamp(scalar.type) else scalar.as_py()


@dataclass(slots=True)
class _Group:
    """The comparisons on one attribute, and their arrays for the kernel (None while out of date)."""

    attribute: Expr
    members: dict[int, Comparison] = field(default_factory=dict)
    compiled: _Compiled | None = None


@dataclass(frozen=True, slots=True)
class _Compiled:
    constants: Any  # ascending and distinct: NumPy numbers, or an Arrow array of texts
    slots: npt.NDArray[np.int64]  # members in the order of their first constant, `<` before `<=`
    codes: npt.NDArray[np.int8]
    starts: npt.NDArray[np.int64]  # member m compares with constants[indices[starts[m] : starts[m + 1]]]
    indices: npt.NDArray[np.int64]


class FactorSet:
    """Distinct factors with reference counts. A factor's slot is the number of its vector, kept while in use."""

    def __init__(self, functions: Functions | None = None) -> None:
        self._functions = functions
        self._slots: dict[Expr, int] = {}
        self._exprs: dict[int, Expr] = {}
        self._uses: dict[int, int] = {}
        self._free: list[int] = []
        self._groups: dict[Expr, _Group] = {}
        self._general: dict[int, Expr] = {}
        self.capacity = 0

    def __len__(self) -> int:
        return len(self._slots)

    def acquire(self, expr: Expr) -> int:
        """The slot of a factor; the same for equal ones."""
        slot = self._slots.get(expr)
        if slot is not None:
            self._uses[slot] += 1
            return slot
        if self._free:
            slot = self._free.pop()
        else:
            slot, self.capacity = self.capacity, self.capacity + 1
        self._slots[expr], self._exprs[slot], self._uses[slot] = slot, expr, 1
        comparison = as_comparison(expr)
        if comparison is None:
            self._general[slot] = expr
        else:
            group = self._groups.setdefault(comparison.attribute, _Group(comparison.attribute))
            group.members[slot] = comparison
            group.compiled = None
        return slot

    def release(self, slot: int) -> bool:
        """Give a factor back; true when nobody uses it any more and its slot is free."""
        self._uses[slot] -= 1
        if self._uses[slot]:
            return False
        expr = self._exprs.pop(slot)
        del self._slots[expr], self._uses[slot]
        self._free.append(slot)
        if self._general.pop(slot, None) is None:
            comparison = as_comparison(expr)
            assert comparison is not None
            group = self._groups[comparison.attribute]
            del group.members[slot]
            group.compiled = None
            if not group.members:
                del self._groups[comparison.attribute]
        return True

    def evaluate(self, columns: Columns, rows: int, wanted: npt.NDArray[np.int64] | None = None) -> Words:
        """The packed vector of every factor by slot (of the `wanted` slots only: row i is wanted[i]).

        NULL counts as false. Rows of slots that are not in use hold nothing.
        """
        places = np.arange(self.capacity) if wanted is None else np.full(self.capacity, -1, np.int64)
        if wanted is not None:
            places[wanted] = np.arange(len(wanted))
        out = np.empty((self.capacity if wanted is None else len(wanted), words_for(rows)), np.uint64)
        for slot, expr in self._general.items():
            if places[slot] >= 0:
                pack(evaluate_mask(expr, columns, rows, self._functions), out[places[slot]])
        for group in self._groups.values():
            if wanted is None or any(places[slot] >= 0 for slot in group.members):
                self._evaluate_group(group, columns, rows, places, out)
        return out

    def _evaluate_group(
        self, group: _Group, columns: Columns, rows: int, places: npt.NDArray[np.int64], out: Words
    ) -> None:
        array = evaluate(group.attribute, columns, rows, self._functions)
        valid = full(rows) if not array.null_count else pack(array.is_valid().to_numpy(zero_copy_only=False))
        is_text = group.attribute.type.kind == "TEXT"
        if len(group.members) < SHARE_FROM:
            for slot, member in group.members.items():
                if places[slot] >= 0:
                    mask = _texts_match(array, member) if is_text else _numbers_match(fixed_width(array), member)
                    pack(mask, out[places[slot]])
                    out[places[slot]] &= valid
            return
        plan = group.compiled or _compile(group, is_text)
        group.compiled = plan
        gaps = _text_gaps(array, plan.constants) if is_text else _number_gaps(array, plan.constants, valid)
        order, edges = sort_by_gap(gaps, 2 * len(plan.constants) + 1)
        fill_rows(order, edges, valid, plan.codes, plan.starts, plan.indices, places[plan.slots], out)


def _numbers_match(values: npt.NDArray[Any], member: Comparison) -> npt.NDArray[np.bool_]:
    out: npt.NDArray[np.bool_]
    if member.code in (IN, NOT_IN):
        out = np.isin(values, np.array(member.constants, values.dtype), invert=member.code == NOT_IN)
    elif values.dtype == np.float64:
        out = compare_floats(_NAMES[member.code], values, np.float64(member.constants[0]))
    else:
        out = _INTEGERS[member.code](values, values.dtype.type(member.constants[0]))
    return out


_INTEGERS: dict[int, Any] = {
    LT: np.less,
    LE: np.less_equal,
    GT: np.greater,
    GE: np.greater_equal,
    EQ: np.equal,
    NE: np.not_equal,
}


def _texts_match(array: pa.Array, member: Comparison) -> npt.NDArray[np.bool_]:
    found = pc.is_in(array, value_set=pa.array(member.constants, pa.string()))
    out: npt.NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return ~out if member.code in (NE, NOT_IN) else out


def _number_gaps(array: pa.Array, constants: npt.NDArray[Any], valid: Words) -> npt.NDArray[np.int32]:
    return find_gaps(fixed_width(array).astype(constants.dtype, copy=False), constants, valid)


def _text_gaps(array: pa.Array, constants: pa.Array) -> npt.NDArray[np.int32]:
    """Texts are only ever compared for equality: gap 0 stands for every text that no factor names."""
    named = pc.index_in(array, value_set=constants)
    gaps = pc.add(pc.multiply(named, 2), 1).fill_null(0)
    out: npt.NDArray[np.int32] = pc.if_else(array.is_valid(), gaps, -1).cast(pa.int32()).to_numpy()
    return out


def _compile(group: _Group, is_text: bool) -> _Compiled:
    distinct = sorted({c for m in group.members.values() for c in m.constants})
    index = {c: i for i, c in enumerate(distinct)}
    members = sorted(group.members.items(), key=lambda item: (index[item[1].constants[0]], item[1].code in (LE, GT)))
    indices = [np.array([index[c] for c in m.constants], np.int64) for _, m in members]
    if is_text:
        constants: Any = pa.array(distinct, pa.string())
    else:
        constants = np.array(distinct, np.float64 if group.attribute.type.kind == "DOUBLE" else np.int64)
    return _Compiled(
        constants=constants,
        slots=np.array([slot for slot, _ in members], np.int64),
        codes=np.array([m.code for _, m in members], np.int8),
        starts=np.cumsum([0, *(len(i) for i in indices)]).astype(np.int64),
        indices=np.concatenate(indices),
    )
