"""Window joins (W-joins): combinations of one tuple per stream that satisfy a predicate and every window.

In: the streams' tuples as columns sorted by time, and difference bounds between streams (`bounds`). Out: index arrays, one
per stream; combination k takes row `out[s][k]` of stream s. Called by `join.steps` in Spark's workers; `sql` uses `bounds`.
The papers' algorithms in `join.papers` find the same set of combinations.
"""
