CREATE QUERY some AS SELECT ppm FROM sensors TABLESAMPLE BERNOULLI (10) REPEATABLE (7) WHERE ppm > 35 BEGIN (NOW - 1 HOUR) END (NOW);
--| shared pass over the stream of "sensors"
--|   window: BEGIN (NOW - 1h) END (NOW)
--|   initial scan: every sensor
--|   stream predicate: (ppm > 35.0) AND TABLESAMPLE BERNOULLI (10) REPEATABLE (7)
--|   output: ppm DOUBLE

SELECT COUNT(*) AS n FROM sensors s TABLESAMPLE (2.5 PERCENT);
--| Spark SQL: an aggregate runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|   output: n BIGINT
--|   text: SELECT COUNT(*) AS `n` FROM IDENTIFIER(:r0) AS `s` WHERE pmod(xxhash64(`s`.`_pos`, CAST(0 AS BIGINT)), 1000000000) < CAST(25000000 AS BIGINT)

SELECT location, AVG(ppm) AS mean FROM sensors TABLESAMPLE PERIODIC (100) REPEATABLE (3) GROUP BY location;
--| Spark SQL: GROUP BY runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|   output: location TEXT, mean DOUBLE
--|   text: SELECT `sensors`.`location` AS `location`, AVG(`sensors`.`ppm`) AS `mean` FROM IDENTIFIER(:r0) AS `sensors` WHERE `sensors`.`_pos` % CAST(100 AS BIGINT) = CAST(3 AS BIGINT) GROUP BY `sensors`.`location`

SELECT a.ppm FROM sensors a TABLESAMPLE BERNOULLI (50), sensors b WINDOW = 5 SECONDS WHERE a.gas_id = b.gas_id;
--| Spark SQL: a join runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|   r1: readings of "sensors"
--|     window: everything that is kept
--|   output: ppm DOUBLE
--|   text: SELECT `a`.`ppm` AS `ppm` FROM IDENTIFIER(:r0) AS `a`, IDENTIFIER(:r1) AS `b` WHERE `a`.`gas_id` = `b`.`gas_id` AND pmod(xxhash64(`a`.`_pos`, CAST(0 AS BIGINT)), 1000000000) < CAST(500000000 AS BIGINT) AND (unix_micros(`b`.`ts`) - unix_micros(`a`.`ts`)) >= CAST((-5000000) AS BIGINT) AND (unix_micros(`b`.`ts`) - unix_micros(`a`.`ts`)) <= CAST(5000000 AS BIGINT)

SELECT ppm FROM sensors TABLESAMPLE SYSTEM (10);
--| ERROR 0A000 not_supported: TABLESAMPLE SYSTEM is not supported
--|   1 | SELECT ppm FROM sensors TABLESAMPLE SYSTEM (10);
--|     |                 ^^^^^^^
--| hint: write FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (7), or TABLESAMPLE PERIODIC (10)

SELECT ppm FROM sensors TABLESAMPLE BERNOULLI (110);
--| ERROR 42601 syntax_error: TABLESAMPLE takes a percentage between 0 and 100
--|   1 | SELECT ppm FROM sensors TABLESAMPLE BERNOULLI (110);
--|     |                                                ^^^
--| hint: write FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (7), or TABLESAMPLE PERIODIC (10)

SELECT ppm FROM sensors TABLESAMPLE PERIODIC (2.5);
--| ERROR 42601 syntax_error: TABLESAMPLE PERIODIC (n) keeps every n-th reading
--|   1 | SELECT ppm FROM sensors TABLESAMPLE PERIODIC (2.5);
--|     |                                               ^^^
--| hint: write FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (7), or TABLESAMPLE PERIODIC (10)

SELECT ppm FROM sensors TABLESAMPLE BERNOULLI (10 ROWS);
--| ERROR 42601 syntax_error: TABLESAMPLE takes a percentage between 0 and 100
--|   1 | SELECT ppm FROM sensors TABLESAMPLE BERNOULLI (10 ROWS);
--|     |                 ^^^^^^^
--| hint: write FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (7), or TABLESAMPLE PERIODIC (10)

SELECT n FROM (SELECT ppm AS n FROM sensors) s TABLESAMPLE BERNOULLI (10);
--| ERROR 0A000 not_supported: TABLESAMPLE of anything but a sensor table is not supported
--|   1 | SELECT n FROM (SELECT ppm AS n FROM sensors) s TABLESAMPLE BERNOULLI (10);
--|     |                       ^^^^^^^^^^^^^^^^^^^^^
--| hint: sample the table in a subquery: FROM (SELECT .. FROM t TABLESAMPLE BERNOULLI (10)) t

SELECT a.ppm FROM loops b LEFT JOIN sensors a TABLESAMPLE BERNOULLI (10) ON a.sensor_id = b.loop_id;
--| ERROR 0A000 not_supported: TABLESAMPLE of the optional side of an outer join is not supported
--|   1 | SELECT a.ppm FROM loops b LEFT JOIN sensors a TABLESAMPLE BERNOULLI (10) ON a.sensor_id = b.loop_id;
--|     |                                     ^^^^^^^^^
--| hint: sample the table in a subquery: FROM (SELECT .. FROM t TABLESAMPLE BERNOULLI (10)) t
