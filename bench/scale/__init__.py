"""Long windows, many sensors, many groups, many queries. `python -m bench.scale` runs the parts, a module each."""

from __future__ import annotations

Figures = dict[str, float | None]
"""What a run of a part found, by the names in the results; None where it could not measure one."""
