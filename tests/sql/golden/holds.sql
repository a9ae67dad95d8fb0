SELECT location, ppm FROM sensors WHERE ppm > 35 FOR 30 SECONDS;
--| shared pass over the stream of "sensors"
--|   window: everything that is kept
--|   initial scan: every sensor
--|   stream predicate: ppm > 35.0
--|   true without a break, per sensor, for 30s: looked for when asked
--|   output: location TEXT, ppm DOUBLE

CREATE QUERY held AS
SELECT location FROM sensors s WHERE location LIKE 'north%' AND (ppm > 35 OR gas_id = 2) FOR '1m30s' BEGIN (NOW - 10 MINUTES) END (NOW);
--| shared pass over the stream of "sensors"
--|   window: BEGIN (NOW - 10m) END (NOW)
--|   initial scan: location LIKE 'north%'
--|   stream predicate: (ppm > 35.0) OR (gas_id = 2)
--|   true without a break, per sensor, for 1m30s: looked for when asked
--|   output: location TEXT

SELECT a.location FROM sensors a, sensors b WINDOW = 5 SECONDS
WHERE a.gas_id = b.gas_id AND (a.ppm > 35 FOR INTERVAL '30' SECOND) AND a.sensor_id < b.sensor_id;
--| Spark SQL: a join runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|   r1: readings of "sensors"
--|     window: everything that is kept
--|   r2: readings of "sensors"
--|   output: location TEXT
--|   text: SELECT `a`.`location` AS `location` FROM IDENTIFIER(:r0) AS `a`, IDENTIFIER(:r1) AS `b` WHERE `a`.`gas_id` = `b`.`gas_id` AND (`a`.`_pos` IN (SELECT `_pos` FROM (SELECT *, MIN(CASE WHEN `_true` THEN `ts` END) OVER (PARTITION BY `_sid`, `_run`) AS `_since` FROM (SELECT *, SUM(CASE WHEN `_true` THEN 0 ELSE 1 END) OVER (PARTITION BY `_sid` ORDER BY `ts` NULLS LAST, `_pos` NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `_run` FROM (SELECT `a`.`_sid`, `a`.`_pos`, `a`.`ts`, COALESCE(`a`.`ppm` > CAST('35.0' AS DOUBLE), FALSE) AS `_true` FROM IDENTIFIER(:r2) AS `a`) AS `_rows`) AS `_numbered`) AS `_runs` WHERE `_true` AND unix_micros(`ts`) - unix_micros(`_since`) >= 30000000)) AND `a`.`sensor_id` < `b`.`sensor_id` AND (unix_micros(`b`.`ts`) - unix_micros(`a`.`ts`)) >= CAST((-5000000) AS BIGINT) AND (unix_micros(`b`.`ts`) - unix_micros(`a`.`ts`)) <= CAST(5000000 AS BIGINT)

SELECT COUNT(*) FROM loops WHERE NOT (speed > 3 FOR 1 MINUTE) BEGIN (LAST 10 ROWS PER SENSOR);
--| Spark SQL: an aggregate runs as Spark SQL
--|   r0: readings of "loops"
--|     window: BEGIN (LAST 10 ROWS PER SENSOR)
--|   r1: readings of "loops"
--|   output: count BIGINT
--|   text: SELECT COUNT(*) AS `count` FROM (SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY `loops`.`_sid` ORDER BY `loops`.`ts` DESC, `loops`.`_pos` DESC) AS `_rank` FROM IDENTIFIER(:r0) AS `loops`) AS `_ranked` WHERE `_rank` <= 10) AS `loops` WHERE NOT (`loops`.`_pos` IN (SELECT `_pos` FROM (SELECT *, MIN(CASE WHEN `_true` THEN `ts` END) OVER (PARTITION BY `_sid`, `_run`) AS `_since` FROM (SELECT *, SUM(CASE WHEN `_true` THEN 0 ELSE 1 END) OVER (PARTITION BY `_sid` ORDER BY `ts` NULLS LAST, `_pos` NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `_run` FROM (SELECT `loops`.`_sid`, `loops`.`_pos`, `loops`.`ts`, COALESCE(`loops`.`speed` > CAST('3.0' AS DOUBLE), FALSE) AS `_true` FROM IDENTIFIER(:r1) AS `loops`) AS `_rows`) AS `_numbered`) AS `_runs` WHERE `_true` AND unix_micros(`ts`) - unix_micros(`_since`) >= 60000000))

SELECT substring(location FROM 1 FOR 3) FROM sensors;
--| Spark SQL: only static columns are asked for, so no sensor is opened and it runs as Spark SQL
--|   r0: static rows of "sensors"
--|   output: substring TEXT
--|   text: SELECT SUBSTRING(`sensors`.`location`, 1, 3) AS `substring` FROM IDENTIFIER(:r0) AS `sensors`

SELECT ppm > 35 FOR 30 SECONDS FROM sensors;
--| ERROR 0A000 not_supported: FOR outside of WHERE is not supported
--|   1 | SELECT ppm > 35 FOR 30 SECONDS FROM sensors;
--|     |        ^^^^^^^^^^^^^^^^^^^^^^^
--| hint: WHERE ppm > 35 FOR 30 SECONDS, or AND (a.ppm > 35 FOR 30 SECONDS) among others

SELECT a.ppm FROM sensors a, sensors b WINDOW = 5 SECONDS WHERE a.ppm > b.ppm FOR 30 SECONDS;
--| ERROR 42P20 invalid_window: FOR wants a condition on the readings of one stream
--|   1 | SELECT a.ppm FROM sensors a, sensors b WINDOW = 5 SECONDS WHERE a.ppm > b.ppm FOR 30 SECONDS;
--|     |                                                                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: readings of one sensor are looked at in their order; write WHERE ppm > 35 FOR 30 SECONDS, or AND (a.ppm > 35 FOR 30 SECONDS) among others

SELECT ppm FROM sensors WHERE sensor_id = 3 FOR 30 SECONDS;
--| ERROR 42P20 invalid_window: FOR wants a condition on readings
--|   1 | SELECT ppm FROM sensors WHERE sensor_id = 3 FOR 30 SECONDS;
--|     |                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: name a field of the stream: static columns change with the row, not with readings

SELECT ppm FROM sensors WHERE ppm > (SELECT MAX(speed) FROM loops) FOR 30 SECONDS;
--| ERROR 0A000 not_supported: a subquery in a condition that has to hold is not supported
--|   1 | SELECT ppm FROM sensors WHERE ppm > (SELECT MAX(speed) FROM loops) FOR 30 SECONDS;
--|     |                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

SELECT ppm FROM sensors WHERE (ppm > 3 FOR 5 SECONDS) FOR 30 SECONDS;
--| ERROR 0A000 not_supported: FOR inside FOR is not supported
--|   1 | SELECT ppm FROM sensors WHERE (ppm > 3 FOR 5 SECONDS) FOR 30 SECONDS;
--|     |                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

SELECT ppm FROM sensors WHERE ppm FOR 30 SECONDS;
--| ERROR 42804 type_mismatch: FOR needs a condition, this is DOUBLE
--|   1 | SELECT ppm FROM sensors WHERE ppm FOR 30 SECONDS;
--|     |                               ^^^

SELECT ppm FROM sensors WHERE ppm > 3 FOR 0 SECONDS;
--| ERROR 22007 invalid_duration: "0 SECONDS" is not a duration
--|   1 | SELECT ppm FROM sensors WHERE ppm > 3 FOR 0 SECONDS;
--|     |                               ^^^^^^^^^^^^^^^^^^^^^
--| hint: a condition holds for some time

SELECT ppm FROM sensors WHERE ppm > 3 FOR 30;
--| ERROR 22007 invalid_duration: "30" is not a duration
--|   1 | SELECT ppm FROM sensors WHERE ppm > 3 FOR 30;
--|     |                                           ^^
--| hint: write 10 SECONDS, 500 MS or '1h30m'

SELECT segment FROM my_segments WHERE segment > 3 FOR 30 SECONDS;
--| ERROR 42P20 invalid_window: FOR wants a condition on the readings of one stream
--|   1 | SELECT segment FROM my_segments WHERE segment > 3 FOR 30 SECONDS;
--|     |                                       ^^^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: readings of one sensor are looked at in their order; write WHERE ppm > 35 FOR 30 SECONDS, or AND (a.ppm > 35 FOR 30 SECONDS) among others

SELECT ppm FROM sensors WHERE ppm > 3 FOR 30 SECNDS;
--| ERROR 22007 invalid_duration: "30 SECNDS" is not a duration
--|   1 | SELECT ppm FROM sensors WHERE ppm > 3 FOR 30 SECNDS;
--|     |                                              ^^^^^^
--| hint: did you mean "seconds"?

SELECT ppm FROM sensors WHERE (ppm > 3 FOR 30 lightyears) AND gas_id = 2;
--| ERROR 22007 invalid_duration: "30 lightyears" is not a duration
--|   1 | SELECT ppm FROM sensors WHERE (ppm > 3 FOR 30 lightyears) AND gas_id = 2;
--|     |                                               ^^^^^^^^^^
--| hint: write 10 SECONDS, 500 MS or '1h30m'

CREATE QUERY beside AS
SELECT location FROM sensors WHERE gas_id = 2 AND (ppm > 35 FOR 1 MINUTE);
--| shared pass over the stream of "sensors"
--|   window: BEGIN (START) END (NOW)
--|   initial scan: every sensor
--|   stream predicate: ppm > 35.0
--|   true without a break, per sensor, for 1m: looked for when asked
--|   of those: gas_id = 2
--|   output: location TEXT

CREATE QUERY either AS
SELECT location FROM sensors WHERE gas_id = 2 OR (ppm > 35 FOR 1 MINUTE);
--| Spark SQL: a condition that has to hold FOR some time, inside another one, runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: BEGIN (START) END (NOW)
--|   r1: readings of "sensors"
--|   output: location TEXT
--|   text: SELECT `sensors`.`location` AS `location` FROM IDENTIFIER(:r0) AS `sensors` WHERE `sensors`.`gas_id` = 2 OR (`sensors`.`_pos` IN (SELECT `_pos` FROM (SELECT *, MIN(CASE WHEN `_true` THEN `ts` END) OVER (PARTITION BY `_sid`, `_run`) AS `_since` FROM (SELECT *, SUM(CASE WHEN `_true` THEN 0 ELSE 1 END) OVER (PARTITION BY `_sid` ORDER BY `ts` NULLS LAST, `_pos` NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `_run` FROM (SELECT `sensors`.`_sid`, `sensors`.`_pos`, `sensors`.`ts`, COALESCE(`sensors`.`ppm` > CAST('35.0' AS DOUBLE), FALSE) AS `_true` FROM IDENTIFIER(:r1) AS `sensors`) AS `_rows`) AS `_numbered`) AS `_runs` WHERE `_true` AND unix_micros(`ts`) - unix_micros(`_since`) >= 60000000))

CREATE QUERY both AS
SELECT location FROM sensors WHERE (gas_id = 2 FOR 30 SECONDS) AND (ppm > 35 FOR 1 MINUTE);
--| Spark SQL: more than one condition that has to hold FOR some time runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: BEGIN (START) END (NOW)
--|   r1: readings of "sensors"
--|   r2: readings of "sensors"
--|   output: location TEXT
--|   text: SELECT `sensors`.`location` AS `location` FROM IDENTIFIER(:r0) AS `sensors` WHERE (`sensors`.`_pos` IN (SELECT `_pos` FROM (SELECT *, MIN(CASE WHEN `_true` THEN `ts` END) OVER (PARTITION BY `_sid`, `_run`) AS `_since` FROM (SELECT *, SUM(CASE WHEN `_true` THEN 0 ELSE 1 END) OVER (PARTITION BY `_sid` ORDER BY `ts` NULLS LAST, `_pos` NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `_run` FROM (SELECT `sensors`.`_sid`, `sensors`.`_pos`, `sensors`.`ts`, COALESCE(`sensors`.`gas_id` = 2, FALSE) AS `_true` FROM IDENTIFIER(:r1) AS `sensors`) AS `_rows`) AS `_numbered`) AS `_runs` WHERE `_true` AND unix_micros(`ts`) - unix_micros(`_since`) >= 30000000)) AND (`sensors`.`_pos` IN (SELECT `_pos` FROM (SELECT *, MIN(CASE WHEN `_true` THEN `ts` END) OVER (PARTITION BY `_sid`, `_run`) AS `_since` FROM (SELECT *, SUM(CASE WHEN `_true` THEN 0 ELSE 1 END) OVER (PARTITION BY `_sid` ORDER BY `ts` NULLS LAST, `_pos` NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `_run` FROM (SELECT `sensors`.`_sid`, `sensors`.`_pos`, `sensors`.`ts`, COALESCE(`sensors`.`ppm` > CAST('35.0' AS DOUBLE), FALSE) AS `_true` FROM IDENTIFIER(:r2) AS `sensors`) AS `_rows`) AS `_numbered`) AS `_runs` WHERE `_true` AND unix_micros(`ts`) - unix_micros(`_since`) >= 60000000))
