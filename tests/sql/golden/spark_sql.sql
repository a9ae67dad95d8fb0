-- static columns alone open no sensor
SELECT sensor_id, location FROM sensors WHERE location = 'north';
--| Spark SQL: only static columns are asked for, so no sensor is opened and it runs as Spark SQL
--|   r0: static rows of "sensors"
--|     initial scan: location = 'north'
--|   output: sensor_id INT, location TEXT
--|   text: SELECT `sensors`.`sensor_id` AS `sensor_id`, `sensors`.`location` AS `location` FROM IDENTIFIER(:r0) AS `sensors` WHERE `sensors`.`location` = 'north'

SELECT location, AVG(ppm) AS mean, COUNT(*) FROM sensors WHERE sensor_id < 10 GROUP BY location HAVING COUNT(*) > 3 ORDER BY mean DESC LIMIT 5;
--| Spark SQL: GROUP BY runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|     initial scan: sensor_id < 10
--|   output: location TEXT, mean DOUBLE, count BIGINT
--|   text: SELECT `sensors`.`location` AS `location`, AVG(`sensors`.`ppm`) AS `mean`, COUNT(*) AS `count` FROM IDENTIFIER(:r0) AS `sensors` WHERE `sensors`.`sensor_id` < 10 GROUP BY `sensors`.`location` HAVING COUNT(*) > CAST(3 AS BIGINT) ORDER BY `mean` DESC NULLS FIRST LIMIT 5

SELECT window_start, window_end, SUM(length) FROM loops GROUP BY TUMBLE(1 MINUTE) HAVING SUM(length) > 1e9;
--| Spark SQL: GROUP BY runs as Spark SQL
--|   r0: readings of "loops"
--|     window: everything that is kept
--|   output: window_start TIMESTAMP, window_end TIMESTAMP, sum BIGINT
--|   text: SELECT timestamp_micros(unix_micros(`loops`.`ts`) - pmod(unix_micros(`loops`.`ts`), CAST(60000000 AS BIGINT))) AS `window_start`, timestamp_micros(unix_micros(timestamp_micros(unix_micros(`loops`.`ts`) - pmod(unix_micros(`loops`.`ts`), CAST(60000000 AS BIGINT)))) + CAST(60000000 AS BIGINT)) AS `window_end`, SUM(`loops`.`length`) AS `sum` FROM IDENTIFIER(:r0) AS `loops` GROUP BY timestamp_micros(unix_micros(`loops`.`ts`) - pmod(unix_micros(`loops`.`ts`), CAST(60000000 AS BIGINT))) HAVING CAST(SUM(`loops`.`length`) AS DOUBLE) > CAST('1000000000.0' AS DOUBLE)

SELECT COUNT(*) FROM loops WHERE speed >= 0.9 * (SELECT MAX(speed) FROM loops) BEGIN (NOW - 14 DAYS) END (NOW);
--| Spark SQL: a subquery runs as Spark SQL
--|   r0: readings of "loops"
--|     window: BEGIN (NOW - 14d) END (NOW)
--|   r1: readings of "loops"
--|     window: BEGIN (NOW - 14d) END (NOW)
--|   output: count BIGINT
--|   text: SELECT COUNT(*) AS `count` FROM IDENTIFIER(:r0) AS `loops` WHERE `loops`.`speed` >= CAST('0.9' AS DOUBLE) * (SELECT MAX(`loops`.`speed`) AS `max` FROM IDENTIFIER(:r1) AS `loops`)

-- the latest reading of each sensor
SELECT DISTINCT ON (sensor_id) sensor_id, ppm, ts FROM sensors ORDER BY sensor_id, ts DESC;
--| Spark SQL: DISTINCT runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|   output: sensor_id INT, ppm DOUBLE, ts TIMESTAMP
--|   text: SELECT `sensor_id`, `ppm`, `ts` FROM (SELECT `sensors`.`sensor_id` AS `sensor_id`, `sensors`.`ppm` AS `ppm`, `sensors`.`ts` AS `ts`, `sensors`.`sensor_id` AS `_order0`, `sensors`.`ts` AS `_order1`, ROW_NUMBER() OVER (PARTITION BY `sensors`.`sensor_id` ORDER BY `sensors`.`sensor_id` ASC NULLS LAST, `sensors`.`ts` DESC NULLS FIRST) AS `_rank` FROM IDENTIFIER(:r0) AS `sensors`) AS `_ranked` WHERE `_rank` = 1 ORDER BY `_order0` ASC NULLS LAST, `_order1` DESC NULLS FIRST

