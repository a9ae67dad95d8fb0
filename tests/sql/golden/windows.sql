-- stages
CREATE QUERY q AS SELECT ppm FROM sensors BEGIN ('2026-01-01') END ('2026-01-02T03:04:05.5Z');
--| statement
--|   CreateQuery
--|     name: q
--|     select: Select
--|       query: SELECT ppm FROM sensors BEGIN ('2026-01-01T00:00:00.000000Z') END ('2026-01-02T03:04:05.500000Z')
--|       sql: SELECT ppm FROM sensors BEGIN ('2026-01-01') END ('2026-01-02T03:04:05.5Z')
--| bound
--|   columns: ppm DOUBLE
--|   tree: SELECT "sensors"."ppm" AS "ppm" FROM sensors BEGIN ('2026-01-01T00:00:00.000000Z') END ('2026-01-02T03:04:05.500000Z')
--| plan
--|   shared pass over the stream of "sensors"
--|     window: BEGIN (2026-01-01T00:00:00.000000Z) END (2026-01-02T03:04:05.500000Z)
--|     initial scan: every sensor
--|     stream predicate: none
--|     output: ppm DOUBLE

CREATE QUERY q AS SELECT ppm FROM sensors BEGIN (START - 1 HOUR) END (NOW);
--| shared pass over the stream of "sensors"
--|   window: BEGIN (START - 1h) END (NOW)
--|   initial scan: every sensor
--|   stream predicate: none
--|   output: ppm DOUBLE

CREATE QUERY q AS SELECT ppm FROM sensors BEGIN (NOW - '1h30m') END (NOW - 500 MS);
--| shared pass over the stream of "sensors"
--|   window: BEGIN (NOW - 1h30m) END (NOW - 500ms)
--|   initial scan: every sensor
--|   stream predicate: none
--|   output: ppm DOUBLE

CREATE QUERY q AS SELECT ppm FROM sensors BEGIN NOW - INTERVAL '90' SECOND END NOW;
--| shared pass over the stream of "sensors"
--|   window: BEGIN (NOW - 1m30s) END (NOW)
--|   initial scan: every sensor
--|   stream predicate: none
--|   output: ppm DOUBLE

CREATE QUERY q AS SELECT ppm FROM sensors BEGIN (START) END ('2030-01-01');
--| shared pass over the stream of "sensors"
--|   window: BEGIN (START) END (2030-01-01T00:00:00.000000Z)
--|   initial scan: every sensor
--|   stream predicate: none
--|   output: ppm DOUBLE

CREATE QUERY q AS SELECT ppm FROM sensors BEGIN (LAST 1000 ROWS);
--| shared pass over the stream of "sensors"
--|   window: BEGIN (LAST 1000 ROWS)
--|   initial scan: every sensor
--|   stream predicate: none
--|   output: ppm DOUBLE

CREATE QUERY q AS SELECT ppm FROM sensors;
--| shared pass over the stream of "sensors"
--|   window: BEGIN (START) END (NOW)
--|   initial scan: every sensor
--|   stream predicate: none
--|   output: ppm DOUBLE

SELECT ppm FROM sensors;
--| shared pass over the stream of "sensors"
--|   window: everything that is kept
--|   initial scan: every sensor
--|   stream predicate: none
--|   output: ppm DOUBLE

SELECT a.ppm, b.speed FROM sensors a, loops b WHERE a.ppm > b.speed BEGIN (NOW - 1 HOUR) END (NOW) BEGIN (LAST 5 ROWS) FOR b;
--| Spark SQL: a join runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: BEGIN (NOW - 1h) END (NOW)
--|   r1: readings of "loops"
--|     window: BEGIN (LAST 5 ROWS)
--|   output: ppm DOUBLE, speed DOUBLE
--|   text: SELECT `a`.`ppm` AS `ppm`, `b`.`speed` AS `speed` FROM IDENTIFIER(:r0) AS `a`, (SELECT * FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY `b`.`ts` DESC, `b`.`_pos` DESC) AS `_rank` FROM IDENTIFIER(:r1) AS `b`) AS `_ranked` WHERE `_rank` <= 5) AS `b` WHERE `a`.`ppm` > `b`.`speed`

-- a subquery inherits the window unless it has its own
SELECT ppm FROM sensors WHERE ppm > (SELECT AVG(ppm) FROM sensors) AND ppm > (SELECT AVG(speed) FROM loops BEGIN (NOW - 1 DAY)) BEGIN (NOW - 1 HOUR);
--| Spark SQL: a subquery runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: BEGIN (NOW - 1h) END (NOW)
--|   r1: readings of "sensors"
--|     window: BEGIN (NOW - 1h) END (NOW)
--|   r2: readings of "loops"
--|     window: BEGIN (NOW - 1d) END (NOW)
--|   output: ppm DOUBLE
--|   text: SELECT `sensors`.`ppm` AS `ppm` FROM IDENTIFIER(:r0) AS `sensors` WHERE `sensors`.`ppm` > (SELECT AVG(`sensors`.`ppm`) AS `avg` FROM IDENTIFIER(:r1) AS `sensors`) AND `sensors`.`ppm` > (SELECT AVG(`loops`.`speed`) AS `avg` FROM IDENTIFIER(:r2) AS `loops`)

SELECT ppm FROM sensors BEGIN (NOW - 1 HOUR) END (NOW - 2 HOURS);
--| ERROR 42P20 invalid_window: END (NOW - 2h) lies before BEGIN (NOW - 1h)
--|   1 | SELECT ppm FROM sensors BEGIN (NOW - 1 HOUR) END (NOW - 2 HOURS);
--|     |                                                  ^^^^^^^^^^^^^^^

