"""Log positions as bitmaps: 32-bit offsets inside blocks of positions."""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap

BLOCK_ROWS = 1 << 30
Blocks = dict[int, BitMap]  # by the first position of the block


def add_block(blocks: Blocks, block: int, found: BitMap) -> None:
    if block in blocks:
        blocks[block] |= found
    else:
        blocks[block] = found


def add_positions(blocks: Blocks, positions: np.ndarray) -> None:
    of_block = positions // BLOCK_ROWS * BLOCK_ROWS
    for block in np.unique(of_block).tolist():
        add_block(blocks, block, BitMap((positions[of_block == block] - block).astype(np.uint32)))


def cut_below(blocks: Blocks, position: int) -> None:
    """Forget positions below one."""
    for block in list(blocks):
        if block + BLOCK_ROWS <= position:
            del blocks[block]
        elif block < position:
            blocks[block].remove_range(0, position - block)
            if not blocks[block]:
                del blocks[block]


def size_of(blocks: Blocks) -> int:
    """Bytes of memory that bitmaps take."""
    facts = [found.get_statistics() for found in blocks.values()]
    arrays = sum(int(f["n_bytes_array_containers"]) + int(f["n_bytes_run_containers"]) for f in facts)
    return arrays + sum(int(f["n_bytes_bitset_containers"]) for f in facts)
