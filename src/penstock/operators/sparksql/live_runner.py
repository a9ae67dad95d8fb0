"""Run Spark SQL on the present Spark session: an engine that restarted has a new one."""

from __future__ import annotations

from penstock.cycle.folder import DataFolder
from penstock.errors import error
from penstock.pipeline.engine import Engine
from penstock.pipeline.spark_sql import SparkRunner


class LiveRunner:
    """Gives the runner of the present Spark session at each call."""

    def __init__(self, engine: Engine, folder: DataFolder, result_max_rows: int) -> None:
        self._engine = engine
        self._folder = folder
        self._result_max_rows = result_max_rows
        self._known: tuple[object, SparkRunner] | None = None

    def __call__(self) -> SparkRunner:
        spark = self._engine.spark
        if spark is None or not self._engine.running:
            raise error("not_ready", detail="Spark is starting", hint="ask again in a moment")
        known = self._known
        if known is None or known[0] is not spark:
            known = self._known = (spark, SparkRunner(spark, self._folder, self._result_max_rows))
        return known[1]
