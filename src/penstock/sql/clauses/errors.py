"""`WITH ERROR` behind a question: the bounds of its approximate aggregates as columns."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.errors import error
from penstock.sql.cursor import Cursor


class ErrorParser(Cursor):
    def _parse_query_modifiers(self, this: Any) -> Any:
        found = super()._parse_query_modifiers(this)
        if isinstance(found, exp.Select) and self.take("WITH", "ERROR"):
            found.set("with_error", True)
            return super()._parse_query_modifiers(found)
        if isinstance(found, exp.Select) and self.peek("WITHIN"):
            hint = (
                "leave it out: the answer is exact; of counts, sums and the like APPROX_COUNT, APPROX_SUM have an error"
            )
            raise self.fail(error("not_supported", feature="WITHIN n PERCENT", hint=hint))
        return found
