"""Which rows of the first input of an outer or anti join have a partner, as of any kept cycle."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyroaring import BitMap

Blocks = dict[int, BitMap]


@dataclass(slots=True)
class PartneredRows:
    """Rows with a partner, and for the kept cycles which ones were new in each."""

    blocks: Blocks = field(default_factory=dict)
    _news: list[tuple[int, int, BitMap]] = field(default_factory=list)

    def add(self, cycle: int, block: int, found: BitMap) -> None:
        known = self.blocks.get(block, BitMap())
        self._news.append((cycle, block, found - known))
        self.blocks[block] = known | found

    def forget(self, oldest_cycle: int) -> None:
        """Cycles up to this one will not be asked about again."""
        if self._news and self._news[0][0] <= oldest_cycle:
            self._news = [told for told in self._news if told[0] > oldest_cycle]

    def without(self, rows: Blocks, cycle: int) -> Blocks:
        """The given rows that had no partner at a cycle."""
        left = {block: found - self.blocks.get(block, BitMap()) for block, found in rows.items()}
        for when, block, news in self._news:
            if when > cycle and block in left:
                left[block] |= news & rows[block]
        return {block: found for block, found in left.items() if found}
