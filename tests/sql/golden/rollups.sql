-- empty: this script makes its own tables
CREATE TABLE probes (id INT PRIMARY KEY, site TEXT, reading STREAM (ppm DOUBLE, gas TEXT)) WITH (retention = '1 DAY');
--| flat columns: id INT, site TEXT, ppm DOUBLE, gas TEXT, ts TIMESTAMP
--| TableOptions(time='transaction', out_of_order='refuse', retention_us=86400000000, idle_us=60000000, max_ahead_us=60000000, always_on=False, discover=False, deduplicate=None, lateness_us=None, watermark_us=None)

CREATE TABLE kept (id INT PRIMARY KEY, reading STREAM (ppm DOUBLE));
--| flat columns: id INT, ppm DOUBLE, ts TIMESTAMP
--| TableOptions(time='transaction', out_of_order='refuse', retention_us=None, idle_us=60000000, max_ahead_us=60000000, always_on=False, discover=False, deduplicate=None, lateness_us=None, watermark_us=None)

CREATE TABLE sites (site TEXT PRIMARY KEY);
--| flat columns: site TEXT
--| TableOptions(time='transaction', out_of_order='refuse', retention_us=None, idle_us=60000000, max_ahead_us=60000000, always_on=False, discover=False, deduplicate=None, lateness_us=None, watermark_us=None)

CREATE ROLLUP climate ON probes AS
  SELECT site, COUNT(*), SUM(ppm), MIN(ppm) AS least WHERE ppm >= 0 AND site <> 'lab' GROUP BY site
  EVERY 1 MINUTE KEEP 30 DAYS, EVERY 1 HOUR KEEP 2 YEARS, EVERY 1 DAY KEEP FOR EVER;
--| Tier(every_us=60000000, keep_us=2592000000000)
--| Tier(every_us=3600000000, keep_us=63072000000000)
--| Tier(every_us=86400000000, keep_us=None)
--| slices of the stream of "probes", exact
--|   window: everything that is kept
--|   initial scan: site <> 'lab'
--|   stream predicate: ppm >= 0.0
--|   groups: site
--|   aggregates: count(*), sum(ppm), min(ppm)
--|   output: site TEXT, count BIGINT = count(*), sum DOUBLE = sum(ppm), least DOUBLE = min(ppm)

CREATE ROLLUP plain ON probes AS SELECT COUNT(*) EVERY 10 SECONDS;
--| Tier(every_us=10000000, keep_us=None)
--| slices of the stream of "probes", exact
--|   window: everything that is kept
--|   initial scan: every sensor
--|   stream predicate: none
--|   groups: one
--|   aggregates: count(*)
--|   output: count BIGINT = count(*)

CREATE ROLLUP gases ON probes AS SELECT upper(gas) AS g, FIRST(ppm), STDDEV(ppm) GROUP BY upper(gas) EVERY '15m' KEEP FOREVER;
--| Tier(every_us=900000000, keep_us=None)
--| slices of the stream of "probes", exact
--|   window: everything that is kept
--|   initial scan: every sensor
--|   stream predicate: none
--|   groups: upper(gas)
--|   aggregates: first(ppm), stddev_samp(ppm)
--|   output: g TEXT = upper(gas), first DOUBLE = first(ppm), stddev DOUBLE = stddev_samp(ppm)

CREATE ROLLUP x ON probs AS SELECT COUNT(*) EVERY 1 MINUTE;
--| ERROR 42P01 table_not_found: there is no table "probs"
--|   1 | CREATE ROLLUP x ON probs AS SELECT COUNT(*) EVERY 1 MINUTE;
--|     |                    ^^^^^
--| hint: did you mean "probes"?

CREATE ROLLUP x ON sites AS SELECT COUNT(*) EVERY 1 MINUTE;
--| ERROR 42P16 invalid_definition: "sites" has no stream, so there are no readings to roll up
--|   1 | CREATE ROLLUP x ON sites AS SELECT COUNT(*) EVERY 1 MINUTE;
--|     |                    ^^^^^

