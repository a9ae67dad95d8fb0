"""Aggregates over a window join: cells of its results, whose numbers take the place of log positions.

`slicing` makes cells of results, `family` keeps them, `held` is a query's answer at a cycle.
"""
