"""Standing queries that Spark SQL evaluates: when they are due, and their answers."""
