"""How often and how early the decision is right: `make hazmat-measure`.

In: boxes made of test runs, which the library has never seen. Out: bench/results/hazmat.json, a table and plots. The same functions
decide here and in the server.
"""
