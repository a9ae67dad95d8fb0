"""EXPLAIN: a plan as lines of text, one fact a line. Called by the statements of `queries`.

`plan.explain` prints every plan, with modules for joins and aggregates; `notation` writes windows, conditions and outputs as SQL.
"""
