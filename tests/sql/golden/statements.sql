SUBSCRIBE gas_alarm;
--| Subscribe
--|   name: gas_alarm

SUBSCRIBE gas_alarm WITH CHANGES FROM CYCLE 41;
--| Subscribe
--|   name: gas_alarm
--|   changes: True
--|   from_cycle: 41

ALTER QUERY gas_alarm SET BEGIN (NOW - 1 HOUR);
--| AlterQuery
--|   name: gas_alarm
--|   begin: NOW - 1 HOUR

ALTER QUERY gas_alarm SET BEGIN (LAST 5 ROWS PER SENSOR);
--| AlterQuery
--|   name: gas_alarm
--|   begin: LAST 5 ROWS PER SENSOR

ALTER QUERY gas_alarm SET END ('2030-01-01');
--| AlterQuery
--|   name: gas_alarm
--|   end: '2030-01-01'

ALTER QUERY pairs SET BEGIN (NOW - 1 HOUR) FOR a;
--| AlterQuery
--|   name: pairs
--|   begin: NOW - 1 HOUR
--|   stream: a

ALTER QUERY gas_alarm PAUSE;
--| PauseQuery
--|   name: gas_alarm

ALTER QUERY gas_alarm RESUME;
--| ResumeQuery
--|   name: gas_alarm

SHOW QUERIES; SHOW STREAM TYPES; SHOW SENSORS FROM sensors; SHOW SETTINGS;
--| Show
--|   what: queries
--| Show
--|   what: stream types
--| Show
--|   what: sensors
--|   table: sensors
--| Show
--|   what: settings

DESCRIBE sensors;
--| Describe
--|   name: sensors

EXPLAIN ANALYZE gas_alarm;
--| Explain
--|   target: gas_alarm
--|   analyze: True

DROP QUERY IF EXISTS gas_alarm CASCADE;
--| Drop
--|   kind: query
--|   names: (gas_alarm)
--|   if_exists: True
--|   cascade: True

DROP STREAM TYPE gas_probe;
--| Drop
--|   kind: stream_type
--|   names: (gas_probe)

BEGIN; COMMIT; ROLLBACK; START TRANSACTION;
--| Transaction
--|   kind: BEGIN
--| Transaction
--|   kind: COMMIT
--| Transaction
--|   kind: ROLLBACK
--| Transaction
--|   kind: BEGIN

DROP INDEX x;
--| ERROR 42601 syntax_error: expected TABLE, STREAM TYPE, FUNCTION, AGGREGATE, QUERY, ROLLUP, SINK, USER or TOKEN, found "INDEX"
--|   1 | DROP INDEX x;
--|     |      ^^^^^

ALTER QUERY gas_alarm SET WINDOW 3;
--| ERROR 42601 syntax_error: expected BEGIN (..), END (..), STRATEGY or PRIORITY, found "WINDOW"
--|   1 | ALTER QUERY gas_alarm SET WINDOW 3;
--|     |                           ^^^^^^

-- stages
EXPLAIN SELECT location, MAX(ppm) FROM sensors WHERE sensor_id < 3 GROUP BY location;
--| statement
--|   Explain
--|     target: Select
--|       query: SELECT location, MAX(ppm) FROM sensors WHERE sensor_id < 3 GROUP BY location
--|       sql: SELECT location, MAX(ppm) FROM sensors WHERE sensor_id < 3 GROUP BY location
--| bound
--|   columns: location TEXT, max DOUBLE
--|   tree: SELECT "sensors"."location" AS "location", MAX("sensors"."ppm") AS "max" FROM sensors WHERE "sensors"."sensor_id" < 3 GROUP BY "sensors"."location"
--| plan
--|   Spark SQL: GROUP BY runs as Spark SQL
--|     r0: readings of "sensors"
--|       window: everything that is kept
--|       initial scan: sensor_id < 3
--|     output: location TEXT, max DOUBLE
--|     text: SELECT `sensors`.`location` AS `location`, MAX(`sensors`.`ppm`) AS `max` FROM IDENTIFIER(:r0) AS `sensors` WHERE `sensors`.`sensor_id` < 3 GROUP BY `sensors`.`location`

