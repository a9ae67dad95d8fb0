"""An operator as an engineer adds one: ORDER BY and LIMIT over the readings of a stream, without Spark SQL."""
