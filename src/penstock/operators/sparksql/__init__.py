"""Standing queries that Spark SQL evaluates: the evaluator's thread, and the answers."""