DROP QUERY a, b, "C d";
--| Drop
--|   kind: query
--|   names: (a, b, C d)

DROP QUERY LIKE 'bench_%';
--| Drop
--|   kind: query
--|   like: bench_%

SHOW QUERIES LIKE 'gas%';
--| Show
--|   what: queries
--|   like: gas%

-- stages
CREATE QUERY described WITH (description = 'who is hot', owner = ada, strategy = complete) AS
SELECT location FROM sensors WHERE ppm > 35;
--| statement
--|   CreateQuery
--|     name: described
--|     select: Select
--|       query: SELECT location FROM sensors WHERE ppm > 35
--|       sql: SELECT location FROM sensors WHERE ppm > 35
--|     options:
--|       description = who is hot
--|       owner = ada
--|       strategy = complete
--| bound
--|   columns: location TEXT
--|   tree: SELECT "sensors"."location" AS "location" FROM sensors WHERE "sensors"."ppm" > 35.0::DOUBLE
--| plan
--|   shared pass over the stream of "sensors"
--|     window: BEGIN (START) END (NOW)
--|     initial scan: every sensor
--|     stream predicate: ppm > 35.0
--|     output: location TEXT

COMMENT ON QUERY gas_alarm IS 'too much gas';
--| DescribeQuery
--|   name: gas_alarm
--|   fact: description
--|   value: too much gas

COMMENT ON QUERY gas_alarm IS NULL;
--| DescribeQuery
--|   name: gas_alarm
--|   fact: description

ALTER QUERY gas_alarm OWNER TO ada;
--| DescribeQuery
--|   name: gas_alarm
--|   fact: owner
--|   value: ada

ALTER QUERY gas_alarm SET STRATEGY partial;
--| DescribeQuery
--|   name: gas_alarm
--|   fact: strategy
--|   value: partial

ALTER QUERY gas_alarm SET STRATEGY auto;
--| DescribeQuery
--|   name: gas_alarm
--|   fact: strategy

SET on_error = 'rest';
--| SetOnError
--|   choice: rest

SET on_error TO rest; CREATE QUERY IF NOT EXISTS broken AS SELEC 1; CREATE QUERY fine AS SELECT location FROM sensors;
--| SetOnError
--|   choice: rest
--| BadQuery
--|   name: broken
--|   failure: expected a SELECT
--| Spark SQL: only static columns are asked for, so no sensor is opened and it runs as Spark SQL
--|   r0: static rows of "sensors"
--|   output: location TEXT
--|   text: SELECT `sensors`.`location` AS `location` FROM IDENTIFIER(:r0) AS `sensors`

CREATE SINK out FOR gas_alarm TO webhook (url = 'http://somewhere/hook', secret = 'hidden');
--| CreateSink
--|   name: out
--|   query: gas_alarm
--|   kind: webhook

CREATE SINK IF NOT EXISTS "The Out" FOR QUERY gas_alarm TO files;
--| CreateSink
--|   name: The Out
--|   query: gas_alarm
--|   kind: files
--|   if_not_exists: True

ALTER SINK out PAUSE;
--| AlterSink
--|   name: out
--|   paused: True

DROP SINK out, other;
--| Drop
--|   kind: sink
--|   names: (out, other)

SHOW SINKS LIKE 'out%';
--| Show
--|   what: sinks
--|   like: out%

CREATE SINK out FOR gas_alarm;
--| ERROR 42601 syntax_error: expected TO, the statement ends here
--|   1 | CREATE SINK out FOR gas_alarm;
--|     |                              ^

ALTER SINK out STOP;
--| ERROR 42601 syntax_error: expected PAUSE or RESUME, found "STOP"
--|   1 | ALTER SINK out STOP;
--|     |                ^^^^

ALTER SYSTEM ACCEPT CLOCK;
--| AcceptClock

ALTER SYSTEM ACCEPT DAMAGE;
--| AcceptDamage

ALTER SYSTEM RESTART;
--| ERROR 42601 syntax_error: expected ACCEPT CLOCK or ACCEPT DAMAGE, found "RESTART"
--|   1 | ALTER SYSTEM RESTART;
--|     |              ^^^^^^^
--| hint: did you mean "CREATE"?
