"""RESAMPLE without Spark: the readings that an answer needs are read from the logs on request.

`answer_at` takes a query out of the store at a cycle, and `answer` is its answer: computed from everything that its window
reaches (`samples`), or from a cached answer (`sample_cache`) and what is new since (`next_sample`). `once` answers a
one-shot SELECT.
"""
