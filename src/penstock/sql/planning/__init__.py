"""Planning: a bound SELECT becomes a plan. Called by `queries` and by `explain`.

`planner.plan_query` tries one planner after the other: `join`, `aggregate`, `resample`, then a selection of one stream. What none of them
covers runs as Spark SQL. `relations` says which sources are streams; `planner.asked_once` plans a SELECT that rollups may answer.
"""
