"""Spark's function registry without what reaches outside of a question: files, the JVM, the session, descriptors.

The binder lets only listed functions through (`penstock.sql.functions`). This is a second layer of defence, in case the
binder has a gap.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from penstock.errors import error

REMOVED = (
    # any method of any class in the JVM
    *("reflect", "java_method", "try_reflect"),
    # names of files
    *("input_file_name", "input_file_block_start", "input_file_block_length"),
    # the session and the machine
    *("current_user", "user", "session_user", "current_catalog", "current_database", "current_schema", "current_path"),
    *("version", "spark_partition_id", "python_worker_logs"),
    # descriptor files, schema registries, and parsers of XML
    *("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf", "from_xml", "to_xml", "schema_of_xml"),
    *("xpath", "xpath_boolean", "xpath_double", "xpath_float", "xpath_int", "xpath_long", "xpath_number"),
    *("xpath_short", "xpath_string"),
    # errors of a user's making
    *("raise_error", "assert_true"),
)


def remove_functions(session: SparkSession) -> None:
    """Drop `REMOVED` from the session, and raise engine_failed if one of them is still there."""
    state: Any = session._jsparkSession.sessionState()
    jvm: Any = session.sparkContext._jvm
    for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
        for qualified in _listed(registry):
            name, *around = reversed(qualified.split("."))
            schema, catalog = (jvm.scala.Option.apply(part) for part in (*around, None, None)[:2])
            registry.dropFunction(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name, schema, catalog))
        if left := _listed(registry):
            raise error("engine_failed", detail=f"Spark still has the functions {', '.join(left)}")


def _listed(registry: Any) -> list[str]:
    """What the registry has of `REMOVED`, with catalog and schema: `system.builtin.reflect`."""
    names = registry.listFunction().mkString(" ").split()
    return sorted(name for name in names if name.rpartition(".")[2].lower() in REMOVED)