SELECT ppm FROM sensors BEGIN (NOW - 1 HOUR) END (NOW + 1 HOUR);
--| ERROR 42P20 invalid_window: END (NOW + 1h) lies past NOW; nothing is known there
--|   1 | SELECT ppm FROM sensors BEGIN (NOW - 1 HOUR) END (NOW + 1 HOUR);
--|     |                                                  ^^^^^^^^^^^^^^
--| hint: write END (NOW) or a constant

SELECT ppm FROM sensors BEGIN (NOW + 1 HOUR);
--| ERROR 42P20 invalid_window: BEGIN (NOW + 1h) lies in the future for ever
--|   1 | SELECT ppm FROM sensors BEGIN (NOW + 1 HOUR);
--|     |                               ^^^^^^^^^^^^^^
--| hint: write NOW - d

SELECT ppm FROM sensors BEGIN (NOW - 1 HOUR) END ('2026-01-01');
--| ERROR 42P20 invalid_window: BEGIN (NOW - 1h) moves and would pass END (2026-01-01T00:00:00.000000Z)
--|   1 | SELECT ppm FROM sensors BEGIN (NOW - 1 HOUR) END ('2026-01-01');
--|     |                                                  ^^^^^^^^^^^^^^
--| hint: a sliding window ends at NOW or NOW - e

SELECT ppm FROM sensors BEGIN ('2026-01-02') END ('2026-01-01');
--| ERROR 42P20 invalid_window: END (2026-01-01T00:00:00.000000Z) lies before BEGIN (2026-01-02T00:00:00.000000Z)
--|   1 | SELECT ppm FROM sensors BEGIN ('2026-01-02') END ('2026-01-01');
--|     |                                                  ^^^^^^^^^^^^^^

SELECT ppm FROM sensors BEGIN (START);
--| ERROR 42P20 invalid_window: START means nothing in a one-shot SELECT
--|   1 | SELECT ppm FROM sensors BEGIN (START);
--|     |                               ^^^^^^^
--| hint: START is when a standing query was registered; use CREATE QUERY, or NOW - d

SELECT ppm FROM sensors BEGIN ('yesterday');
--| ERROR 42P20 invalid_window: "yesterday" is not a time
--|   1 | SELECT ppm FROM sensors BEGIN ('yesterday');
--|     |                                ^^^^^^^^^^^
--| hint: write a time such as '2026-01-31 12:00:00', or NOW - 10 MINUTES

SELECT ppm FROM sensors BEGIN (NOW - 10 MINUTS);
--| ERROR 22007 invalid_duration: "10 MINUTS" is not a duration
--|   1 | SELECT ppm FROM sensors BEGIN (NOW - 10 MINUTS);
--|     |                                         ^^^^^^
--| hint: did you mean "minutes"?

SELECT ppm FROM sensors BEGIN (NOW - 10);
--| ERROR 22007 invalid_duration: "10" is not a duration
--|   1 | SELECT ppm FROM sensors BEGIN (NOW - 10);
--|     |                                      ^^
--| hint: write 10 SECONDS, 500 MS or '1h30m'

SELECT ppm FROM sensors BEGIN (LAST 0 ROWS);
--| ERROR 42P20 invalid_window: LAST needs at least one row
--|   1 | SELECT ppm FROM sensors BEGIN (LAST 0 ROWS);
--|     |                         ^^^^^^^^^^^^^^^^^^^

SELECT ppm FROM sensors BEGIN (NOW - 1 HOUR) FOR x;
--| ERROR 42P01 table_not_found: there is no "x" in FROM that could have a window of its own
--|   1 | SELECT ppm FROM sensors BEGIN (NOW - 1 HOUR) FOR x;
--|     |                                                  ^
--| hint: FROM has "sensors"

SELECT ppm FROM sensors BEGIN (NOW - 1 HOUR) BEGIN (NOW - 2 HOURS);
--| ERROR 42P20 invalid_window: there are two windows for the same streams
--|   1 | SELECT ppm FROM sensors BEGIN (NOW - 1 HOUR) BEGIN (NOW - 2 HOURS);
--|     |                                              ^^^^^^^^^^^^^^^^^^^^^
--| hint: write FOR and a stream's name after one of them

SELECT ppm FROM sensors BEGIN (NOW - 1000000000 DAYS) END (NOW);
--| ERROR 22007 invalid_duration: "1000000000 DAYS" is not a duration
--|   1 | SELECT ppm FROM sensors BEGIN (NOW - 1000000000 DAYS) END (NOW);
--|     |                                      ^^^^^^^^^^
--| hint: it is longer than any time that can be told

SELECT AVG(ppm, 1000000000 DAYS) FROM sensors;
--| ERROR 22007 invalid_duration: "1000000000 DAYS" is not a duration
--|   1 | SELECT AVG(ppm, 1000000000 DAYS) FROM sensors;
--|     |                 ^^^^^^^^^^
--| hint: it is longer than any time that can be told

SELECT COUNT(*) FROM sensors GROUP BY TUMBLE('100000000000w');
--| ERROR 22007 invalid_duration: "100000000000w" is not a duration
--|   1 | SELECT COUNT(*) FROM sensors GROUP BY TUMBLE('100000000000w');
--|     |                                              ^^^^^^^^^^^^^^^
--| hint: it is longer than any time that can be told
