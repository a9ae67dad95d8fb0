SELECT l.ts, l.speed, RESAMPLE(s.ppm, 30 SECONDS) AS ppm FROM loops l, sensors s WHERE s.sensor_id = l.loop_id AND l.speed > 3;
--| values of "sensors" at the readings of "loops", found in the log when asked
--|   times: readings of "loops"
--|     window: everything that is kept
--|     conditions: speed > 3.0
--|   values: readings of "sensors"
--|     window: everything that is kept
--|   same: loop_id = sensor_id of "sensors"
--|   resampled: RESAMPLE(ppm, 30s, PREVIOUS)
--|   output: ts TIMESTAMP, speed DOUBLE, ppm DOUBLE = RESAMPLE(ppm, 30s, PREVIOUS)

CREATE QUERY side_by_side AS
  SELECT l.ts, RESAMPLE(s.reading.ppm, 30 SECONDS, LINEAR) + 1 AS ppm, RESAMPLE(s.gas_name, 1 MINUTE, 'previous') AS name
  FROM sensors s JOIN loops l ON s.location = 'north'
  WHERE RESAMPLE(s.ppm, 10 SECONDS, MEAN) > 3 OR l.speed IS NULL
  BEGIN (NOW - 10 MINUTES) END (NOW - 1 MINUTE);
--| values of "sensors" at the readings of "loops", found in the log when asked
--|   times: readings of "loops"
--|     window: BEGIN (NOW - 10m) END (NOW - 1m)
--|   values: readings of "sensors"
--|     window: BEGIN (NOW - 11m) END (NOW)
--|     initial scan: location = 'north'
--|   resampled: RESAMPLE(ppm, 30s, LINEAR), RESAMPLE(gas_name, 1m, PREVIOUS), RESAMPLE(ppm, 10s, MEAN)
--|   of those: (RESAMPLE(ppm, 10s, MEAN) > 3.0) OR speed IS NULL
--|   output: ts TIMESTAMP, ppm DOUBLE = RESAMPLE(ppm, 30s, LINEAR) + 1.0, name TEXT = RESAMPLE(gas_name, 1m, PREVIOUS)

CREATE QUERY from_now_on AS
  SELECT l.ts, RESAMPLE(s.ppm, 30 SECONDS, MEAN) AS ppm FROM loops l LEFT JOIN sensors s ON s.location = 'north' ORDER BY l.ts LIMIT 3;
--| values of "sensors" at the readings of "loops", found in the log when asked
--|   times: readings of "loops"
--|     window: BEGIN (START) END (NOW)
--|   values: readings of "sensors"
--|     window: BEGIN (START - 30s) END (NOW + 30s)
--|     initial scan: location = 'north'
--|   resampled: RESAMPLE(ppm, 30s, MEAN)
--|   sorted: ts, 3 rows
--|   output: ts TIMESTAMP, ppm DOUBLE = RESAMPLE(ppm, 30s, MEAN)

-- A condition between both streams that is no equality is Spark's.
SELECT l.ts, RESAMPLE(s.reading.ppm, 30 SECONDS, LINEAR) + 1 AS ppm, RESAMPLE(s.gas_name, 1 MINUTE, 'previous') AS name
  FROM sensors s JOIN loops l ON s.location = 'north' AND s.ppm > l.speed
  WHERE RESAMPLE(s.ppm, 10 SECONDS, MEAN) > 3 OR l.speed IS NULL
  BEGIN (NOW - 10 MINUTES) END (NOW - 1 MINUTE);
