"""Long windows, many sensors, many groups, many queries. `python -m bench.scale` runs the parts, a module each."""

from __future__ import annotations

from collections.abc import Sequence

Figures = dict[str, float | Sequence[float | None] | None]
"""What a run of a part found, by the names in the results: None where it could not measure one, several where it measured one again."""
