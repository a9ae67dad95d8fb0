"""Rollups: created, and closed step by step."""

from __future__ import annotations

from dataclasses import replace

from penstock.catalog.rollup_records import RollupDefinition, RollupState, RollupStep, closing_to_json, rollup_to_json
from penstock.catalog.writer import CatalogWriter


class RollupDefinitions(CatalogWriter):
    def create_rollup(self, rollup: RollupDefinition, if_not_exists: bool = False) -> bool:
        """Journal a rollup; its id, and where it begins, are given here. False where it is there already."""
        with self._lock:
            if self._exists("rollup", rollup.name, self.state.rollups, if_not_exists):
                return False
            self._exists("table", rollup.name, self.state.tables, False)
            self._exists("query", rollup.name, self.state.queries, False)
            table = self.state.tables.get(rollup.table)
            if table is None or table.id != rollup.table_id:
                raise self._missing("table", rollup.table, self.state.tables)
            begin = self.state.retention(table.id)
            made = replace(
                rollup,
                id=self.state.next_rollup_id,
                begin=begin,
                since_us=rollup.since_us if begin else None,
            )
            self._write("create_rollup", rollup_to_json(made))
            return True

    def close_rollup(self, rollup: RollupDefinition, before: RollupState, closing: RollupStep) -> bool:
        """Journal a step after its files are in place; False where the rollup is not what the step began with any more."""
        with self._lock:
            if self.state.rolled_up(rollup.id) != before:
                return False
            self._write("close_rollup", closing_to_json(rollup, closing))
            return True

    def closed_below(self, table_id: int) -> int | None:
        """The log position below which every rollup of a table has what it needs; None: it has no rollup."""
        rollups = self.state.rollups_of(table_id)
        known = (self.state.rolled_up(rollup.id) for rollup in rollups)
        return min((rolled.position for rolled in known if rolled is not None), default=None)