--| Spark SQL: RESAMPLE with a condition between both streams that is no equality runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: BEGIN (NOW - 11m) END (NOW)
--|     initial scan: location = 'north'
--|   r1: readings of "loops"
--|     window: BEGIN (NOW - 10m) END (NOW - 1m)
--|   output: ts TIMESTAMP, ppm DOUBLE, name TEXT
--|   text: SELECT any_value(`l`.`ts`) AS `ts`, CASE WHEN MAX(unix_micros(`s`.`ts`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0) = any_value(unix_micros(`l`.`ts`)) THEN max_by(CAST(`s`.`ppm` AS DOUBLE), struct(`s`.`ts`, `s`.`_pos`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0) ELSE max_by(CAST(`s`.`ppm` AS DOUBLE), struct(`s`.`ts`, `s`.`_pos`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0) + (min_by(CAST(`s`.`ppm` AS DOUBLE), struct(`s`.`ts`, -`s`.`_pos`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= 0 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 30000000) - max_by(CAST(`s`.`ppm` AS DOUBLE), struct(`s`.`ts`, `s`.`_pos`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0)) * (CAST((any_value(unix_micros(`l`.`ts`)) - MAX(unix_micros(`s`.`ts`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0)) AS DOUBLE) / CAST((MIN(unix_micros(`s`.`ts`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= 0 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 30000000) - MAX(unix_micros(`s`.`ts`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -30000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0)) AS DOUBLE)) END + CAST('1.0' AS DOUBLE) AS `ppm`, max_by(`s`.`gas_name`, struct(`s`.`ts`, `s`.`_pos`)) FILTER(WHERE NOT `s`.`gas_name` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -60000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0) AS `name` FROM IDENTIFIER(:r1) AS `l` LEFT JOIN IDENTIFIER(:r0) AS `s` ON (`s`.`location` = 'north') AND (`s`.`ppm` > `l`.`speed`) AND ((unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -60000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 60000000) GROUP BY `l`.`_pos` HAVING (AVG(CAST(`s`.`ppm` AS DOUBLE)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -10000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 10000000) > CAST('3.0' AS DOUBLE) OR any_value(`l`.`speed`) IS NULL)

SELECT DISTINCT RESAMPLE(s.ppm, 1 SECOND) AS ppm FROM loops l, sensors s;
--| Spark SQL: RESAMPLE beside DISTINCT runs as Spark SQL
--|   r0: readings of "loops"
--|     window: everything that is kept
--|   r1: readings of "sensors"
--|     window: everything that is kept
--|   output: ppm DOUBLE
--|   text: SELECT DISTINCT max_by(`s`.`ppm`, struct(`s`.`ts`, `s`.`_pos`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -1000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0) AS `ppm` FROM IDENTIFIER(:r0) AS `l` LEFT JOIN IDENTIFIER(:r1) AS `s` ON ((unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -1000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 1000000) GROUP BY `l`.`_pos`

SELECT RESAMPLE(similar(s.ppm, 1), 1 SECOND) AS near FROM loops l, sensors s;
--| Spark SQL: RESAMPLE beside a user's function runs as Spark SQL
--|   r0: readings of "loops"
--|     window: everything that is kept
--|   r1: readings of "sensors"
--|     window: everything that is kept
--|   output: near BOOLEAN
--|   functions: similar
--|   text: SELECT max_by(`similar`(`s`.`ppm`, CAST('1.0' AS DOUBLE)), struct(`s`.`ts`, `s`.`_pos`)) FILTER(WHERE NOT `similar`(`s`.`ppm`, CAST('1.0' AS DOUBLE)) IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -1000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0) AS `near` FROM IDENTIFIER(:r0) AS `l` LEFT JOIN IDENTIFIER(:r1) AS `s` ON ((unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -1000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 1000000) GROUP BY `l`.`_pos`

SELECT RESAMPLE(s.ppm, 1 SECOND) AS ppm FROM loops l, sensors s WHERE (s.ppm > 3 FOR 5 SECONDS);
--| ERROR 0A000 not_supported: a condition FOR some time on the stream that is resampled is not supported
--|   1 | SELECT RESAMPLE(s.ppm, 1 SECOND) AS ppm FROM loops l, sensors s WHERE (s.ppm > 3 FOR 5 SECONDS);
--|     |                                                                        ^^^^^^^^^
--| hint: say it of the stream that gives the times, or leave FOR out

SELECT RESAMPLE(s.ppm, 1 SECOND) AS ppm FROM loops l TABLESAMPLE PERIODIC (3), sensors s WHERE (l.speed > 3 FOR 5 SECONDS);
--| Spark SQL: a condition that has to hold FOR some time, inside another one, runs as Spark SQL
--|   r0: readings of "loops"
--|     window: everything that is kept
--|   r1: readings of "sensors"
--|     window: everything that is kept
--|   r2: readings of "loops"
--|   output: ppm DOUBLE
--|   text: SELECT max_by(`s`.`ppm`, struct(`s`.`ts`, `s`.`_pos`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -1000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0) AS `ppm` FROM IDENTIFIER(:r0) AS `l` LEFT JOIN IDENTIFIER(:r1) AS `s` ON ((unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -1000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 1000000) WHERE (`l`.`_pos` IN (SELECT `_pos` FROM (SELECT *, MIN(CASE WHEN `_true` THEN `ts` END) OVER (PARTITION BY `_sid`, `_run`) AS `_since` FROM (SELECT *, SUM(CASE WHEN `_true` THEN 0 ELSE 1 END) OVER (PARTITION BY `_sid` ORDER BY `ts` NULLS LAST, `_pos` NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `_run` FROM (SELECT `l`.`_sid`, `l`.`_pos`, `l`.`ts`, COALESCE(`l`.`speed` > CAST('3.0' AS DOUBLE), FALSE) AS `_true` FROM IDENTIFIER(:r2) AS `l`) AS `_rows`) AS `_numbered`) AS `_runs` WHERE `_true` AND unix_micros(`ts`) - unix_micros(`_since`) >= 5000000)) AND (`l`.`_pos` % CAST(3 AS BIGINT) = CAST(0 AS BIGINT)) GROUP BY `l`.`_pos`

SELECT AVG(x.ppm) FROM (SELECT RESAMPLE(s.ppm, 1 SECOND) AS ppm FROM loops l, sensors s) x;
--| Spark SQL: RESAMPLE inside of another question runs as Spark SQL
--|   r0: readings of "loops"
--|     window: everything that is kept
--|   r1: readings of "sensors"
--|     window: everything that is kept
--|   output: avg DOUBLE
--|   text: SELECT AVG(`x`.`ppm`) AS `avg` FROM (SELECT max_by(`s`.`ppm`, struct(`s`.`ts`, `s`.`_pos`)) FILTER(WHERE NOT `s`.`ppm` IS NULL AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -1000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 0) AS `ppm` FROM IDENTIFIER(:r0) AS `l` LEFT JOIN IDENTIFIER(:r1) AS `s` ON ((unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) >= -1000000 AND (unix_micros(`s`.`ts`) - unix_micros(`l`.`ts`)) <= 1000000) GROUP BY `l`.`_pos`) AS `x`(`ppm`)

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

SELECT RESAMPLE(s.ppm, 1000000000 DAYS) FROM loops l, sensors s;
--| ERROR 22007 invalid_duration: "1000000000 DAYS" is not a duration
--|   1 | SELECT RESAMPLE(s.ppm, 1000000000 DAYS) FROM loops l, sensors s;
--|     |                        ^^^^^^^^^^
--| hint: it is longer than any time that can be told

SELECT RESAMPLE(s.ppm, 20000000 DAYS 20000000 DAYS) FROM loops l, sensors s;
--| ERROR 42601 syntax_error: this duration is too long
--|   1 | SELECT RESAMPLE(s.ppm, 20000000 DAYS 20000000 DAYS) FROM loops l, sensors s;
--|     |                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^
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

-- The same at the answers of another query, which are read through.
CREATE QUERY quick AS SELECT loop_id, speed FROM loops WHERE speed > 3 BEGIN (NOW - 1 MINUTE) END (NOW);
--| shared pass over the stream of "loops"
--|   window: BEGIN (NOW - 1m) END (NOW)
--|   initial scan: every sensor
--|   stream predicate: speed > 3.0
--|   output: loop_id INT, speed DOUBLE

SELECT q.ts, s.ppm + RESAMPLE(s.ppm, 5 SECONDS) AS p FROM quick q, sensors s;
--| ERROR 0A000 not_supported: s.ppm outside of RESAMPLE is not supported
--|   1 | SELECT q.ts, s.ppm + RESAMPLE(s.ppm, 5 SECONDS) AS p FROM quick q, sensors s;
--|     |              ^^^^^
--| hint: at the times of q it is RESAMPLE(s.ppm, 30 SECONDS)

DROP QUERY quick;
--| Drop
--|   kind: query
--|   names: (quick)

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