CREATE ROLLUP x ON kept AS SELECT COUNT(*) EVERY 1 MINUTE;
--| ERROR 42P16 invalid_definition: "kept" keeps its readings for ever, so a rollup would never hold anything
--|   1 | CREATE ROLLUP x ON kept AS SELECT COUNT(*) EVERY 1 MINUTE;
--|     |                    ^^^^
--| hint: CREATE TABLE .. WITH (retention = '7 DAYS') says for how long readings are kept

CREATE ROLLUP x ON probes AS SELECT COUNT(*) FROM probes EVERY 1 MINUTE;
--| ERROR 42P16 invalid_definition: the SELECT of a rollup has no FROM
--|   1 | CREATE ROLLUP x ON probes AS SELECT COUNT(*) FROM probes EVERY 1 MINUTE;
--|     |                                                   ^^^^^^
--| hint: leave it out: ON says that the rollup is about probes

CREATE ROLLUP x ON probes AS SELECT ppm EVERY 1 MINUTE;
--| ERROR 42P16 invalid_definition: a rollup keeps aggregates; this SELECT has none
--|   1 | CREATE ROLLUP x ON probes AS SELECT ppm EVERY 1 MINUTE;
--|     |                              ^^^^^^^^^^
--| hint: a rollup keeps COUNT, SUM, AVG, MIN, MAX, FIRST, LAST, VARIANCE, STDDEV, CORR, COVAR and the APPROX_ ones

CREATE ROLLUP x ON probes AS SELECT SUM(pmp) EVERY 1 MINUTE;
--| ERROR 42703 column_not_found: table "probes" has no column "pmp"
--|   1 | CREATE ROLLUP x ON probes AS SELECT SUM(pmp) EVERY 1 MINUTE;
--|     |                                         ^^^
--| hint: did you mean "ppm"?

CREATE ROLLUP x ON probes AS SELECT site, COUNT(*), COUNT(DISTINCT gas) GROUP BY site EVERY 1 MINUTE;
--| ERROR 0A000 not_supported: COUNT(DISTINCT ..) in a rollup is not supported
--|   1 | CREATE ROLLUP x ON probes AS SELECT site, COUNT(*), COUNT(DISTINCT gas) GROUP BY site EVERY 1 MINUTE;
--|     |                                                                    ^^^
--| hint: it needs all values one by one, and there is no end of them; APPROX_DISTINCT can be kept instead

CREATE ROLLUP x ON probes AS SELECT MEDIAN(ppm) EVERY 1 MINUTE;
--| ERROR 0A000 not_supported: PERCENTILE in a rollup is not supported
--|   1 | CREATE ROLLUP x ON probes AS SELECT MEDIAN(ppm) EVERY 1 MINUTE;
--|     |                                     ^^^^^^^^^^^
--| hint: it needs all values one by one, and there is no end of them; APPROX_PERCENTILE can be kept instead

CREATE ROLLUP x ON probes AS SELECT APPROX_DISTINCT(gas) EVERY 1 MINUTE;
--| Tier(every_us=60000000, keep_us=None)
--| slices of the stream of "probes", approximate
--|   window: everything that is kept
--|   initial scan: every sensor
--|   stream predicate: none
--|   groups: one
--|   aggregates: approx_distinct(gas, 0.05)
--|   error: approx_distinct(gas, 0.05): within 5 % of the truth in 99.7 % of all cases
--|   output: approx_distinct BIGINT = approx_distinct(gas, 0.05)

CREATE ROLLUP x ON probes AS SELECT TWA(ppm) EVERY 1 MINUTE;
--| ERROR 0A000 not_supported: TWA in a rollup is not supported
--|   1 | CREATE ROLLUP x ON probes AS SELECT TWA(ppm) EVERY 1 MINUTE;
--|     |                                         ^^^
--| hint: it needs all values one by one, and there is no end of them; a rollup keeps COUNT, SUM, AVG, MIN, MAX, FIRST, LAST, VARIANCE, STDDEV, CORR, COVAR and the APPROX_ ones

