"""Pure vectorised algorithms over Arrow and NumPy. No pyspark, no files, no clock.

In: columns and plain data. Out: columns. Called by `pipeline` in Spark's workers and by `queries` to project.
"""
