"""Mining functions against what was planted, and against libraries. `python -m bench.mining` runs the parts, a module each."""

from __future__ import annotations

Figures = dict[str, float | None]
"""What a part found, by the names in the results; None where it could not measure one."""