CREATE ROLLUP x ON probes AS SELECT SUM(ppm, 5 MINUTES) EVERY 1 MINUTE;
--| ERROR 0A000 not_supported: a window of an aggregate in a rollup is not supported
--|   1 | CREATE ROLLUP x ON probes AS SELECT SUM(ppm, 5 MINUTES) EVERY 1 MINUTE;
--|     |                              ^^^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: EVERY says how time is cut

CREATE ROLLUP x ON probes AS SELECT COUNT(*) GROUP BY TUMBLE(1 HOUR) EVERY 1 MINUTE;
--| ERROR 0A000 not_supported: TUMBLE, SLIDE or SESSION in a rollup is not supported
--|   1 | CREATE ROLLUP x ON probes AS SELECT COUNT(*) GROUP BY TUMBLE(1 HOUR) EVERY 1 MINUTE;
--|     |                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: EVERY says how time is cut

CREATE ROLLUP x ON probes AS SELECT site, COUNT(*) GROUP BY site HAVING COUNT(*) > 1 EVERY 1 MINUTE;
--| ERROR 0A000 not_supported: HAVING in a rollup is not supported
--|   1 | CREATE ROLLUP x ON probes AS SELECT site, COUNT(*) GROUP BY site HAVING COUNT(*) > 1 EVERY 1 MINUTE;
--|     |                                                                         ^^^^^^^^^^^^
--| hint: a rollup keeps all groups of all times; a query of it says which of them

CREATE ROLLUP x ON probes AS SELECT COUNT(*) BEGIN (NOW - 1 HOUR) END (NOW) EVERY 1 MINUTE;
--| ERROR 0A000 not_supported: BEGIN .. END in a rollup is not supported
--|   1 | CREATE ROLLUP x ON probes AS SELECT COUNT(*) BEGIN (NOW - 1 HOUR) END (NOW) EVERY 1 MINUTE;
--|     |                                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
--| hint: a rollup keeps all groups of all times; a query of it says which of them

CREATE ROLLUP x ON probes AS SELECT COUNT(*) ORDER BY 1 EVERY 1 MINUTE;
--| ERROR 0A000 not_supported: ORDER BY in a rollup is not supported
--|   1 | CREATE ROLLUP x ON probes AS SELECT COUNT(*) ORDER BY 1 EVERY 1 MINUTE;
--|     |                                                       ^
--| hint: a rollup keeps all groups of all times; a query of it says which of them

CREATE ROLLUP x ON probes AS SELECT COUNT(*);
--| ERROR 42601 syntax_error: expected EVERY, the statement ends here
--|   1 | CREATE ROLLUP x ON probes AS SELECT COUNT(*);
--|     |                                             ^

CREATE ROLLUP x ON probes AS SELECT COUNT(*) EVERY 500 MS;
--| ERROR 42P16 invalid_definition: a tier's cells are so many whole seconds wide, at least one
--|   1 | CREATE ROLLUP x ON probes AS SELECT COUNT(*) EVERY 500 MS;
--|     |                                              ^^^^^^^^^^^^

CREATE ROLLUP x ON probes AS SELECT COUNT(*) EVERY 1 MINUTE KEEP 10 DAYS, EVERY 90 SECONDS;
--| ERROR 42P16 invalid_definition: a tier's cells are made of whole cells of the one before, and those are 1m wide
--|   1 | CREATE ROLLUP x ON probes AS SELECT COUNT(*) EVERY 1 MINUTE KEEP 10 DAYS, EVERY 90 SECONDS;
--|     |                                                                           ^^^^^^^^^^^^^^^^
--| hint: 1 MINUTE, 1 HOUR, 1 DAY divide each other

