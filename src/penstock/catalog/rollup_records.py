"""Rollups: coarser history that outlives the log. What is defined, what has been rolled up, and how both are journalled."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import orjson

from penstock.catalog.definition_json import to_json
from penstock.catalog.model import PlanText, plan_text
from penstock.errors import check_known


@dataclass(frozen=True, slots=True)
class Tier:
    """Cells of one width, and for how long they are kept before the next tier takes them; None: for ever."""

    every_us: int
    keep_us: int | None = None


@dataclass(frozen=True, slots=True)
class RollupDefinition:
    """Which readings of a table are kept as which partials (a plan of sql.plan, as JSON), in which tiers.

    It holds the readings from log position `begin` on. `since_us`: readings of this time and later were all still there
    when it came; None: nothing had been taken yet.
    """

    id: int
    name: str
    table_id: int
    table: str
    sql: str
    stored_plan: PlanText
    tiers: tuple[Tier, ...]
    begin: int = 0
    since_us: int | None = None

    @property
    def plan(self) -> dict[str, object]:
        plan: dict[str, object] = orjson.loads(self.stored_plan.text)
        return plan


@dataclass(frozen=True, slots=True)
class RollupFile:
    """Cells of one width with a time in one block; readings of them are from `first_us` to `last_us`."""

    number: int
    every_us: int
    block_us: int
    first_us: int
    last_us: int
    cells: int
    readings: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RollupState:
    """What a rollup holds: every reading below a log position, in exactly one of its files.

    `gone_us`: readings before that have outlived the last tier, too.
    """

    position: int
    files: tuple[RollupFile, ...] = ()
    gone_us: int | None = None
    next_number: int = 1


@dataclass(frozen=True, slots=True)
class RollupStep:
    """A step of a rollup: files that come and files that go, and what is true of it from then on."""

    position: int
    added: tuple[RollupFile, ...] = ()
    removed: tuple[int, ...] = ()
    gone_us: int | None = None


# Members of the journal that are called otherwise than the fields that they hold.
_STORED_AS = {"table_id": "table", "table": "table_name", "stored_plan": "plan"}
_MEMBERS = {_STORED_AS.get(field.name, field.name) for field in fields(RollupDefinition)}


def rollup_to_json(rollup: RollupDefinition) -> dict[str, Any]:
    return {_STORED_AS.get(name, name): value for name, value in to_json(rollup).items()} | {"plan": rollup.plan}


def rollup_from_json(data: dict[str, Any]) -> RollupDefinition:
    check_known(data, _MEMBERS, f'the rollup "{data["name"]}"')
    known = {field.name: data[_STORED_AS.get(field.name, field.name)] for field in fields(RollupDefinition)}
    made = {"stored_plan": plan_text(data["plan"]), "tiers": tuple(Tier(*tier) for tier in data["tiers"])}
    return RollupDefinition(**{**known, **made})


def closing_to_json(rollup: RollupDefinition, closing: RollupStep) -> dict[str, Any]:
    return {"table": rollup.table_id, "rollup": rollup.id, **to_json(closing)}


def closed(known: RollupState, body: dict[str, Any]) -> RollupState:
    """What a rollup holds after a step."""
    added = tuple(RollupFile(*file) for file in body["added"])
    removed = set(body["removed"])
    gone = [us for us in (known.gone_us, body["gone_us"]) if us is not None]
    return RollupState(
        position=max(known.position, body["position"]),
        files=(*(file for file in known.files if file.number not in removed), *added),
        gone_us=max(gone, default=None),
        next_number=max([known.next_number, *(file.number + 1 for file in added)]),
    )


def rolled_up_from_json(data: dict[str, Any]) -> RollupState:
    files = tuple(RollupFile(*file) for file in data["files"])
    return RollupState(data["position"], files, data["gone_us"], data["next_number"])
