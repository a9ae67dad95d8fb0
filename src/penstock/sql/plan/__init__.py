"""Plans: what the pipeline runs. Plain data, stored in the journal as JSON, printed by EXPLAIN.

A `SelectPlan` runs in the shared pass, a `JoinPlan` in the join step and an `AggregatePlan` in the slices beside it; a `JoinAggregatePlan` is
slices of what a join step finds. A `SparkPlan` is whatever no kernel covers and runs as Spark SQL, where it can over the rows of a join that
runs in its step, or with what the log is asked instead (`resampled`).
"""

from penstock.sql.plan.nodes import (
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    AggregateCall,
    AggregatePlan,
    JoinAggregatePlan,
    JoinInput,
    JoinPlan,
    JoinTable,
    KernelPlan,
    Lasting,
    OnDemand,
    Picking,
    Plan,
    Relation,
    SelectPlan,
    SparkPlan,
    TableUse,
    aggregate_name,
    key_name,
)
from penstock.sql.plan.output import Output
from penstock.sql.plan.parts import (
    StreamUse,
    evaluated_by_spark,
    is_approximate,
    is_latch,
    join_of,
    kernel_of,
    reach_of,
    stream_uses,
    tables_under,
    window_of,
)
from penstock.sql.plan.resampled import ResampleCall, ResamplePlan, resample_name
from penstock.sql.plan.stored import has_join, has_latch, plan_from_json, plan_to_json, selected_table

__all__ = [
    "WINDOW_END",
    "WINDOW_START",
    "Aggregate",
    "AggregateCall",
    "AggregatePlan",
    "JoinAggregatePlan",
    "JoinInput",
    "JoinPlan",
    "JoinTable",
    "KernelPlan",
    "Lasting",
    "OnDemand",
    "Output",
    "Picking",
    "Plan",
    "Relation",
    "ResampleCall",
    "ResamplePlan",
    "SelectPlan",
    "SparkPlan",
    "StreamUse",
    "TableUse",
    "aggregate_name",
    "evaluated_by_spark",
    "has_join",
    "has_latch",
    "is_approximate",
    "is_latch",
    "join_of",
    "kernel_of",
    "key_name",
    "plan_from_json",
    "plan_to_json",
    "reach_of",
    "resample_name",
    "selected_table",
    "stream_uses",
    "tables_under",
    "window_of",
]
