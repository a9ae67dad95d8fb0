"""The database facade: `Database` creates and connects all parts of a server; beside it are the parts that watch over them.

In: statements from `server` and `cli`, commit records from `pipeline`. Out: results, events, system tables and health.
"""