CREATE ROLLUP x ON probes AS SELECT COUNT(*) EVERY 1 MINUTE KEEP 12 HOURS, EVERY 1 HOUR;
--| ERROR 42P16 invalid_definition: this tier would never hold anything: "probes" keeps the readings themselves for 1d
--|   1 | CREATE ROLLUP x ON probes AS SELECT COUNT(*) EVERY 1 MINUTE KEEP 12 HOURS, EVERY 1 HOUR;
--|     |                                                             ^^^^^^^^^^^^^
--| hint: keep it for longer than that

CREATE ROLLUP x ON probes AS SELECT COUNT(*) EVERY 1 MINUTE, EVERY 1 HOUR;
--| ERROR 42P16 invalid_definition: a tier that is kept for ever leaves nothing to the next one
--|   1 | CREATE ROLLUP x ON probes AS SELECT COUNT(*) EVERY 1 MINUTE, EVERY 1 HOUR;
--|     |                                              ^^^^^^^^^^^^^^
--| hint: say for how long: EVERY 1 MINUTE KEEP 30 DAYS, EVERY 1 HOUR

CREATE ROLLUP x ON probes AS SELECT COUNT(*) EVERY 1 MINUTE KEEP 10 DAYS, EVERY 1 HOUR KEEP 5 DAYS;
--| ERROR 42P16 invalid_definition: a coarser tier is kept for longer than the one before, which is kept for 10d
--|   1 | CREATE ROLLUP x ON probes AS SELECT COUNT(*) EVERY 1 MINUTE KEEP 10 DAYS, EVERY 1 HOUR KEEP 5 DAYS;
--|     |                                                                                        ^^^^^^^^^^^

CREATE ROLLUP x ON probes AS SELECT COUNT(*) EVERY 1 MINUTE KEEP 2 MONTHS;
--| ERROR 22007 invalid_duration: "2 MONTHS" is not a duration
--|   1 | CREATE ROLLUP x ON probes AS SELECT COUNT(*) EVERY 1 MINUTE KEEP 2 MONTHS;
--|     |                                                                  ^^^^^^^^
--| hint: months differ: write 60 DAYS

CREATE ROLLUP x ON probes AS SELECT COUNT(*) EVERY 1 MINUTE KEEP 2 FORTNIGHTS;
--| ERROR 22007 invalid_duration: "2 FORTNIGHTS" is not a duration
--|   1 | CREATE ROLLUP x ON probes AS SELECT COUNT(*) EVERY 1 MINUTE KEEP 2 FORTNIGHTS;
--|     |                                                                    ^^^^^^^^^^
--| hint: write 10 SECONDS, 500 MS or '1h30m'

CREATE ROLLUP x ON probes AS SELECT COUNT(*) EVERY 1 SECOND KEEP 2 DAYS, EVERY 2 SECONDS KEEP 3 DAYS,
  EVERY 4 SECONDS KEEP 4 DAYS, EVERY 8 SECONDS KEEP 5 DAYS, EVERY 16 SECONDS KEEP 6 DAYS, EVERY 32 SECONDS KEEP 7 DAYS,
  EVERY 64 SECONDS KEEP 8 DAYS, EVERY 128 SECONDS KEEP 9 DAYS, EVERY 256 SECONDS;
--| ERROR 53400 limit_reached: a rollup has at most 8 tiers; this one has 9
--|   3 |   EVERY 64 SECONDS KEEP 8 DAYS, EVERY 128 SECONDS KEEP 9 DAYS, EVERY 256 SECONDS;
--|     |                                                                ^^^^^^^^^^^^^^^^^

DROP ROLLUP IF EXISTS climate, plain CASCADE;
--| Drop
--|   kind: rollup
--|   names: (climate, plain)
--|   if_exists: True
--|   cascade: True

SHOW ROLLUPS LIKE 'cli%';
--| Show
--|   what: rollups
--|   like: cli%
