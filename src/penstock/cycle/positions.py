"""Log positions in answers: bitmaps of 32-bit offsets inside blocks of positions."""

BLOCK_ROWS = 1 << 30
