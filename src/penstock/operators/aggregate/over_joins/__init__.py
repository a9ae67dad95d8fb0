"""Aggregates over a window join: cells of its results, with result numbers in the place of log positions.

`slices` makes cells of results, `family` keeps them, `answer` is a query's answer at a cycle.
"""
