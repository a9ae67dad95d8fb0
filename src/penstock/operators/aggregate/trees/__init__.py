"""Aggregates over rows in time order.

`tree.AggregateTree` takes rows with their times and says count, sum, avg, min and max of any period of them without
going through the rows. Called by `queries.on_demand`.
"""
