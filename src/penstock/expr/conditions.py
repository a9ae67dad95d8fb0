"""One condition at a time, with what costs much on the rows that the rest leaves: of inputs and combinations of joins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from penstock.cache import Cache
from penstock.errors import PenstockError
from penstock.expr.bits import words_for
from penstock.expr.evaluate import Columns, Functions, evaluate_mask
from penstock.expr.expression import Call, Expr, calls_user
from penstock.expr.factors import Selections
from penstock.expr.lazy_factors import FactorFigures, is_costly
from penstock.expr.normal_form import normal_form
from penstock.expr.slots import Masks
from penstock.types import BOOLEAN

Bools = npt.NDArray[np.bool_]
# With what was learned about their order.
_KEPT = 256


class RowCondition:
    """A condition with factors that cost much."""

    def __init__(self, predicate: Expr, functions: Functions) -> None:
        self.functions = functions
        self._selections = Selections(functions)
        self._chosen = np.array([self._selections.add(normal_form(predicate))], np.int64)

    def decide(self, columns: Columns, rows: int) -> tuple[Bools, PenstockError | None]:
        """The rows at which it is true or an error, and the first of the errors."""
        words, counts = np.zeros((1, words_for(rows)), np.uint64), np.zeros(1, np.int64)
        prepared = self._selections.factors.prepare(columns, rows)
        self._selections.answer(prepared, self._chosen, Masks.none(1), (words, counts))
        found = np.unpackbits(words[0].view(np.uint8), count=rows, bitorder="little").view(np.bool_)
        return found, self._selections.failed(prepared, self._chosen).get(0)

    def take_figures(self, most: int) -> dict[Expr, FactorFigures]:
        return self._selections.factors.take_figures(most)


# A process runs one planner or one task at a time.
_KNOWN: Cache[tuple[int, Expr], RowCondition] = Cache(most=_KEPT)


def decide(
    predicate: Expr | None, columns: Columns, rows: int, functions: Functions, table_id: int = 0
) -> tuple[Bools, PenstockError | None]:
    """Where a condition is true or an error, and the first of the errors. `table_id`: that of the rows, 0 for combinations."""
    if predicate is None or not is_costly(predicate):
        return evaluate_mask(predicate, columns, rows, functions), None
    known = _KNOWN.get((table_id, predicate))
    if known is None or (known.functions is not functions and calls_user(predicate)):
        known = RowCondition(predicate, functions)
        _KNOWN.put((table_id, predicate), known)
    return known.decide(columns, rows)


def true_rows(predicate: Expr | None, columns: Columns, rows: int, functions: Functions, table_id: int = 0) -> Bools:
    """Where a condition is true. Raises the error of the first row for which the condition stays an error."""
    found, failure = decide(predicate, columns, rows, functions, table_id)
    if failure is not None:
        raise failure
    return found


def cheap_and_costly(conditions: Sequence[Expr]) -> tuple[list[Expr], Expr | None]:
    """The conditions that cost little, and the AND of the others."""
    costly = [c for c in conditions if is_costly(c)]
    together = Call("and", tuple(costly), BOOLEAN) if len(costly) > 1 else costly[0] if costly else None
    return [c for c in conditions if c not in costly], together


def take_figures(most: int) -> Iterator[tuple[int, dict[Expr, FactorFigures]]]:
    """What became of factors that cost much since this was asked, by the table of the rows that they are about."""
    for (table_id, _), known in _KNOWN.items():
        yield table_id, known.take_figures(most)
