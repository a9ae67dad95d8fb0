"""The only package that imports pyspark: a streaming source with cycles as micro-batches, and reads of history.

In: the journal and the log on disk. Out: commit records (`cycle.commits`) and Arrow tables for one-shot SQL.
A cycle is planned (`cycle.cut.plan_cycle`, in Spark's planner process), run (`cycle.worker.run_task`, in Spark's
workers) and committed (`engine.Engine`, in the server). Called by `database`.
"""
