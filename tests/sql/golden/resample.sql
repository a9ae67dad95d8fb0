SELECT l.ts, l.speed, RESAMPLE(s.ppm, 30 SECONDS) AS ppm FROM loops l, sensors s WHERE s.sensor_id = l.loop_id AND l.speed > 3;
--| Spark SQL: RESAMPLE runs as Spark SQL
--|   r0: readings of "loops"
--|     window: everything that is kept
--|   r1: readings of "sensors"
--|     window: everything that is kept
--|   output: ts TIMESTAMP, speed DOUBLE, ppm DOUBLE
--|   text: SELECT any_value(`l`.`ts`) AS `ts`, any_value(`l`.`speed`) AS `speed`, max_by(`s`.`ppm`, struct(`s`.`ts`, `s`.`_pos`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0) AS `ppm` FROM {r0} AS `l` LEFT JOIN {r1} AS `s` ON (`s`.`sensor_id` = `l`.`loop_id`) AND ((unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 30000000) WHERE (`l`.`speed` > CAST('3.0' AS DOUBLE)) GROUP BY `l`.`_pos`

CREATE QUERY side_by_side AS
  SELECT l.ts, RESAMPLE(s.reading.ppm, 30 SECONDS, LINEAR) + 1 AS ppm, RESAMPLE(s.gas_name, 1 MINUTE, 'previous') AS name
  FROM sensors s JOIN loops l ON s.location = 'north'
  WHERE RESAMPLE(s.ppm, 10 SECONDS, MEAN) > 3 OR l.speed IS NULL
  BEGIN (NOW - 10 MINUTES) END (NOW - 1 MINUTE);
--| Spark SQL: RESAMPLE runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: BEGIN (NOW - 11m) END (NOW)
--|     initial scan: location = 'north'
--|   r1: readings of "loops"
--|     window: BEGIN (NOW - 10m) END (NOW - 1m)
--|   output: ts TIMESTAMP, ppm DOUBLE, name TEXT
--|   text: SELECT any_value(`l`.`ts`) AS `ts`, CASE WHEN MAX(unix_micros(`s`.`ts`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0) = any_value(unix_micros(`l`.`ts`)) THEN max_by(CAST(`s`.`ppm` AS DOUBLE), struct(`s`.`ts`, `s`.`_pos`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0) ELSE max_by(CAST(`s`.`ppm` AS DOUBLE), struct(`s`.`ts`, `s`.`_pos`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0) + (min_by(CAST(`s`.`ppm` AS DOUBLE), struct(`s`.`ts`, -`s`.`_pos`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= 0 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 30000000) - max_by(CAST(`s`.`ppm` AS DOUBLE), struct(`s`.`ts`, `s`.`_pos`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0)) * (CAST((any_value(unix_micros(`l`.`ts`)) - MAX(unix_micros(`s`.`ts`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0)) AS DOUBLE) / CAST((MIN(unix_micros(`s`.`ts`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= 0 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 30000000) - MAX(unix_micros(`s`.`ts`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0)) AS DOUBLE)) END + CAST('1.0' AS DOUBLE) AS `ppm`, max_by(`s`.`gas_name`, struct(`s`.`ts`, `s`.`_pos`)) FILTER(WHERE NOT `s`.`gas_name` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -60000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0) AS `name` FROM {r1} AS `l` LEFT JOIN {r0} AS `s` ON (`s`.`location` = 'north') AND ((unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -60000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 60000000) GROUP BY `l`.`_pos` HAVING (AVG(CAST(`s`.`ppm` AS DOUBLE)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -10000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 10000000) > CAST('3.0' AS DOUBLE) OR any_value(`l`.`speed`) IS NULL)

CREATE QUERY from_now_on AS
  SELECT l.ts, RESAMPLE(s.ppm, 30 SECONDS, MEAN) AS ppm FROM loops l LEFT JOIN sensors s ON s.location = 'north' ORDER BY l.ts LIMIT 3;
--| Spark SQL: RESAMPLE runs as Spark SQL
--|   r0: readings of "loops"
--|     window: BEGIN (START) END (NOW)
--|   r1: readings of "sensors"
--|     window: BEGIN (START - 30s) END (NOW + 30s)
--|     initial scan: location = 'north'
--|   output: ts TIMESTAMP, ppm DOUBLE
--|   text: SELECT any_value(`l`.`ts`) AS `ts`, AVG(CAST(`s`.`ppm` AS DOUBLE)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 30000000) AS `ppm` FROM {r0} AS `l` LEFT JOIN {r1} AS `s` ON (`s`.`location` = 'north') AND ((unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 30000000) GROUP BY `l`.`_pos` ORDER BY any_value(`l`.`ts`) ASC NULLS LAST LIMIT 3

SELECT AVG(x.ppm) FROM (SELECT RESAMPLE(s.ppm, 1 SECOND) AS ppm FROM loops l, sensors s) x;
--| Spark SQL: RESAMPLE runs as Spark SQL
--|   r0: readings of "loops"
--|     window: everything that is kept
--|   r1: readings of "sensors"
--|     window: everything that is kept
--|   output: avg DOUBLE
--|   text: SELECT AVG(`x`.`ppm`) AS `avg` FROM (SELECT max_by(`s`.`ppm`, struct(`s`.`ts`, `s`.`_pos`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -1000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0) AS `ppm` FROM {r0} AS `l` LEFT JOIN {r1} AS `s` ON ((unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -1000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 1000000) GROUP BY `l`.`_pos`) AS `x`(`ppm`)

SELECT RESAMPLE(s.ppm) FROM loops l, sensors s;
--| ERROR 42601 syntax_error: RESAMPLE takes a value, a duration and how: PREVIOUS, LINEAR or MEAN
--|   1 | SELECT RESAMPLE(s.ppm) FROM loops l, sensors s;
--|     |        ^^^^^^^^^^^^^^^
--| hint: write RESAMPLE(p.ppm, 30 SECONDS, LINEAR)

SELECT RESAMPLE(s.ppm, l.speed) FROM loops l, sensors s;
--| ERROR 42601 syntax_error: RESAMPLE needs a duration
--|   1 | SELECT RESAMPLE(s.ppm, l.speed) FROM loops l, sensors s;
--|     |                        ^^^^^^^
--| hint: write RESAMPLE(p.ppm, 30 SECONDS, LINEAR)

SELECT RESAMPLE(s.ppm, 5 SECONDS, LINEER) FROM loops l, sensors s;
--| ERROR 42601 syntax_error: RESAMPLE does not know "lineer"
--|   1 | SELECT RESAMPLE(s.ppm, 5 SECONDS, LINEER) FROM loops l, sensors s;
--|     |                                   ^^^^^^
--| hint: did you mean "linear"?

SELECT RESAMPLE(s.gas_name, 5 SECONDS, MEAN) FROM loops l, sensors s;
--| ERROR 42804 type_mismatch: MEAN works on numbers, this is TEXT
--|   1 | SELECT RESAMPLE(s.gas_name, 5 SECONDS, MEAN) FROM loops l, sensors s;
--|     |                 ^^^^^^^^^^
--| hint: PREVIOUS takes any value

SELECT l.ts, s.ppm, RESAMPLE(s.ppm, 5 SECONDS) AS p FROM loops l, sensors s;
--| ERROR 0A000 not_supported: s.ppm outside of RESAMPLE is not supported
--|   1 | SELECT l.ts, s.ppm, RESAMPLE(s.ppm, 5 SECONDS) AS p FROM loops l, sensors s;
--|     |              ^^^^^
--| hint: at the times of l it is RESAMPLE(s.ppm, 30 SECONDS)

SELECT l.ts, RESAMPLE(s.ppm + l.speed, 5 SECONDS) AS p FROM loops l, sensors s;
--| ERROR 0A000 not_supported: RESAMPLE of a value of two streams is not supported
--|   1 | SELECT l.ts, RESAMPLE(s.ppm + l.speed, 5 SECONDS) AS p FROM loops l, sensors s;
--|     |              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: name columns of one stream, one per SELECT

SELECT RESAMPLE(ppm, 5 SECONDS) AS p FROM sensors;
--| ERROR 0A000 not_supported: RESAMPLE here is not supported
--|   1 | SELECT RESAMPLE(ppm, 5 SECONDS) AS p FROM sensors;
--|     |        ^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: FROM has two streams: the one whose times are asked for, and the one that is resampled

SELECT l.segment, MAX(RESAMPLE(s.ppm, 5 SECONDS)) AS p FROM loops l, sensors s GROUP BY l.segment;
--| ERROR 0A000 not_supported: RESAMPLE beside GROUP BY is not supported
--|   1 | SELECT l.segment, MAX(RESAMPLE(s.ppm, 5 SECONDS)) AS p FROM loops l, sensors s GROUP BY l.segment;
--|     |                       ^^^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: put it around: SELECT ... FROM (SELECT ... RESAMPLE(...) ...)

SELECT l.ts, RESAMPLE(s.ppm, 5 SECONDS) AS p FROM loops l, sensors s, my_segments m;
--| ERROR 0A000 not_supported: RESAMPLE here is not supported
--|   1 | SELECT l.ts, RESAMPLE(s.ppm, 5 SECONDS) AS p FROM loops l, sensors s, my_segments m;
--|     |              ^^^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: FROM has two streams: the one whose times are asked for, and the one that is resampled

SELECT l.ts, RESAMPLE(s.ppm, 5 SECONDS) AS p FROM loops l, sensors s WINDOW(l, s) = 3 SECONDS;
--| ERROR 0A000 not_supported: RESAMPLE beside WINDOW is not supported
--|   1 | SELECT l.ts, RESAMPLE(s.ppm, 5 SECONDS) AS p FROM loops l, sensors s WINDOW(l, s) = 3 SECONDS;
--|     |              ^^^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: RESAMPLE says itself how far apart readings are

SELECT l.ts, RESAMPLE(s.ppm, 5 SECONDS) AS p FROM loops l, sensors s BEGIN (LAST 10 ROWS);
--| ERROR 0A000 not_supported: RESAMPLE over the newest rows is not supported
--|   1 | SELECT l.ts, RESAMPLE(s.ppm, 5 SECONDS) AS p FROM loops l, sensors s BEGIN (LAST 10 ROWS);
--|     |              ^^^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: use BEGIN (NOW - d) END (NOW)

SELECT l.ts, RESAMPLE(s.ppm, 5 SECONDS) AS p FROM loops l RIGHT JOIN sensors s ON s.sensor_id = l.loop_id;
--| ERROR 0A000 not_supported: RESAMPLE in a RIGHT or FULL JOIN is not supported
--|   1 | SELECT l.ts, RESAMPLE(s.ppm, 5 SECONDS) AS p FROM loops l RIGHT JOIN sensors s ON s.sensor_id = l.loop_id;
--|     |              ^^^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: write FROM times t, values v
