"""Mining: functions of one series of values, such as anomalies or a baseline, as aggregates of SQL.

In: a `Series` per group and the named arguments of a call. Out: columns of the function's result. `registry.FUNCTIONS` is the
one table of them, which the binder, EXPLAIN, the reference and the conformance tests read. A function is pure, one file and
one row. Called by `operators.aggregate.series`, when an answer is asked for.
"""
