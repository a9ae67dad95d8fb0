"""RESAMPLE without Spark: the readings that an answer needs are read from the logs when somebody asks.

`holding` cuts a query loose from the store at a cycle, and `held` is its answer: everything that its window reaches (`finding`), or what is new
since an answer that is `kept` (`moving`). `once` answers a question that is asked once.
"""
