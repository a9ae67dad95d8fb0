"""Planners of window joins: a bound SELECT with windows between its streams becomes a `JoinPlan`.

`planner.join_plan` gives each condition to the one stream that decides it, to the keys (`keys`), to an ordinary table (`tables`), or
to whole combinations. `extraction.extract_join` plans the join below a question that does more with its rows.
"""
