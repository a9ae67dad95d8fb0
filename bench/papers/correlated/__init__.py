"""Correlated aggregates: an inner MIN, MAX or AVG of x decides which rows an outer aggregate of y sees.

In: a `question.Question`, the columns x and y in the order of the stream, and where each row's window begins. Out: an
answer per row: `exact.exact_answers` from the rows of the window, `buckets.CorrelatedBuckets` from m buckets with lower and
upper bounds. `baselines` has what the papers compare with.
"""
