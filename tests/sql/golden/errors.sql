SELEC ppm FROM sensors;
--| ERROR 42601 syntax_error: no statement begins with "SELEC"
--|   1 | SELEC ppm FROM sensors;
--|     | ^^^^^
--| hint: did you mean "SELECT"?

SELECT ppm FORM sensors;
--| ERROR 42601 syntax_error: unexpected "FORM"
--|   1 | SELECT ppm FORM sensors;
--|     |            ^^^^
--| hint: did you mean "FROM"?

SELECT ppm FROM sensors WHER ppm > 3;
--| ERROR 42601 syntax_error: unexpected "WHER"
--|   1 | SELECT ppm FROM sensors WHER ppm > 3;
--|     |                         ^^^^
--| hint: did you mean "WHERE"?

SELECT ppm FROM sensors WHERE ppm > 3 ORDR BY ppm;
--| ERROR 42601 syntax_error: unexpected "ORDR"
--|   1 | SELECT ppm FROM sensors WHERE ppm > 3 ORDR BY ppm;
--|     |                                       ^^^^
--| hint: did you mean "ORDER"?

SELECT ppm, FROM sensors;
--| ERROR 42601 syntax_error: something is missing before "FROM"
--|   1 | SELECT ppm, FROM sensors;
--|     |             ^^^^

