"""Windows over time and over rows: computes BEGIN and END for a given NOW and START."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from penstock.clock import format_timestamp
from penstock.types import format_duration

FOREVER = 2**62
Anchor = Literal["constant", "now", "start"]


@dataclass(frozen=True, slots=True)
class Bound:
    """One end: a constant time, or NOW or START moved by `offset_us` (negative is earlier)."""

    anchor: Anchor
    offset_us: int = 0

    def resolve(self, now_us: int, start_us: int) -> int:
        if self.anchor == "constant":
            return self.offset_us
        return (now_us if self.anchor == "now" else start_us) + self.offset_us

    def __str__(self) -> str:
        if self.anchor == "constant":
            if abs(self.offset_us) >= FOREVER:
                return "-infinity" if self.offset_us < 0 else "infinity"
            return format_timestamp(self.offset_us)
        if self.offset_us == 0:
            return self.anchor.upper()
        sign = "-" if self.offset_us < 0 else "+"
        return f"{self.anchor.upper()} {sign} {format_duration(abs(self.offset_us))}"


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """All rows with begin <= ts <= end; both ends inclusive."""

    begin: Bound
    end: Bound

    def resolve(self, now_us: int, start_us: int) -> tuple[int, int]:
        return self.begin.resolve(now_us, start_us), self.end.resolve(now_us, start_us)

    @property
    def slides(self) -> bool:
        return self.begin.anchor == "now"

    @property
    def ends(self) -> bool:
        """Whether the window closes for good, so that the query finishes."""
        return self.end.anchor in ("constant", "start")

    def __str__(self) -> str:
        return f"BEGIN ({self.begin}) END ({self.end})"


@dataclass(frozen=True, slots=True)
class RowsWindow:
    """The newest rows of the stream by (ts, log position), after static and before stream predicates."""

    count: int
    per_sensor: bool = False

    def __str__(self) -> str:
        return f"BEGIN (LAST {self.count} ROWS{' PER SENSOR' if self.per_sensor else ''})"


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """The time windows of a join's inputs, in the order of FROM; mostly all the same."""

    by_input: tuple[TimeWindow, ...]

    @property
    def uniform(self) -> bool:
        return len(set(self.by_input)) == 1

    def __str__(self) -> str:
        return str(self.by_input[0]) if self.uniform else "; ".join(map(str, self.by_input))


Window = TimeWindow | RowsWindow
AnyWindow = TimeWindow | RowsWindow | JoinWindows

EVERYTHING = TimeWindow(Bound("constant", -FOREVER), Bound("constant", FOREVER))
FROM_REGISTRATION = TimeWindow(Bound("start"), Bound("now"))


def to_json(window: AnyWindow) -> dict[str, Any]:
    if isinstance(window, JoinWindows):
        return {"by_input": [to_json(w) for w in window.by_input]}
    if isinstance(window, RowsWindow):
        return {"rows": window.count, "per_sensor": window.per_sensor}
    return {
        "begin": [window.begin.anchor, window.begin.offset_us],
        "end": [window.end.anchor, window.end.offset_us],
    }


def from_json(data: dict[str, Any]) -> Window:
    if "rows" in data:
        return RowsWindow(data["rows"], data["per_sensor"])
    return _time_window(*data["begin"], *data["end"])


@lru_cache(maxsize=1024)
def _time_window(begin: Anchor, begin_us: int, end: Anchor, end_us: int) -> TimeWindow:
    """One for all that are equal: thousands of queries look back as far."""
    return TimeWindow(Bound(begin, begin_us), Bound(end, end_us))


def any_from_json(data: dict[str, Any]) -> AnyWindow:
    if "by_input" not in data:
        return from_json(data)
    windows = [from_json(w) for w in data["by_input"]]
    return JoinWindows(tuple(w for w in windows if isinstance(w, TimeWindow)))
