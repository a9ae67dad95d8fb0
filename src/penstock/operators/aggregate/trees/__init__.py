"""Aggregates over rows in time order.

`tree.AggregateTree` takes rows with their times and gives count, sum, avg, min and max of any period of them without
reading all rows. `on_demand` uses it for aggregates over a standing query's answer.
"""