-- a common table expression is written out where it is used
WITH hot AS (SELECT location, ppm FROM sensors WHERE ppm > 30) SELECT a.ppm FROM hot a JOIN hot b ON a.location = b.location;
--| Spark SQL: a subquery runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|   r1: readings of "sensors"
--|     window: everything that is kept
--|   output: ppm DOUBLE
--|   text: SELECT `a`.`ppm` AS `ppm` FROM (SELECT `sensors`.`location` AS `location`, `sensors`.`ppm` AS `ppm` FROM IDENTIFIER(:r0) AS `sensors` WHERE `sensors`.`ppm` > CAST('30.0' AS DOUBLE)) AS `a`(`location`, `ppm`) JOIN (SELECT `sensors`.`location` AS `location`, `sensors`.`ppm` AS `ppm` FROM IDENTIFIER(:r1) AS `sensors` WHERE `sensors`.`ppm` > CAST('30.0' AS DOUBLE)) AS `b`(`location`, `ppm`) ON `a`.`location` = `b`.`location`

SELECT ppm FROM sensors UNION ALL SELECT length FROM loops ORDER BY ppm;
--| Spark SQL: UNION runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|   r1: readings of "loops"
--|     window: everything that is kept
--|   output: ppm DOUBLE
--|   text: SELECT `sensors`.`ppm` AS `ppm` FROM IDENTIFIER(:r0) AS `sensors` UNION ALL SELECT CAST(`loops`.`length` AS DOUBLE) AS `length` FROM IDENTIFIER(:r1) AS `loops` ORDER BY `ppm` ASC NULLS LAST

SELECT ROW_NUMBER() OVER (PARTITION BY sensor_id ORDER BY ts DESC) AS n, ppm FROM sensors;
--| Spark SQL: a window function runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|   output: n INT, ppm DOUBLE
--|   text: SELECT ROW_NUMBER() OVER (PARTITION BY `sensors`.`sensor_id` ORDER BY `sensors`.`ts` DESC NULLS FIRST) AS `n`, `sensors`.`ppm` AS `ppm` FROM IDENTIFIER(:r0) AS `sensors`

-- INT / INT truncates in Spark too
SELECT length / 2, length / 2.0, max(length) FROM loops GROUP BY length;
--| Spark SQL: GROUP BY runs as Spark SQL
--|   r0: readings of "loops"
--|     window: everything that is kept
--|   output: length / 2 INT, length / 2.0 DOUBLE, max INT
--|   text: SELECT CAST(`loops`.`length` DIV 2 AS INT) AS `length / 2`, CAST(`loops`.`length` AS DOUBLE) / CAST('2.0' AS DOUBLE) AS `length / 2.0`, MAX(`loops`.`length`) AS `max` FROM IDENTIFIER(:r0) AS `loops` GROUP BY `loops`.`length`

SELECT ppm FROM sensors WHERE ts > NOW() - 5 MINUTES ORDER BY ts;
--| Spark SQL: ORDER BY runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|   output: ppm DOUBLE
--|   text: SELECT `sensors`.`ppm` AS `ppm` FROM IDENTIFIER(:r0) AS `sensors` WHERE `sensors`.`ts` > timestamp_micros(unix_micros(timestamp_micros(:now)) - (CAST(300000000 AS BIGINT))) ORDER BY `sensors`.`ts` ASC NULLS LAST

SELECT '{braces}' AS b FROM my_segments WHERE owner = '{r0}';
--| Spark SQL: "my_segments" has no stream, so the question runs as Spark SQL
--|   r0: table "my_segments"
--|   output: b TEXT
--|   text: SELECT '{braces}' AS `b` FROM IDENTIFIER(:r0) AS `my_segments` WHERE `my_segments`.`owner` = '{r0}' AND `my_segments`.`_died` = CAST(4611686018427387904 AS BIGINT)

SELECT cycle FROM penstock.cycles WHERE ms > 100;
--| Spark SQL: "penstock.cycles" has no stream, so the question runs as Spark SQL
--|   r0: system table "penstock.cycles"
--|   output: cycle BIGINT
--|   text: SELECT `cycles`.`cycle` AS `cycle` FROM IDENTIFIER(:r0) AS `cycles` WHERE `cycles`.`ms` > CAST('100.0' AS DOUBLE)

-- the newest rows, after static and before stream predicates
SELECT ppm FROM sensors WHERE location = 'north' AND ppm > 3 ORDER BY ts BEGIN (LAST 10 ROWS PER SENSOR);
--| Spark SQL: ORDER BY runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: BEGIN (LAST 10 ROWS PER SENSOR)
--|     initial scan: location = 'north'
--|   output: ppm DOUBLE
--|   text: SELECT `sensors`.`ppm` AS `ppm` FROM (SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY `sensors`.`_sid` ORDER BY `sensors`.`ts` DESC, `sensors`.`_pos` DESC) AS `_rank` FROM IDENTIFIER(:r0) AS `sensors` WHERE `sensors`.`location` = 'north') AS `_ranked` WHERE `_rank` <= 10) AS `sensors` WHERE `sensors`.`location` = 'north' AND `sensors`.`ppm` > CAST('3.0' AS DOUBLE) ORDER BY `sensors`.`ts` ASC NULLS LAST

