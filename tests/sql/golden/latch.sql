SELECT location, MAX(ppm) FROM sensors GROUP BY location, LATCH;
--| Spark SQL: GROUP BY runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|   output: location TEXT, max DOUBLE
--|   text: SELECT `sensors`.`location` AS `location`, MAX(`sensors`.`ppm`) AS `max` FROM IDENTIFIER(:r0) AS `sensors` GROUP BY `sensors`.`location`

SELECT MAX(ppm) FROM sensors GROUP BY LATCH();
--| Spark SQL: an aggregate runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|   output: max DOUBLE
--|   text: SELECT MAX(`sensors`.`ppm`) AS `max` FROM IDENTIFIER(:r0) AS `sensors`

CREATE QUERY nothing AS SELECT 1 AS one FROM sensors GROUP BY LATCH;
--| ERROR 42601 syntax_error: LATCH needs an aggregate
--|   1 | CREATE QUERY nothing AS SELECT 1 AS one FROM sensors GROUP BY LATCH;
--|     |                                                               ^^^^^
--| hint: write SELECT stock, MAX(price) FROM trades GROUP BY stock, LATCH

CREATE QUERY twice AS SELECT MAX(ppm) FROM sensors GROUP BY LATCH, LATCH;
--| ERROR 42601 syntax_error: GROUP BY has LATCH twice
--|   1 | CREATE QUERY twice AS SELECT MAX(ppm) FROM sensors GROUP BY LATCH, LATCH;
--|     |                                                                    ^^^^^

CREATE QUERY long AS SELECT location, MAX(ppm) FROM sensors GROUP BY location, LATCH(1 MINUTE);
--| ERROR 42601 syntax_error: LATCH takes no duration: it has no end
--|   1 | CREATE QUERY long AS SELECT location, MAX(ppm) FROM sensors GROUP BY location, LATCH(1 MINUTE);
--|     |                                                                                ^^^^^^^^^^^^^^^
--| hint: write GROUP BY key, LATCH; where it begins is said with BEGIN

CREATE QUERY both AS SELECT location, MAX(ppm) FROM sensors GROUP BY location, LATCH, TUMBLE(1 MINUTE);
--| ERROR 42P20 invalid_window: TUMBLE, SLIDE, SESSION and LANDMARK end, LATCH does not
--|   1 | CREATE QUERY both AS SELECT location, MAX(ppm) FROM sensors GROUP BY location, LATCH, TUMBLE(1 MINUTE);
--|     |                                                                                ^^^^^
--| hint: leave one of them out

CREATE QUERY sliding AS SELECT MAX(ppm) FROM sensors GROUP BY LATCH BEGIN (NOW - 1 HOUR);
--| ERROR 42P20 invalid_window: a window that moves on forgets, and LATCH does not
--|   1 | CREATE QUERY sliding AS SELECT MAX(ppm) FROM sensors GROUP BY LATCH BEGIN (NOW - 1 HOUR);
--|     |                                                               ^^^^^
--| hint: without LATCH it runs, as far back as readings are kept

CREATE QUERY counted AS SELECT MAX(ppm) FROM sensors GROUP BY LATCH BEGIN (LAST 10 ROWS);
--| ERROR 42P20 invalid_window: a window that moves on forgets, and LATCH does not
--|   1 | CREATE QUERY counted AS SELECT MAX(ppm) FROM sensors GROUP BY LATCH BEGIN (LAST 10 ROWS);
--|     |                                                               ^^^^^
--| hint: without LATCH it runs, as far back as readings are kept

CREATE QUERY ended AS SELECT MAX(ppm) FROM sensors GROUP BY LATCH BEGIN ('2026-01-05') END ('2027-01-05');
--| ERROR 42P20 invalid_window: END (2027-01-05T00:00:00.000000Z) is an end, and LATCH has none
--|   1 | CREATE QUERY ended AS SELECT MAX(ppm) FROM sensors GROUP BY LATCH BEGIN ('2026-01-05') END ('2027-01-05');
--|     |                                                             ^^^^^
--| hint: leave END out

CREATE QUERY inner_one AS SELECT * FROM (SELECT location, MAX(ppm) AS m FROM sensors GROUP BY location, LATCH) x;
--| ERROR 0A000 not_supported: LATCH in a subquery or beside other SELECTs is not supported
--|   1 | CREATE QUERY inner_one AS SELECT * FROM (SELECT location, MAX(ppm) AS m FROM sensors GROUP BY location, LATCH) x;
--|     |                                                                                                         ^^^^^
--| hint: put it into a standing query of its own

SELECT location, LATCH FROM sensors;
--| ERROR 42703 column_not_found: table "sensors" has no column "latch"
--|   1 | SELECT location, LATCH FROM sensors;
--|     |                  ^^^^^
--| hint: did you mean "lat"?
