"""SQL: text -> statement -> bound tree -> plan. sqlglot does tokens and grammar.

`parse.parse_script` gives `statements`; `planning.planner.plan_query` binds a SELECT and gives a `plan`; `definitions` and
`row_changes` bind CREATE and INSERT/UPDATE/DELETE for the catalog; `explain.plan.explain` prints plans. Called by `queries`.
Every error carries line, column and length of the text it is about.
"""