-- ordinary tables as they were at the last tuple of a combination
SELECT l.speed, m.owner FROM loops l JOIN my_segments m ON l.segment = m.segment;
--| Spark SQL: a join runs as Spark SQL
--|   r0: readings of "loops"
--|     window: everything that is kept
--|   r1: table "my_segments"
--|   output: speed DOUBLE, owner TEXT
--|   text: SELECT `l`.`speed` AS `speed`, `m`.`owner` AS `owner` FROM IDENTIFIER(:r0) AS `l` JOIN IDENTIFIER(:r1) AS `m` ON `l`.`segment` = `m`.`segment` WHERE `l`.`_journal` >= `m`.`_born` AND `l`.`_journal` < `m`.`_died`

SELECT l.speed, m.owner FROM loops l LEFT JOIN my_segments m USING (segment);
--| Spark SQL: a join runs as Spark SQL
--|   r0: readings of "loops"
--|     window: everything that is kept
--|   r1: table "my_segments"
--|   output: speed DOUBLE, owner TEXT
--|   text: SELECT `l`.`speed` AS `speed`, `m`.`owner` AS `owner` FROM IDENTIFIER(:r0) AS `l` LEFT JOIN IDENTIFIER(:r1) AS `m` ON `l`.`segment` = `m`.`segment` AND `l`.`_journal` >= `m`.`_born` AND `l`.`_journal` < `m`.`_died`

SELECT l.speed, s.ppm, m.owner FROM loops l, sensors s, my_segments m WHERE l.segment = m.segment AND s.ppm > l.speed;
--| Spark SQL: a join runs as Spark SQL
--|   r0: readings of "loops"
--|     window: everything that is kept
--|   r1: readings of "sensors"
--|     window: everything that is kept
--|   r2: table "my_segments"
--|   output: speed DOUBLE, ppm DOUBLE, owner TEXT
--|   text: SELECT `l`.`speed` AS `speed`, `s`.`ppm` AS `ppm`, `m`.`owner` AS `owner` FROM IDENTIFIER(:r0) AS `l`, IDENTIFIER(:r1) AS `s`, IDENTIFIER(:r2) AS `m` WHERE `l`.`segment` = `m`.`segment` AND `s`.`ppm` > `l`.`speed` AND GREATEST(`l`.`_journal`, `s`.`_journal`) >= `m`.`_born` AND GREATEST(`l`.`_journal`, `s`.`_journal`) < `m`.`_died`

SELECT speed FROM loops WHERE segment IN (SELECT segment FROM my_segments WHERE owner = 'me');
--| Spark SQL: a subquery runs as Spark SQL
--|   r0: readings of "loops"
--|     window: everything that is kept
--|   r1: table "my_segments"
--|   output: speed DOUBLE
--|   text: SELECT `loops`.`speed` AS `speed` FROM IDENTIFIER(:r0) AS `loops` WHERE `loops`.`segment` IN (SELECT `my_segments`.`segment` AS `segment` FROM IDENTIFIER(:r1) AS `my_segments` WHERE `my_segments`.`owner` = 'me' AND `loops`.`_journal` >= `my_segments`.`_born` AND `loops`.`_journal` < `my_segments`.`_died`)

SELECT owner FROM my_segments;
--| Spark SQL: "my_segments" has no stream, so the question runs as Spark SQL
--|   r0: table "my_segments"
--|   output: owner TEXT
--|   text: SELECT `my_segments`.`owner` AS `owner` FROM IDENTIFIER(:r0) AS `my_segments` WHERE `my_segments`.`_died` = CAST(4611686018427387904 AS BIGINT)

SELECT l.speed, (SELECT MAX(owner) FROM my_segments) FROM loops l;
--| ERROR 0A000 not_supported: a subquery as a value over a table beside a stream is not supported
--|   1 | SELECT l.speed, (SELECT MAX(owner) FROM my_segments) FROM loops l;
--|     |                                         ^^^^^^^^^^^
--| hint: name "my_segments" in the FROM of the SELECT that reads the stream, or test it with IN (SELECT ...)

