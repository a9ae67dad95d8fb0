"""Plans: what the pipeline runs. Plain data, stored in the journal as JSON, printed by EXPLAIN.

Kernels run a `SelectPlan`, a `JoinPlan`, an `AggregatePlan` and the join of a `JoinAggregatePlan` in each cycle. A `SparkPlan` is what no kernel
covers; its subclasses have an answer without Spark, and the text for where that is not possible.
"""

from penstock.sql.plan.nodes import (
    ONLY_IN_SLICES,
    UNNESTED,
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    AggregateCall,
    AggregatePlan,
    CorrelatedGroups,
    JoinAggregatePlan,
    JoinInput,
    JoinPlan,
    JoinTable,
    KernelPlan,
    Lasting,
    OnDemand,
    Plan,
    QueryAggregatePlan,
    Relation,
    ResampleCall,
    ResamplePlan,
    Resampling,
    ScalarSubquery,
    SelectPlan,
    SparkPlan,
    StreamUse,
    TableUse,
    TreePlan,
    aggregate_name,
    key_name,
    resample_name,
    scalar_name,
)
from penstock.sql.plan.output import Output
from penstock.sql.plan.parts import all_windows, evaluated_by_spark, looks_of, own_windows_of, reach_of, stream_uses
from penstock.sql.plan.plan_json import has_join, has_latch, plan_from_json, plan_to_json, selected_table

__all__ = [
    "ONLY_IN_SLICES", "UNNESTED",
    "WINDOW_END", "WINDOW_START", "Aggregate", "AggregateCall", "AggregatePlan", "CorrelatedGroups",
    "JoinAggregatePlan", "JoinInput", "JoinPlan", "JoinTable", "KernelPlan", "Lasting", "OnDemand", "Output",
    "Plan", "QueryAggregatePlan", "Relation", "ResampleCall", "ResamplePlan", "Resampling", "ScalarSubquery",
    "SelectPlan", "SparkPlan", "StreamUse", "TableUse", "TreePlan", "aggregate_name", "all_windows",
    "evaluated_by_spark", "has_join", "has_latch", "key_name", "looks_of", "own_windows_of", "plan_from_json",
    "plan_to_json", "reach_of", "resample_name", "scalar_name", "selected_table", "stream_uses",
]  # fmt: skip