SELECT ppm FROM sensors WHERE (ppm > 3;
--| ERROR 42601 syntax_error: the statement ends too early
--|   1 | SELECT ppm FROM sensors WHERE (ppm > 3;
--|     |                                       ^

SELECT ppm FROM sensors WHERE;
--| ERROR 42601 syntax_error: the statement ends too early
--|   1 | SELECT ppm FROM sensors WHERE;
--|     |                              ^

CREATE TABEL t (a INT);
--| ERROR 42601 syntax_error: expected STREAM TYPE, TABLE, QUERY, ROLLUP, SINK, FUNCTION, AGGREGATE, USER or TOKEN, found "TABEL"
--|   1 | CREATE TABEL t (a INT);
--|     |        ^^^^^
--| hint: did you mean "TABLE"?

SHOW TABELS;
--| ERROR 42601 syntax_error: there is nothing called "TABELS" to show
--|   1 | SHOW TABELS;
--|     |      ^^^^^^
--| hint: did you mean "tables"?

SELECT avg(b.reading.temprature)
  FROM sensors b;
--| ERROR 42703 column_not_found: table "sensors" has no column "temprature"
--|   1 | SELECT avg(b.reading.temprature)
--|     |                      ^^^^^^^^^^
--| hint: it has sensor_id, location, lat, lon, gas_id, gas_name, ppm, ts

SELECT ppn FROM sensors;
--| ERROR 42703 column_not_found: table "sensors" has no column "ppn"
--|   1 | SELECT ppn FROM sensors;
--|     |        ^^^
--| hint: did you mean "ppm"?

SELECT s.reading.ppn FROM sensors s;
--| ERROR 42703 column_not_found: table "sensors" has no column "ppn"
--|   1 | SELECT s.reading.ppn FROM sensors s;
--|     |                  ^^^
--| hint: did you mean "ppm"?

SELECT x.ppm FROM sensors s;
--| ERROR 42P01 table_not_found: there is no table "x"
--|   1 | SELECT x.ppm FROM sensors s;
--|     |        ^
--| hint: FROM has "s"

SELECT ppm FROM sensor;
--| ERROR 42P01 table_not_found: there is no table "sensor"
--|   1 | SELECT ppm FROM sensor;
--|     |                 ^^^^^^
--| hint: did you mean "sensors"?

SELECT reading FROM sensors;
--| ERROR 42703 column_not_found: table "sensors" has no column "reading"
--|   1 | SELECT reading FROM sensors;
--|     |        ^^^^^^^
--| hint: "reading" is the stream itself; name one of its fields, such as reading.gas_id

SELECT ppm FROM sensors a, loops b;
--| ERROR 42702 ambiguous_column: column "ppm" could be a.ppm or b.ppm
--|   1 | SELECT ppm FROM sensors a, loops b;
--|     |        ^^^
--| hint: write a.ppm

SELECT a.ppm FROM sensors a, sensors a;
--| ERROR 42601 syntax_error: FROM has two sources called "a"
--|   1 | SELECT a.ppm FROM sensors a, sensors a;
--|     |                              ^^^^^^^^^
--| hint: give each a name of its own: sensors a, sensors b

SELECT ts FROM sensors, loops;
--| ERROR 42702 ambiguous_column: column "ts" could be sensors.ts or loops.ts
--|   1 | SELECT ts FROM sensors, loops;
--|     |        ^^
--| hint: write sensors.ts

SELECT location > 3 FROM sensors;
--| ERROR 42804 type_mismatch: cannot compare TEXT with INT
--|   1 | SELECT location > 3 FROM sensors;
--|     |        ^^^^^^^^^^^^
--| hint: use CAST(... AS ...) if that is meant

SELECT ppm FROM sensors WHERE location = lat;
--| ERROR 42804 type_mismatch: cannot compare TEXT with DOUBLE
--|   1 | SELECT ppm FROM sensors WHERE location = lat;
--|     |                               ^^^^^^^^^^^^^^
--| hint: use CAST(... AS ...) if that is meant

SELECT ppm FROM sensors WHERE ppm;
--| ERROR 42804 type_mismatch: WHERE needs a condition, this is DOUBLE
--|   1 | SELECT ppm FROM sensors WHERE ppm;
--|     |                               ^^^

SELECT ppm FROM sensors WHERE ts > 'noon';
--| ERROR 42804 type_mismatch: "noon" is not a TIMESTAMP
--|   1 | SELECT ppm FROM sensors WHERE ts > 'noon';
--|     |                                    ^^^^^^
--| hint: write a time as '2026-01-31 12:00:00'

SELECT ppm FROM sensors WHERE ppm > 'abc';
--| ERROR 42804 type_mismatch: "abc" is not a DOUBLE
--|   1 | SELECT ppm FROM sensors WHERE ppm > 'abc';
--|     |                                     ^^^^^

SELECT ppm + location FROM sensors;
--| ERROR 42804 type_mismatch: cannot calculate DOUBLE with TEXT
--|   1 | SELECT ppm + location FROM sensors;
--|     |        ^^^^^^^^^^^^^^
--| hint: use CAST(... AS ...) if that is meant

SELECT ts + 5 FROM sensors;
--| ERROR 42804 type_mismatch: cannot calculate TIMESTAMP with INT
--|   1 | SELECT ts + 5 FROM sensors;
--|     |        ^^^^^^
--| hint: write a duration with its unit, such as 10 SECONDS

SELECT ts - ts > 5 FROM sensors;
--| ERROR 42804 type_mismatch: cannot compare an INTERVAL with INT
--|   1 | SELECT ts - ts > 5 FROM sensors;
--|     |        ^^^^^^^^^^^
--| hint: write a duration with its unit, such as 10 SECONDS

SELECT sum(location) FROM sensors;
--| ERROR 42804 type_mismatch: sum needs a number, this is TEXT
--|   1 | SELECT sum(location) FROM sensors;
--|     |            ^^^^^^^^

SELECT lower(ppm) FROM sensors;
--| ERROR 42804 type_mismatch: lower needs TEXT, this is DOUBLE
--|   1 | SELECT lower(ppm) FROM sensors;
--|     |              ^^^

SELECT similr(ppm, 3) FROM sensors;
--| ERROR 42883 function_not_found: there is no function "similr"
--|   1 | SELECT similr(ppm, 3) FROM sensors;
--|     |        ^^^^^^^^^^^^^^
--| hint: did you mean "similar"?

SELECT similar(ppm) FROM sensors;
--| ERROR 42804 type_mismatch: function "similar" takes 2 arguments, 1 given
--|   1 | SELECT similar(ppm) FROM sensors;
--|     |        ^^^^^^^^^^^^
--| hint: similar(a DOUBLE, b DOUBLE)

SELECT similar(location, 3) FROM sensors;
--| ERROR 42804 type_mismatch: "a" of similar is DOUBLE, this is TEXT
--|   1 | SELECT similar(location, 3) FROM sensors;
--|     |                ^^^^^^^^

SELECT location, ppm FROM sensors GROUP BY location;
--| ERROR 42803 grouping_error: sensors.ppm is neither grouped nor aggregated
--|   1 | SELECT location, ppm FROM sensors GROUP BY location;
--|     |                  ^^^
--| hint: add sensors.ppm to GROUP BY, or take MAX(sensors.ppm)

SELECT location, AVG(ppm) FROM sensors;
--| ERROR 42803 grouping_error: sensors.location is neither grouped nor aggregated
--|   1 | SELECT location, AVG(ppm) FROM sensors;
--|     |        ^^^^^^^^
--| hint: add sensors.location to GROUP BY, or take MAX(sensors.location)

SELECT ppm FROM sensors WHERE AVG(ppm) > 3;
--| ERROR 42803 grouping_error: WHERE comes before grouping
--|   1 | SELECT ppm FROM sensors WHERE AVG(ppm) > 3;
--|     |                               ^^^^^^^^
--| hint: put aggregates into HAVING

SELECT ppm FROM sensors ORDER BY 2;
--| ERROR 42601 syntax_error: position 2 is not in the SELECT list
--|   1 | SELECT ppm FROM sensors ORDER BY 2;
--|     |                                  ^

SELECT ppm FROM sensors WHERE sensor_id IN (SELECT loop_id, segment FROM loops);
--| ERROR 42804 type_mismatch: the subquery of IN has 2 columns instead of one
--|   1 | SELECT ppm FROM sensors WHERE sensor_id IN (SELECT loop_id, segment FROM loops);
--|     |                                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^

SELECT ppm FROM sensors UNION SELECT location FROM sensors;
--| ERROR 42804 type_mismatch: cannot combine column "ppm": DOUBLE with TEXT
--|   1 | SELECT ppm FROM sensors UNION SELECT location FROM sensors;
--|     |                                      ^^^^^^^^^^^^^^^^^^^^^
--| hint: use CAST(... AS ...) if that is meant

SELECT at.z FROM odd;
--| ERROR 42703 column_not_found: STRUCT<x: DOUBLE, y: DOUBLE> has no field "z"
--|   1 | SELECT at.z FROM odd;
--|     |           ^

SELECT CAST(ppm AS FLOT) FROM sensors;
--| ERROR 42804 type_mismatch: "FLOT" is not a type
--|   1 | SELECT CAST(ppm AS FLOT) FROM sensors;
--|     |                    ^^^^
--| hint: types are INT, BIGINT, DOUBLE, BOOLEAN, TEXT, TIMESTAMP, BINARY, DECIMAL, ARRAY<...>, STRUCT<...>

SELECT AVG(ppm, 5 MINUTES), COUNT(*) FROM sensors;
--| ERROR 0A000 not_supported: a window inside an aggregate, beside another window, in Spark SQL is not supported
--|   1 | SELECT AVG(ppm, 5 MINUTES), COUNT(*) FROM sensors;
--|     |            ^^^
--| hint: make it a standing query over one stream: CREATE QUERY name AS SELECT ...

SELECT APPROX_COUNT(ppm, 5) FROM sensors;
--| ERROR 42804 type_mismatch: the error of APPROX_COUNT is between 0.0001 and 0.5, and constant
--|   1 | SELECT APPROX_COUNT(ppm, 5) FROM sensors;
--|     |                          ^

SELECT location, COUNT(ppm) FROM sensors GROUP BY location, SLIDE(1 MINUTE) BEGIN (NOW - 1 HOUR) END (NOW);
--| ERROR 42P20 invalid_window: SLIDE without a step is the window itself, up to NOW; here is another one
--|   1 | SELECT location, COUNT(ppm) FROM sensors GROUP BY location, SLIDE(1 MINUTE) BEGIN (NOW - 1 HOUR) END (NOW);
--|     |                                                             ^^^^^^^^^^^^^^^
--| hint: leave out BEGIN .. END, or say how far windows are apart: SLIDE(1 MINUTE, 10 SECONDS)

SELECT location, COUNT(ppm) FROM sensors GROUP BY location, SLIDE(10 SECONDS, 1 MINUTE);
--| ERROR 42P20 invalid_window: a step is between 1/1000 of the window and all of it
--|   1 | SELECT location, COUNT(ppm) FROM sensors GROUP BY location, SLIDE(10 SECONDS, 1 MINUTE);
--|     |                                                             ^^^^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: write SLIDE(1 MINUTE, 10 SECONDS)

SELECT location, MAX(ppm) FROM sensors GROUP BY location, LATCH(1 MINUTE);
--| ERROR 42601 syntax_error: LATCH takes no duration: it has no end
--|   1 | SELECT location, MAX(ppm) FROM sensors GROUP BY location, LATCH(1 MINUTE);
--|     |                                                           ^^^^^^^^^^^^^^^
--| hint: write GROUP BY key, LATCH; where it begins is said with BEGIN

SELECT ppm FROM sensors WHERE ts > NOW() - INTERVAL '1 month';
--| ERROR 22007 invalid_duration: "INTERVAL '1 MONTH'" is not a duration
--|   1 | SELECT ppm FROM sensors WHERE ts > NOW() - INTERVAL '1 month';
--|     |                                            ^^^^^^^^^^^^^^^^^^
--| hint: durations have weeks, days, hours, minutes, seconds, MS and US; months and years differ in length

SELECT ppm FROM sensors NATURAL JOIN loops;
--| ERROR 0A000 not_supported: NATURAL JOIN is not supported
--|   1 | SELECT ppm FROM sensors NATURAL JOIN loops;
--|     |                                      ^^^^^
--| hint: say the columns with ON

SELECT ppm FROM sensors WHERE gas_name = 'é' AND ppn > 3;
--| ERROR 42703 column_not_found: table "sensors" has no column "ppn"
--|   1 | SELECT ppm FROM sensors WHERE gas_name = 'é' AND ppn > 3;
--|     |                                                  ^^^
--| hint: did you mean "ppm"?

SELECT ppm + 0.2.5 FROM sensors;
--| ERROR 42601 syntax_error: a field's name has to follow the dot
--|   1 | SELECT ppm + 0.2.5 FROM sensors;
--|     |              ^^^^^

SELECT abs(DISTINCT ppm) FROM sensors;
--| ERROR 42601 syntax_error: DISTINCT belongs into an aggregate
--|   1 | SELECT abs(DISTINCT ppm) FROM sensors;
--|     |                     ^^^

ALTER QUERY gas_alarm SET STRATEGY eager;
--| ERROR 22023 invalid_option: option "strategy": "eager" is not a strategy
--|   1 | ALTER QUERY gas_alarm SET STRATEGY eager;
--|     |                                    ^^^^^
--| hint: strategies are complete, partial, none, auto

ALTER QUERY gas_alarm SET STRATEGI complete;
--| ERROR 42601 syntax_error: expected BEGIN (..), END (..), STRATEGY or PRIORITY, found "STRATEGI"
--|   1 | ALTER QUERY gas_alarm SET STRATEGI complete;
--|     |                           ^^^^^^^^

COMMENT ON QUERY gas_alarm 'no IS';
--| ERROR 42601 syntax_error: expected IS, found "no IS"
--|   1 | COMMENT ON QUERY gas_alarm 'no IS';
--|     |                            ^^^^^^^

COMMENT ON TABLE sensors IS 'x';
--| ERROR 42601 syntax_error: expected QUERY, found "TABLE"
--|   1 | COMMENT ON TABLE sensors IS 'x';
--|     |            ^^^^^

SET on_error = skip;
--| ERROR 22023 invalid_option: option "on_error": "skip" is not none or rest
--|   1 | SET on_error = skip;
--|     |                ^^^^
--| hint: none or rest: what is registered when a query of many is refused

SET client_encoding = 'UTF8';
--| ERROR 0A000 not_supported: SET client_encoding is not supported
--|   1 | SET client_encoding = 'UTF8';
--|     |     ^^^^^^^^^^^^^^^
--| hint: settings of a server are given when it starts

DROP QUERY a, ;
--| ERROR 42601 syntax_error: expected the name of the query, the statement ends here
--|   1 | DROP QUERY a, ;
--|     |              ^

SELECT location FROM sensors AS OF NOW - 1 MINUTE;
--| ERROR 0A000 not_supported: AS OF here is not supported
--|   1 | SELECT location FROM sensors AS OF NOW - 1 MINUTE;
--|     |                              ^^
--| hint: AS OF stands in SELECT * FROM a standing query

SELECT * FROM sensors AS OF NOW + 1 MINUTE;
--| ERROR 42P20 invalid_window: AS OF wants a moment that has been
--|   1 | SELECT * FROM sensors AS OF NOW + 1 MINUTE;
--|     |                       ^^
--| hint: write a time, NOW - 10 MINUTES or CYCLE 4711

SELECT AVG(ppm) FROM sensors GROUP BY TUMBLE(1 MINUT);
--| ERROR 22007 invalid_duration: "1 MINUT" is not a duration
--|   1 | SELECT AVG(ppm) FROM sensors GROUP BY TUMBLE(1 MINUT);
--|     |                                                ^^^^^
--| hint: did you mean "MINUTE"?

SELECT AVG(ppm, 5 MINUTS) FROM sensors;
--| ERROR 22007 invalid_duration: "5 MINUTS" is not a duration
--|   1 | SELECT AVG(ppm, 5 MINUTS) FROM sensors;
--|     |                   ^^^^^^
--| hint: did you mean "MINUTES"?

SELECT ppm FROM sensors WHERE ts > NOW() - 5 SECONS;
--| ERROR 22007 invalid_duration: "5 SECONS" is not a duration
--|   1 | SELECT ppm FROM sensors WHERE ts > NOW() - 5 SECONS;
--|     |                                              ^^^^^^
--| hint: did you mean "SECONDS"?

SELECT AVG(ppm) FROM sensors GROUP BY SLIDE(1 HOURR, 10 SECONDS);
--| ERROR 22007 invalid_duration: "1 HOURR" is not a duration
--|   1 | SELECT AVG(ppm) FROM sensors GROUP BY SLIDE(1 HOURR, 10 SECONDS);
--|     |                                               ^^^^^
--| hint: did you mean "HOUR"?

SELECT AVG(ppm) FROM sensors GROUP BY TUMBLE(1 FORTNIGHT);
--| ERROR 42601 syntax_error: something is missing before "FORTNIGHT"
--|   1 | SELECT AVG(ppm) FROM sensors GROUP BY TUMBLE(1 FORTNIGHT);
--|     |                                                ^^^^^^^^^
