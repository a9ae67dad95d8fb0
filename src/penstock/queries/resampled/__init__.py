"""RESAMPLE without Spark: the readings that an answer needs are read from the log when somebody asks, and nothing is kept.

`holding` cuts a query loose from the store at a cycle, `held` is its answer, `once` answers a question that is asked once.
"""