SELECT m.owner, l.speed FROM my_segments m LEFT JOIN loops l ON l.segment = m.segment;
--| ERROR 0A000 not_supported: keeping rows of a table for which a stream has no reading is not supported
--|   1 | SELECT m.owner, l.speed FROM my_segments m LEFT JOIN loops l ON l.segment = m.segment;
--|     |                              ^^^^^^^^^^^^^
--| hint: name "my_segments" in the FROM of the SELECT that reads the stream, or test it with IN (SELECT ...)

SELECT x.owner, l.speed FROM loops l JOIN (SELECT * FROM my_segments) x ON x.segment = l.segment;
--| ERROR 0A000 not_supported: a subquery over a table beside a stream is not supported
--|   1 | SELECT x.owner, l.speed FROM loops l JOIN (SELECT * FROM my_segments) x ON x.segment = l.segment;
--|     |                                                          ^^^^^^^^^^^
--| hint: name "my_segments" in the FROM of the SELECT that reads the stream, or test it with IN (SELECT ...)

-- queries on queries
CREATE QUERY alarm AS SELECT location, ppm FROM sensors WHERE ppm > 35 BEGIN (NOW - 10 MINUTES);
--| shared pass over the stream of "sensors"
--|   window: BEGIN (NOW - 10m) END (NOW)
--|   initial scan: every sensor
--|   stream predicate: ppm > 35.0
--|   output: location TEXT, ppm DOUBLE

CREATE QUERY by_location AS SELECT location, AVG(ppm) AS mean FROM sensors GROUP BY location;
--| Spark SQL: GROUP BY runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: BEGIN (START) END (NOW)
--|   output: location TEXT, mean DOUBLE
--|   text: SELECT `sensors`.`location` AS `location`, AVG(`sensors`.`ppm`) AS `mean` FROM IDENTIFIER(:r0) AS `sensors` GROUP BY `sensors`.`location`

SELECT a.ppm, a.ts FROM alarm a WHERE a.ppm > 40 BEGIN (NOW - 1 HOUR);
--| Spark SQL: reading another query runs as Spark SQL
--|   r0: answers of query "alarm"
--|     window: BEGIN (NOW - 1h) END (NOW)
--|   output: ppm DOUBLE, ts TIMESTAMP
--|   text: SELECT `a`.`ppm` AS `ppm`, `a`.`ts` AS `ts` FROM IDENTIFIER(:r0) AS `a` WHERE `a`.`ppm` > CAST('40.0' AS DOUBLE)

CREATE QUERY high AS SELECT location FROM by_location WHERE mean > 3;
--| Spark SQL: reading another query runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: BEGIN (1970-01-01T00:00:00.000000Z) END (NOW)
--|   output: location TEXT
--|   written out: query "by_location"
--|   text: SELECT `by_location`.`location` AS `location` FROM (SELECT `sensors`.`location` AS `location`, AVG(`sensors`.`ppm`) AS `mean` FROM IDENTIFIER(:r0) AS `sensors` GROUP BY `sensors`.`location`) AS `by_location`(`location`, `mean`) WHERE `by_location`.`mean` > CAST('3.0' AS DOUBLE)

-- a subquery carries the journal position of its last tuple out to the table it is joined with
SELECT o.owner, x.mean FROM (SELECT segment, AVG(speed) AS mean FROM loops GROUP BY segment) x JOIN my_segments o ON o.segment = x.segment;
--| Spark SQL: a subquery runs as Spark SQL
--|   r0: table "my_segments"
--|   r1: readings of "loops"
--|     window: everything that is kept
--|   output: owner TEXT, mean DOUBLE
--|   text: SELECT `o`.`owner` AS `owner`, `x`.`mean` AS `mean` FROM (SELECT `loops`.`segment` AS `segment`, AVG(`loops`.`speed`) AS `mean`, COALESCE(MAX(`loops`.`_journal`), CAST(4611686018427387903 AS BIGINT)) AS `_journal` FROM IDENTIFIER(:r1) AS `loops` GROUP BY `loops`.`segment`) AS `x`(`segment`, `mean`, `_journal`) JOIN IDENTIFIER(:r0) AS `o` ON `o`.`segment` = `x`.`segment` WHERE `x`.`_journal` >= `o`.`_born` AND `x`.`_journal` < `o`.`_died`

SELECT o.owner FROM (SELECT DISTINCT segment FROM loops WHERE speed > 3) x JOIN my_segments o ON o.segment = x.segment;
--| ERROR 0A000 not_supported: joining a table with a DISTINCT over a stream is not supported
--|   1 | SELECT o.owner FROM (SELECT DISTINCT segment FROM loops WHERE speed > 3) x JOIN my_segments o ON o.segment = x.segment;
--|     |                                                                                 ^^^^^^^^^^^^^
--| hint: name "my_segments" in the FROM of the SELECT that reads the stream, or test it with IN (SELECT ...)
