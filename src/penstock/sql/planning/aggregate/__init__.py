"""Planners of aggregates: a bound SELECT with aggregates becomes an `AggregatePlan` or a `JoinAggregatePlan`.

`planner.aggregate_plan` covers one stream, `join_results` the rows of a window join and one stream beside ordinary tables,
`correlated` and `scalar_subqueries` two kinds of subqueries. `NotCovered` says why a question stays Spark SQL.
"""
