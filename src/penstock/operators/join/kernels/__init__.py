"""Window joins (W-joins): combinations of one tuple per stream that satisfy a predicate and every window.

In: the streams' tuples as columns sorted by time, and difference bounds between streams (`bounds`). Out: index arrays, one
per stream; combination k takes row `out[s][k]` of stream s. One algorithm per file, all listed in `registry` with what they
cover; whichever runs, the set of combinations is the same. Called by `pipeline` in Spark's workers; `sql` uses `bounds`.
"""
