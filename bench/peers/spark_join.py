"""The three-stream join on Spark's own stream-stream join. `python spark_join.py FOLDER WARM_FOLDER rocksdb|memory`

Spark takes one time-bounded join while two event times are alive, so after the first join b's time goes on as a number and
the windows of c are a bound (to a) and a filter (to b). Each batch is counted, which makes Spark produce every result.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession

STORES = {
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}
WINDOW = "INTERVAL 10 SECONDS"
WINDOW_US = 10_000_000
# Files hold a second of all streams each: batches of 300 000 rows, like our cycles.
FILES_PER_BATCH = 5


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def session(store: str) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "6g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": STORES[store],
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def one_stream(spark: SparkSession, folder: str, number: int, alias: str) -> DataFrame:
    files = spark.readStream.schema("stream int, ts timestamp, k long, v double")
    rows = files.option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(folder).where(f"stream = {number}")
    named = rows.selectExpr(f"ts AS {alias}_ts", f"k AS {alias}_k", f"v AS {alias}_v")
    return named.withWatermark(f"{alias}_ts", "0 seconds")


def triples(spark: SparkSession, folder: str) -> DataFrame:
    from pyspark.sql.functions import expr

    a, b, c = (one_stream(spark, folder, number, alias) for number, alias in enumerate("abc"))
    pairs = a.join(b, expr(f"a_k = b_k AND b_ts BETWEEN a_ts - {WINDOW} AND a_ts + {WINDOW}"))
    pairs = pairs.selectExpr("a_ts", "a_k", "a_v", "unix_micros(b_ts) AS b_us", "b_v")
    near = f"c_ts BETWEEN a_ts - {WINDOW} AND a_ts + {WINDOW} AND abs(unix_micros(c_ts) - b_us) <= {WINDOW_US}"
    found = pairs.join(c, expr(f"a_k = c_k AND {near}"))
    return found.selectExpr(
        "a_k", "a_v", "b_v", "c_v", "unix_micros(a_ts) AS a_us", "b_us", "unix_micros(c_ts) AS c_us"
    )


def run(spark: SparkSession, folder: str) -> tuple[int, float]:
    """Results, and seconds from the start of the query to its end."""
    counted: list[int] = []

    def count(batch: DataFrame, _: int) -> None:
        counted.append(batch.count())

    with tempfile.TemporaryDirectory() as checkpoint:
        stream = triples(spark, folder).writeStream.foreachBatch(count).option("checkpointLocation", checkpoint)
        began = time.perf_counter()
        query = stream.trigger(availableNow=True).start()
        query.awaitTermination()
        took = time.perf_counter() - began
    return sum(counted), took


def main(folder: str, warm: str, store: str) -> None:
    spark = session(store)
    run(spark, warm)
    say(event="begin")
    results, took = run(spark, folder)
    say(event="end", results=results, seconds=took)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:4])
