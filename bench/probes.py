"""Composite against separate probes, alone: where the partners of a tuple begin for many constants, and what that compares."""

from __future__ import annotations

import numpy as np

from penstock.expr.kernel import kernel
from penstock.operators.join.kernels.keys import Ints
from penstock.operators.join.papers.sides import Float64s


def composite_probes(new: Float64s, partners: Float64s, constants: Float64s) -> tuple[Ints, int]:
    """For x < y + c: by new tuple and constant where its partners begin, and how many comparisons that took.

    Partners and constants are ascending. One probe carries all constants of a tuple: the larger the constant, the earlier its
    partners begin, so each goes on from where the one before it has come to.
    """
    return _composite(new, partners, constants)


def separate_probes(new: Float64s, partners: Float64s, constants: Float64s) -> tuple[Ints, int]:
    """The same with one probe for each constant."""
    return _separate(new, partners, constants)


@kernel
def _composite(new: Float64s, partners: Float64s, constants: Float64s) -> tuple[Ints, int]:
    begins = np.empty((len(new), len(constants)), np.int64)
    compared = 0
    for i in range(len(new)):
        end = len(partners)
        for k in range(len(constants)):
            low = 0
            if k > 0:  # backwards in strides that double, then between the last two
                stride = 1
                while end > 0:
                    looked = max(0, end - stride)
                    compared += 1
                    if not new[i] < partners[looked] + constants[k]:
                        low = looked + 1
                        break
                    end, stride = looked, stride * 2
            while low < end:
                middle = (low + end) >> 1
                compared += 1
                if new[i] < partners[middle] + constants[k]:
                    end = middle
                else:
                    low = middle + 1
            begins[i, k] = end
    return begins, compared


@kernel
def _separate(new: Float64s, partners: Float64s, constants: Float64s) -> tuple[Ints, int]:
    begins = np.empty((len(new), len(constants)), np.int64)
    compared = 0
    for k in range(len(constants)):
        for i in range(len(new)):
            begin, last = 0, len(partners)
            while begin < last:
                middle = (begin + last) >> 1
                compared += 1
                if new[i] < partners[middle] + constants[k]:
                    last = middle
                else:
                    begin = middle + 1
            begins[i, k] = begin
    return begins, compared
