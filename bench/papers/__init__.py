"""The papers' synopses: what is kept of a column instead of its values, and estimates with a bound of their error.

In: values and times as NumPy arrays in time order. Out: `Estimate`s; the state as bytes. All kinds keep to one interface
(`base.Synopsis`) and stand in `registry.KINDS`; a new kind is written in its own file and named there. `bench.statistics`
compares them with exact answers. The server does not use them: what SQL has of them is in `operators.slices.approximate`.
"""
