"""Synopses: what is kept of a column instead of its values, and answers with a bound of their error.

In: values and times as NumPy arrays in time order. Out: `Answer`s; the state as bytes. All kinds keep to one interface
(`base.Synopsis`) and stand in `registry.KINDS`; a new kind is written in its own file and named there. One instance per
group, or per group and slice. Called by `pipeline` in Spark's workers; `correlated` has a door of its own.
"""
