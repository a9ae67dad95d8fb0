"""User functions in Python: checked where they are created, compiled and called in the pipeline's workers only.

A body is an expression (`abs(a - b) < 1`), the statements of a function (`return abs(a - b) < 1`), or a module that
defines a function of the same name. It is called with the arguments' values, None for NULL, once per row; or,
vectorised, once per batch with Arrow arrays, and gives an Arrow or NumPy array of the same length. A STRUCT is a dict with
all of its fields; vectorised, a dict of arrays. `math` is at hand, and for vectorised bodies `np`, `pa` and `pc`.
"""

from __future__ import annotations

import ast
import contextlib
import keyword
import math
import signal
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import length_hint
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import Function
from penstock.errors import PenstockError, error

# On a busy machine a function gets little of the processor: by the clock it has so many times as long.
_CLOCK_FACTOR = 4
_limit_s = 0.0
# A definition may import much.
_DEFINITION_FACTOR = 4
# A vectorised function has so much more time per so many rows.
_ROWS_PER_LIMIT = 10_000


class Overtime(BaseException):
    """Raised inside a function that takes too long. It is no Exception, so that the function's own handlers do not catch it."""


def limit_functions(seconds: float) -> None:
    """The longest processor time that a function of this process may take for a row; 0: any time."""
    global _limit_s
    _limit_s = seconds


