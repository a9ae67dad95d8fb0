"""The tier and the block of a cell: a tier is stored and expires in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.catalog.rollup_records import RollupFile, Tier
from penstock.operators.aggregate.partials.base import Ints

CELLS_PER_BLOCK = 240  # of one group


@dataclass(frozen=True, slots=True)
class Level:
    """A tier at a moment: cells that begin before `begins_us` belong to coarser ones; None: to none."""

    every_us: int
    block_us: int
    begins_us: int | None

    def block_of(self, starts: Ints) -> Ints:
        blocks: Ints = np.floor_divide(starts, self.block_us) * self.block_us
        return blocks

    def has_expired(self, file: RollupFile) -> bool:
        """Whether nothing of a file's block belongs to this tier any more."""
        return self.begins_us is not None and file.block_us + self.block_us <= self.begins_us


def levels_at(tiers: Sequence[Tier], now_us: int) -> list[Level]:
    """The tiers, finest first. A tier gives up whole blocks, so that its KEEP is the least it holds."""
    widths = [tier.every_us for tier in tiers]
    blocks = [after * -(-CELLS_PER_BLOCK * width // after) for width, after in pairwise(widths)]
    blocks.append(CELLS_PER_BLOCK * widths[-1])
    return [
        Level(
            tier.every_us,
            block,
            None if tier.keep_us is None else (now_us - tier.keep_us) // block * block,
        )
        for tier, block in zip(tiers, blocks, strict=True)
    ]


def places_of(starts: Ints, levels: Sequence[Level]) -> Ints:
    """The number of each cell's tier: the finest that still holds its time; as many as there are tiers: none."""
    places = np.full(len(starts), len(levels), np.int64)
    for place in range(len(levels) - 1, -1, -1):
        begins_us = levels[place].begins_us
        inside = np.ones(len(starts), np.bool_) if begins_us is None else starts >= begins_us
        places[inside] = place
    return places
