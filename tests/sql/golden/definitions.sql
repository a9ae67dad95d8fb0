-- empty: this script makes its own tables
CREATE STREAM TYPE gas_probe AS (gas_id INT, gas_name TEXT, ppm DOUBLE)
  USING mqtt OPTIONS (url 'mqtt://localhost', qos 1);
--| CreateStreamType
--|   name: gas_probe
--|   fields:
--|     gas_id INT
--|     gas_name TEXT
--|     ppm DOUBLE
--|   connector: mqtt
--|   options:
--|     url = mqtt://localhost
--|     qos = 1

CREATE TABLE sensors (
  sensor_id INT PRIMARY KEY,
  location  TEXT, lat DOUBLE, lon DOUBLE,
  reading   STREAM gas_probe
) WITH (time = 'valid', out_of_order = 'refuse', retention = '7 DAYS');
--| flat columns: sensor_id INT, location TEXT, lat DOUBLE, lon DOUBLE, gas_id INT, gas_name TEXT, ppm DOUBLE, ts TIMESTAMP
--| TableOptions(time='valid', out_of_order='refuse', retention_us=604800000000, idle_us=60000000, max_ahead_us=60000000, always_on=False, discover=False, deduplicate=None, lateness_us=None, watermark_us=None)

-- clauses stand where a newcomer puts them
CREATE TABLE IF NOT EXISTS boilers (id BIGINT, hall TEXT, r STREAM (temperature DOUBLE, id INT), PRIMARY KEY (hall, id))
  ALWAYS ON DEDUPLICATE BY (hall, id, r.temperature, ts) WITHIN 1 HOUR WITH (idle = 5 SECONDS, max_ahead = INTERVAL '90' SECOND);
--| flat columns: id BIGINT, hall TEXT, temperature DOUBLE, r.id INT, ts TIMESTAMP
--| TableOptions(time='transaction', out_of_order='refuse', retention_us=None, idle_us=5000000, max_ahead_us=90000000, always_on=True, discover=False, deduplicate=Deduplicate(fields=('hall', 'id', 'temperature', 'ts'), within_us=3600000000), lateness_us=None, watermark_us=None)

CREATE TABLE rooms (name VARCHAR(40) NOT NULL, built TIMESTAMP WITH TIME ZONE, size DECIMAL(8, 2), tags TEXT[], at STRUCT<x: DOUBLE, y: DOUBLE>);
--| flat columns: name TEXT, built TIMESTAMP, size DECIMAL(8, 2), tags ARRAY<TEXT>, at STRUCT<x: DOUBLE, y: DOUBLE>
--| TableOptions(time='transaction', out_of_order='refuse', retention_us=None, idle_us=60000000, max_ahead_us=60000000, always_on=False, discover=False, deduplicate=None, lateness_us=None, watermark_us=None)

CREATE STREAM TYPE counter AS (count BIGINT NOT NULL, note TEXT NULL);
--| CreateStreamType
--|   name: counter
--|   fields:
--|     count BIGINT NOT NULL
--|     note TEXT

ALTER TABLE sensors ADD COLUMN owner TEXT;
--| flat columns: sensor_id INT, location TEXT, lat DOUBLE, lon DOUBLE, owner TEXT, gas_id INT, gas_name TEXT, ppm DOUBLE, ts TIMESTAMP

ALTER TABLE sensors ADD COLUMN reading.humidity DOUBLE;
--| flat columns: sensor_id INT, location TEXT, lat DOUBLE, lon DOUBLE, owner TEXT, gas_id INT, gas_name TEXT, ppm DOUBLE, humidity DOUBLE, ts TIMESTAMP

CREATE FUNCTION warm(c DOUBLE) RETURNS BOOLEAN LANGUAGE python VECTORISED AS $$
return c > 20
$$;
--| CreateFunction
--|   name: warm
--|   parameters:
--|     c DOUBLE
--|   returns: BOOLEAN
--|   language: python
--|   body:
--| return c > 20
--|
--|   vectorised: True

-- what is refused
CREATE TABLE t (id INT, r STREAM gas_probe);
--| ERROR 42P16 invalid_definition: a sensor table with static columns needs a PRIMARY KEY
--|   2 | CREATE TABLE t (id INT, r STREAM gas_probe);
--|     |              ^
--| hint: write PRIMARY KEY behind id, or whichever columns tell sensors apart

CREATE TABLE t (id INT PRIMARY KEY, r STREAM gas_prob);
--| ERROR 42704 stream_type_not_found: there is no stream type "gas_prob"
--|   1 | CREATE TABLE t (id INT PRIMARY KEY, r STREAM gas_prob);
--|     |                                              ^^^^^^^^
--| hint: did you mean "gas_probe"?

CREATE TABLE t (id INT PRIMARY KEY, a STREAM (x DOUBLE), b STREAM (y INT));
--| ERROR 42P16 invalid_definition: a table has one stream column
--|   1 | CREATE TABLE t (id INT PRIMARY KEY, a STREAM (x DOUBLE), b STREAM (y INT));
--|     |                                                          ^
--| hint: give each stream a table of its own; queries can join them

CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP, r STREAM (x DOUBLE));
--| ERROR 42P16 invalid_definition: "ts" is the time of a reading; every sensor table has it already
--|   1 | CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP, r STREAM (x DOUBLE));
--|     |                                     ^^

