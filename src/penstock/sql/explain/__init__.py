"""EXPLAIN: a plan as lines of text, one fact a line. Called by the statements of `queries`.

`plan.explain` prints every plan, with one module per kind; `notation` writes windows, conditions and outputs as SQL.
"""