@contextlib.contextmanager
def time_limit(progress: Callable[[], int], factor: float = 1.0) -> Iterator[None]:
    """Raise Overtime where `progress` stays the same for too long; `factor` times the limit of the process.

    A timer interrupts Python code in the main thread of a process, where Spark's workers run tasks. It cannot interrupt C
    code that does not return: then the worker is killed from outside.
    """
    seconds = _limit_s * factor
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return
    seen, used, since = progress(), time.process_time(), time.monotonic()

    def look(_number: int, _frame: FrameType | None) -> None:
        nonlocal seen, used, since
        now = progress()
        if now != seen:
            seen, used, since = now, time.process_time(), time.monotonic()
        elif time.process_time() - used >= seconds or time.monotonic() - since >= seconds * _CLOCK_FACTOR:
            raise Overtime

    before = signal.signal(signal.SIGALRM, look)
    # A function that catches everything is interrupted again.
    signal.setitimer(signal.ITIMER_REAL, seconds / 2, seconds / 2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def check_function(function: Function) -> None:
    """Refuse what could never run: another language, bad names, a syntax error. Runs none of the body."""
    check_names(function)
    _compile(function)


def check_names(function: Function) -> None:
    """Refuse another language, and names that Python cannot use."""
    if function.language.lower() != "python":
        raise error("not_supported", feature=f"LANGUAGE {function.language}", hint="write LANGUAGE python")
    names = [p.name for p in function.parameters]
    for name in (function.name, *names):
        if not name.isidentifier() or keyword.iskeyword(name):
            raise error("invalid_definition", detail=f'"{name}" is not a name that Python can use')
    if len(set(names)) < len(names):
        raise error("invalid_definition", detail=f'function "{function.name}" has two parameters of one name')


def compile_function(function: Function) -> Callable[..., pa.Array]:
    """The function over Arrow arrays: `f(*arrays, rows=n)` gives an array of n values of its return type."""
    check_function(function)
    code, filename = _compile(function)
    more = {"np": np, "pa": pa, "pc": pc} if function.vectorised else {}
    body = define(function, code, filename, more)[function.name]
    run = _vectorised if function.vectorised else _row_by_row

    def call(*arrays: pa.Array, rows: int | None = None) -> pa.Array:
        count = len(arrays[0]) if rows is None else rows
        try:
            return run(body, arrays, count, function.returns.to_arrow())
        except PenstockError:
            raise
        except Overtime:
            raise stopped(function, "it took too long for a row (function_timeout_ms)") from None
        except MemoryError:
            raise stopped(function, "it took too much memory (worker_memory_mb)") from None
        except Exception as problem:
            raise failed(function, filename, problem) from problem

    return call


def define(function: Function, code: CodeType, filename: str, more: Mapping[str, Any] = {}) -> dict[str, Any]:
    """The names that a body defines."""
    namespace: dict[str, Any] = {"math": math, "__name__": filename, **more}
    try:
        with time_limit(lambda: 0, _DEFINITION_FACTOR):
            exec(code, namespace)  # the definition; its author is trusted with the workers, not with the server
    except Overtime:
        raise stopped(function, "its definition took too long (function_timeout_ms)") from None
    except Exception as problem:
        raise failed(function, filename, problem) from problem
    return namespace


def _row_by_row(body: Callable[..., Any], arrays: Sequence[pa.Array], rows: int, type_: pa.DataType) -> pa.Array:
    # The rows that an iterator still has show how far the function has come, at no cost per row.
    columns = [iter(a.to_pylist()) for a in arrays] or [iter([None] * rows)]
    with time_limit(lambda: length_hint(columns[0])):
        if not arrays:
            found = [body() for _ in columns[0]]
        else:
            found = [body(*row) for row in zip(*columns, strict=True)]
    if pa.types.is_nested(type_):
        for value in found:
            check_fields(value, type_)
    return pa.array(found, type_)


def check_fields(value: Any, type_: pa.DataType) -> None:
    """Refuse a dict that lacks a field or has another one: Arrow would make NULL of the one and drop the other."""
    if value is None:
        return
    if pa.types.is_list(type_):
        for element in value:
            check_fields(element, type_.value_type)
    elif pa.types.is_struct(type_):
        if not isinstance(value, Mapping):
            raise TypeError(f"it gave {type(value).__name__} where a dict with the fields of its STRUCT belongs")
        _check_names(value, type_)
        for field in type_:
            check_fields(value[field.name], field.type)


def _check_names(names: Collection[Any], type_: pa.StructType) -> None:
    known = [field.name for field in type_]
    for name in known:
        if name not in names:
            raise ValueError(f'it gave no field "{name}"; its STRUCT has {", ".join(known)}')
    for name in names:
        if name not in known:
            raise ValueError(f'it gave a field "{name}" that its STRUCT has not; it has {", ".join(known)}')


def _vectorised(body: Callable[..., Any], arrays: Sequence[pa.Array], rows: int, type_: pa.DataType) -> pa.Array:
    with time_limit(lambda: 0, 1 + rows / _ROWS_PER_LIMIT):
        found = body(*arrays)
    return _column(found, rows, type_)


def _column(found: Any, rows: int, type_: pa.DataType) -> pa.Array:
    """What a vectorised function gave, as an array of its type: so many values."""
    if isinstance(found, pa.Table | pa.RecordBatch):
        found = {name: found.column(name) for name in found.column_names}
    if isinstance(found, Mapping) and pa.types.is_struct(type_):
        _check_names(found, type_)
        columns = [_column(found[field.name], rows, field.type) for field in type_]
        return pa.StructArray.from_arrays(columns, fields=list(type_))
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    elif isinstance(found, pa.Scalar):
        found = pa.repeat(found, rows)
    elif isinstance(found, np.ndarray) and found.ndim == 2 and pa.types.is_list(type_):
        ends = np.arange(len(found) + 1, dtype=np.int32) * found.shape[1]
        found = pa.ListArray.from_arrays(ends, pa.array(found.reshape(-1)))
    elif not isinstance(found, pa.Array):
        found = pa.array(found)
    if len(found) != rows:
        raise ValueError(f"it gave {len(found)} values for {rows} rows")
    if isinstance(found, pa.StructArray) and pa.types.is_struct(type_):
        _check_names([field.name for field in found.type], type_)
        # By name: a cast would go by position.
        children = dict(zip((field.name for field in found.type), found.flatten(), strict=True))
        columns = [_column(children[field.name], rows, field.type) for field in type_]
        return pa.StructArray.from_arrays(columns, fields=list(type_), mask=found.is_null())
    return found.cast(type_)


def _compile(function: Function) -> tuple[CodeType, str]:
    return compile_body(function, lambda module: module if _defines(module, function) else _wrap(module, function))


def compile_body(function: Function, settle: Callable[[ast.Module], ast.Module]) -> tuple[CodeType, str]:
    """The code of a body and the name of its file in tracebacks. `settle` makes a module of what was written."""
    filename = f"<function {function.name}>"
    try:
        return compile(settle(parse_body(function.body, filename)), filename, "exec"), filename
    except SyntaxError as problem:
        detail = f'function "{function.name}", line {problem.lineno or 1} of its body: {problem.msg}'
        raise error("syntax_error", detail=detail) from None
    except ValueError as problem:  # a NUL in the source
        raise error("syntax_error", detail=f'function "{function.name}": {problem}') from None


def parse_body(body: str, filename: str) -> ast.Module:
    """The body without its indent. What follows `$$` on the first line may have an indent of its own."""
    try:
        return ast.parse(textwrap.dedent(body), filename)
    except SyntaxError as problem:
        first, _, rest = body.partition("\n")
        for other in (textwrap.dedent(rest), rest):
            with contextlib.suppress(SyntaxError):
                return ast.parse(f"{first.lstrip()}\n{other}", filename)
        if first.strip():
            # The indent was not the cause: report the error in the lines as they are aligned here.
            return ast.parse(f"{first.lstrip()}\n{textwrap.dedent(rest)}", filename)
        raise problem


def _defines(module: ast.Module, function: Function) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == function.name for node in module.body)


def _wrap(module: ast.Module, function: Function) -> ast.Module:
    """The statements as the body of a function; a lone expression is what it returns."""
    if not module.body:
        raise error("invalid_definition", detail=f'function "{function.name}" has an empty body')
    body: list[ast.stmt] = list(module.body)
    last = body[-1]
    if isinstance(last, ast.Expr):
        body[-1] = ast.copy_location(ast.Return(last.value), last)
    shell = ast.parse(f"def {function.name}({', '.join(p.name for p in function.parameters)}): pass")
    definition = shell.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.body = body
    return shell


def stopped(function: Function, why: str) -> PenstockError:
    """A function that would hold up every cycle: the queries that call it are taken out of the cycles."""
    return PenstockError("query_quarantined", f'function "{function.name}" was stopped: {why}')


def failed(function: Function, filename: str, problem: Exception) -> PenstockError:
    lines = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == filename]
    where = f" (line {lines[-1]} of its body)" if lines else ""
    return error("function_failed", function=function.name, detail=f"{type(problem).__name__}: {problem}{where}")