CREATE TABLE t (id INT PRIMARY KEY, _hidden TEXT);
--| ERROR 42P16 invalid_definition: the column name "_hidden" begins with an underscore, which marks columns of the system
--|   1 | CREATE TABLE t (id INT PRIMARY KEY, _hidden TEXT);
--|     |                                     ^^^^^^^

CREATE TABLE t (id INT PRIMARY KEY, id TEXT);
--| ERROR 42710 already_exists: column "id" already exists
--|   1 | CREATE TABLE t (id INT PRIMARY KEY, id TEXT);
--|     |                                     ^^

CREATE TABLE t (id INT PRIMARY KEY, r STREAM (x DOUBLE, x INT));
--| ERROR 42710 already_exists: field "x" already exists
--|   1 | CREATE TABLE t (id INT PRIMARY KEY, r STREAM (x DOUBLE, x INT));
--|     |                                     ^

CREATE TABLE t (id FLOT PRIMARY KEY);
--| ERROR 42804 type_mismatch: "FLOT" is not a type
--|   1 | CREATE TABLE t (id FLOT PRIMARY KEY);
--|     |                    ^^^^
--| hint: types are INT, BIGINT, DOUBLE, BOOLEAN, TEXT, TIMESTAMP, BINARY, DECIMAL, ARRAY<...>, STRUCT<...>

CREATE TABLE t (id INT PRIMARY KEY, r STREAM (x DOUBLE)) WITH (retenton = '3 days');
--| ERROR 22023 invalid_option: option "retenton": there is no such option
--|   1 | CREATE TABLE t (id INT PRIMARY KEY, r STREAM (x DOUBLE)) WITH (retenton = '3 days');
--|     |                                                                ^^^^^^^^^^^^^^^^^^^
--| hint: did you mean "retention"?

CREATE TABLE t (id INT PRIMARY KEY, r STREAM (x DOUBLE)) WITH (time = 'valif');
--| ERROR 22023 invalid_option: option "time": "valif" is not 'valid' or 'transaction'
--|   1 | CREATE TABLE t (id INT PRIMARY KEY, r STREAM (x DOUBLE)) WITH (time = 'valif');
--|     |                                                                ^^^^^^^^^^^^^^
--| hint: did you mean "valid"?

CREATE TABLE t (id INT PRIMARY KEY, r STREAM (x DOUBLE)) WITH (retention = 'a while');
--| ERROR 22023 invalid_option: option "retention": "a while" is not a duration, or 'forever'
--|   1 | CREATE TABLE t (id INT PRIMARY KEY, r STREAM (x DOUBLE)) WITH (retention = 'a while');
--|     |                                                                ^^^^^^^^^^^^^^^^^^^^^
--| hint: write 10 SECONDS, 500 MS or '1h30m'

CREATE TABLE t (id INT PRIMARY KEY) WITH (time = 'valid');
--| ERROR 22023 invalid_option: option "time": only a table with a stream column has options
--|   1 | CREATE TABLE t (id INT PRIMARY KEY) WITH (time = 'valid');
--|     |                                           ^^^^^^^^^^^^^^

CREATE TABLE t (id INT PRIMARY KEY, r STREAM (x DOUBLE)) DEDUPLICATE BY (y) WITHIN 1 HOUR;
--| ERROR 42703 column_not_found: table "t" has no column "y"
--|   1 | CREATE TABLE t (id INT PRIMARY KEY, r STREAM (x DOUBLE)) DEDUPLICATE BY (y) WITHIN 1 HOUR;
--|     |                                                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

CREATE TABLE t (id INT PRIMARY KEY, x INT DEFAULT 3);
--| ERROR 0A000 not_supported: DEFAULT on a column is not supported
--|   1 | CREATE TABLE t (id INT PRIMARY KEY, x INT DEFAULT 3);
--|     |                                           ^^^^^^^

ALTER TABLE sensors ALTER COLUMN lat TYPE INT;
--| ERROR 0A000 not_supported: ALTER TABLE ALTER is not supported
--|   1 | ALTER TABLE sensors ALTER COLUMN lat TYPE INT;
--|     |                     ^^^^^
--| hint: ALTER TABLE can ADD COLUMN and SET lateness; a column's type never changes

ALTER TABLE sensors ADD COLUMN x INT NOT NULL;
--| ERROR 0A000 not_supported: NOT NULL on an added column is not supported
--|   1 | ALTER TABLE sensors ADD COLUMN x INT NOT NULL;
--|     |                                      ^^^
--| hint: rows and readings that are there already have NULL there

ALTER TABLE sensors ADD COLUMN readin.x INT;
--| ERROR 42703 column_not_found: table "sensors" has no column "readin"
--|   1 | ALTER TABLE sensors ADD COLUMN readin.x INT;
--|     |             ^^^^^^^
--| hint: did you mean "reading"?

CREATE FUNCTION round(a DOUBLE) RETURNS DOUBLE AS $$ return a $$;
--| ERROR 42P16 invalid_definition: "round" is a built-in function
--|   1 | CREATE FUNCTION round(a DOUBLE) RETURNS DOUBLE AS $$ return a $$;
--|     |                 ^^^^^
--| hint: choose another name

CREATE FUNCTION f(a DOUBLE) RETURNS DOUBLE LANGUAGE java AS $$ x $$;
--| ERROR 0A000 not_supported: language "java" is not supported
--|   1 | CREATE FUNCTION f(a DOUBLE) RETURNS DOUBLE LANGUAGE java AS $$ x $$;
--|     |                                                     ^^^^
--| hint: functions are written in python
