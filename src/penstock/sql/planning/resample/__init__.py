"""Planners of RESAMPLE: `planner.resample_plan` gives a `ResamplePlan`, which the log answers.

`rewrite` writes the rest out as SQL that Spark runs.
"""
