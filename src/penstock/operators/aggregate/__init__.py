"""Answers of standing aggregations: cells folded from commit records, shared by all queries of a family.

`store` folds and forgets, `reading` slices what no record told, `held` is one query's answer at a cycle.
"""
