"""The only room that knows Spark: a streaming source whose micro-batches are cycles, and history reads.

In: the journal and the log on disk. Out: commit records (`commits.py`) and Arrow tables for one-shot SQL.
A cycle is planned (`planning.plan_cycle`, in Spark's planner process), run (`cycle.run_task`, in Spark's
workers) and committed (`engine.Engine`, in the server). Called by `queries`.
"""
