"""Spark SQL: a bound tree becomes text that Spark runs, with the meaning that PostgreSQL gives it.

`text.spark_sql` writes it, after a refusal of nodes that the binder does not make. `text_check` looks at the finished text once
more, before Spark does. Nothing here imports pyspark.
"""
