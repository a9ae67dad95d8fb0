SELECT a.ppm FROM sensors a, sensors b, sensors c WINDOW = 1 HOUR
WHERE a.location = b.location AND b.location = c.location AND a.sensor_id = 1;
--| Spark SQL: a join runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|     initial scan: sensor_id = 1
--|   r1: readings of "sensors"
--|     window: everything that is kept
--|   r2: readings of "sensors"
--|     window: everything that is kept
--|   output: ppm DOUBLE
--|   text: SELECT `a`.`ppm` AS `ppm` FROM IDENTIFIER(:r0) AS `a`, IDENTIFIER(:r1) AS `b`, IDENTIFIER(:r2) AS `c` WHERE `a`.`location` = `b`.`location` AND `b`.`location` = `c`.`location` AND `a`.`sensor_id` = 1 AND (unix_micros(`b`.`ts`) - unix_micros(`a`.`ts`)) >= CAST((-3600000000) AS BIGINT) AND (unix_micros(`b`.`ts`) - unix_micros(`a`.`ts`)) <= CAST(3600000000 AS BIGINT) AND (unix_micros(`c`.`ts`) - unix_micros(`a`.`ts`)) >= CAST((-3600000000) AS BIGINT) AND (unix_micros(`c`.`ts`) - unix_micros(`a`.`ts`)) <= CAST(3600000000 AS BIGINT) AND (unix_micros(`c`.`ts`) - unix_micros(`b`.`ts`)) >= CAST((-3600000000) AS BIGINT) AND (unix_micros(`c`.`ts`) - unix_micros(`b`.`ts`)) <= CAST(3600000000 AS BIGINT)

SELECT a.ppm FROM sensors a, loops b, loops c
WINDOW(a,b) = 30 SECONDS AND WINDOW(b,c) BETWEEN -5 SECONDS AND 1 MINUTE
WHERE similar(a.ppm, b.speed) AND similar(b.speed, c.speed);
--| Spark SQL: a join runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|   r1: readings of "loops"
--|     window: everything that is kept
--|   r2: readings of "loops"
--|     window: everything that is kept
--|   output: ppm DOUBLE
--|   functions: similar
--|   text: SELECT `a`.`ppm` AS `ppm` FROM IDENTIFIER(:r0) AS `a`, IDENTIFIER(:r1) AS `b`, IDENTIFIER(:r2) AS `c` WHERE `similar`(`a`.`ppm`, `b`.`speed`) AND `similar`(`b`.`speed`, `c`.`speed`) AND (unix_micros(`b`.`ts`) - unix_micros(`a`.`ts`)) >= CAST((-30000000) AS BIGINT) AND (unix_micros(`b`.`ts`) - unix_micros(`a`.`ts`)) <= CAST(30000000 AS BIGINT) AND (unix_micros(`c`.`ts`) - unix_micros(`b`.`ts`)) >= CAST((-5000000) AS BIGINT) AND (unix_micros(`c`.`ts`) - unix_micros(`b`.`ts`)) <= CAST(60000000 AS BIGINT)

SELECT a.ppm FROM sensors a, loops b DWINDOW(a,b) = 30 SECONDS WHERE a.ppm = b.speed BEGIN (NOW - 1 DAY);
--| Spark SQL: a join runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: BEGIN (NOW - 1d) END (NOW)
--|   r1: readings of "loops"
--|     window: BEGIN (NOW - 1d) END (NOW)
--|   output: ppm DOUBLE
--|   text: SELECT `a`.`ppm` AS `ppm` FROM IDENTIFIER(:r0) AS `a`, IDENTIFIER(:r1) AS `b` WHERE `a`.`ppm` = `b`.`speed` AND (unix_micros(`b`.`ts`) - unix_micros(`a`.`ts`)) >= CAST(0 AS BIGINT) AND (unix_micros(`b`.`ts`) - unix_micros(`a`.`ts`)) <= CAST(30000000 AS BIGINT)

SELECT a.ppm FROM sensors a, sensors b, loops c, loops d WINDOW(a,b) = 30 SECONDS AND WINDOW(c,d) = 1 MINUTE;
--| ERROR 42P20 invalid_window: no window connects "c" and "d" with "a"
--|   1 | SELECT a.ppm FROM sensors a, sensors b, loops c, loops d WINDOW(a,b) = 30 SECONDS AND WINDOW(c,d) = 1 MINUTE;
--|     |                                                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: add WINDOW(a, c) = d, or bound the query with BEGIN (NOW - d) END (NOW)

SELECT a.ppm FROM sensors a, loops b WINDOW(a,x) = 30 SECONDS;
--| ERROR 42P01 table_not_found: there is no table "x"
--|   1 | SELECT a.ppm FROM sensors a, loops b WINDOW(a,x) = 30 SECONDS;
--|     |                                      ^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: the streams of FROM are a, b

SELECT a.ppm FROM sensors a, loops b DWINDOW(a,b) = 30 SECONDS AND WINDOW(b,a) BETWEEN 1 MINUTE AND 2 MINUTES;
--| ERROR 42P20 invalid_window: no times can satisfy the windows between "a" and "b"
--|   1 | SELECT a.ppm FROM sensors a, loops b DWINDOW(a,b) = 30 SECONDS AND WINDOW(b,a) BETWEEN 1 MINUTE AND 2 MINUTES;
--|     |                                                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: taken together they miss each other by 1m

SELECT a.ppm FROM sensors a, loops b WINDOW(a,b) BETWEEN 5 SECONDS AND 1 SECOND;
--| ERROR 42P20 invalid_window: the window is empty: its low end lies past the high
--|   1 | SELECT a.ppm FROM sensors a, loops b WINDOW(a,b) BETWEEN 5 SECONDS AND 1 SECOND;
--|     |                                      ^^^^^^
--| hint: write the smaller end first
