"""Aggregates over the results of a window join that another query is."""
