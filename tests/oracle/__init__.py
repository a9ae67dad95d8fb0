"""The oracle: what every standing query must answer, worked out a row at a time.

It shares nothing with the product's parser, planner or operators. A test builds a `model.World` beside the real
database, applies the same commands to both (`generate` invents them), and compares at committed offsets:

    world.answer("q1", heads={"probes": 120}, journal_pos=7, now_us=...)   ->  Counter of row tuples
    compare.difference(world_answer, compare.rows_of(result.table))       ->  None, or what differs

`spark_sql` writes the same questions as Spark SQL, many in one statement, for the larger cases.
"""
