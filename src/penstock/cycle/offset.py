"""The offset of the pipeline: how far data, definitions, time and fills have come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.cycle.late import Late, late_from_json
from penstock.errors import check_known


@dataclass(frozen=True, slots=True)
class Offset:
    """A consistent cut through the log and the journal, with the NOW that holds for it.

    `fill` says for each query that still reads history: [next position, position where live data took over];
    `join_fill` says it for joins, by table. `run_plan` is the number of the plan that says which queries sleep;
    `late` says where the queries of class low stand, if they are behind.
    """

    folder: str
    data: dict[int, int] = field(default_factory=dict)
    journal: int = 0
    now_us: int = 0
    fill: dict[int, tuple[int, int]] = field(default_factory=dict)
    join_fill: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)
    run_plan: int = 0
    late: Late | None = None

    @property
    def filling(self) -> set[int]:
        """The queries that still read history."""
        return {*self.fill, *self.join_fill}

    def to_json(self) -> dict[str, Any]:
        # Spark compares offsets as text, so the order of keys is part of the value.
        joins = {str(q): {str(t): list(v) for t, v in sorted(f.items())} for q, f in sorted(self.join_fill.items())}
        return {
            "folder": self.folder,
            "data": {str(k): v for k, v in sorted(self.data.items())},
            "journal": self.journal,
            "now": self.now_us,
            "fill": {str(k): list(v) for k, v in sorted(self.fill.items())},
            **({"joins": joins} if joins else {}),
            **({"run": self.run_plan} if self.run_plan else {}),
            **({"late": self.late.to_json()} if self.late is not None else {}),
        }


_MEMBERS = {"folder", "data", "journal", "now", "fill", "joins", "run", "late"}


def offset_from_json(data: dict[str, Any]) -> Offset:
    check_known(data, _MEMBERS, "an offset")
    return Offset(
        folder=data["folder"],
        data={int(k): int(v) for k, v in data["data"].items()},
        journal=int(data["journal"]),
        now_us=int(data["now"]),
        fill={int(k): (int(v[0]), int(v[1])) for k, v in data["fill"].items()},
        join_fill={
            int(q): {int(t): (int(v[0]), int(v[1])) for t, v in f.items()} for q, f in data.get("joins", {}).items()
        },
        run_plan=int(data.get("run", 0)),
        late=late_from_json(data["late"]) if "late" in data else None,
    )
