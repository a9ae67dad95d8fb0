"""Evaluate programs for one combination at a time, as the papers' algorithms do for each candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.expr.kernel import kernel
from penstock.operators.join.kernels import program as p
from penstock.operators.join.kernels.program import Program
from penstock.operators.join.papers.sides import Float64s, Int64s

# Numba reads module constants of this file; names of another module would be attributes of an object to it.
LOAD, CONSTANT, ADD, SUB, MUL, DIV, NEG, ABS = p.LOAD, p.CONSTANT, p.ADD, p.SUB, p.MUL, p.DIV, p.NEG, p.ABS
SQRT, SQUARE, MIN, MAX, LT, LE, EQ, NE = p.SQRT, p.SQUARE, p.MIN, p.MAX, p.LT, p.LE, p.EQ, p.NE
INT_ADD, INT_SUB, INT_MUL, INT_DIV, INT_NEG, INT_ABS = p.INT_ADD, p.INT_SUB, p.INT_MUL, p.INT_DIV, p.INT_NEG, p.INT_ABS
AND, OR, NOT = p.AND, p.OR, p.NOT


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a combination must satisfy beyond keys and windows: all of the programs, each as soon as its streams are bound."""

    programs: tuple[Program, ...] = ()


class CompiledConditions(NamedTuple):
    """Conditions as kernels take them: condition c is code[first[c] : first[c + 1]] and needs the streams of mask needs[c]."""

    code: Int64s
    first: Int64s
    constants: Float64s
    needs: Int64s


def flatten(conditions: Conditions | None) -> CompiledConditions:
    """All programs in one array."""
    programs = conditions.programs if conditions else ()
    code, constants, first = [np.empty((0, 3), np.int64)], [np.empty(0)], [0]
    for program in programs:
        moved = program.code.copy()
        moved[moved[:, 0] == CONSTANT, 1] += sum(map(len, constants))
        code.append(moved)
        constants.append(program.constants)
        first.append(first[-1] + len(moved))
    needs = [sum(1 << stream for stream in program.streams) for program in programs]
    return CompiledConditions(
        np.concatenate(code), np.array(first, np.int64), np.concatenate(constants), np.array(needs, np.int64)
    )


@kernel
def wrap(value: int) -> float:
    """The low 32 bits as a signed integer: INT arithmetic wraps."""
    return float(((value + 2**31) & 0xFFFFFFFF) - 2**31)


@kernel
def divide_integers(left: float, right: float) -> float:
    """Toward zero; the caller has seen to it that `right` is not 0. Doubles hold the quotient of 32-bit integers."""
    return wrap(int(np.trunc(left / right)))


@kernel
def less(left: float, right: float) -> bool:
    """NaN is greater than every number and equal to itself."""
    return left < right or (right != right and left == left)


@kernel
def equal(left: float, right: float) -> bool:
    return left == right or (left != left and right != right)


@kernel
def holds(
    code: Int64s,
    first: int,
    end: int,
    constants: Float64s,
    values: Float64s,
    offsets: Int64s,
    chosen: Int64s,
    stack: Float64s,
) -> bool:
    """Whether the program of lines [first, end) is true for the chosen rows.

    Column c of stream s at row r is values[offsets[s, c] + r]; `stack` has space for DEEPEST values.
    """
    top = -1
    for line in range(first, end):
        op = code[line, 0]
        if op == LOAD:
            top += 1
            stack[top] = values[offsets[code[line, 1], code[line, 2]] + chosen[code[line, 1]]]
        elif op == CONSTANT:
            top += 1
            stack[top] = constants[code[line, 1]]
        elif op == NEG:
            stack[top] = -stack[top]
        elif op == ABS:
            stack[top] = abs(stack[top])
        elif op == SQRT:
            stack[top] = np.sqrt(stack[top])
        elif op == SQUARE:
            stack[top] = stack[top] * stack[top]
        elif op == INT_NEG:
            stack[top] = wrap(-int(stack[top]))
        elif op == INT_ABS:
            stack[top] = wrap(abs(int(stack[top])))
        elif op == NOT:
            stack[top] = 1.0 - stack[top]
        else:
            right = stack[top]
            top -= 1
            left = stack[top]
            if op == ADD:
                stack[top] = left + right
            elif op == SUB:
                stack[top] = left - right
            elif op == MUL:
                stack[top] = left * right
            elif op in (DIV, INT_DIV):
                if right == 0.0:
                    return False
                stack[top] = left / right if op == DIV else divide_integers(left, right)
            elif op == MIN:
                stack[top] = right if less(right, left) else left
            elif op == MAX:
                stack[top] = right if less(left, right) else left
            elif op == INT_ADD:
                stack[top] = wrap(int(left) + int(right))
            elif op == INT_SUB:
                stack[top] = wrap(int(left) - int(right))
            elif op == INT_MUL:
                stack[top] = wrap(int(left) * int(right))
            elif op == LT:
                stack[top] = 1.0 if less(left, right) else 0.0
            elif op == LE:
                stack[top] = 0.0 if less(right, left) else 1.0
            elif op == EQ:
                stack[top] = 1.0 if equal(left, right) else 0.0
            elif op == NE:
                stack[top] = 0.0 if equal(left, right) else 1.0
            elif op == AND:
                stack[top] = left * right
            else:
                stack[top] = max(left, right)
    return bool(stack[0] != 0.0)
