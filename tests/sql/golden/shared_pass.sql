SELECT s.reading.ppm, s.location FROM sensors s WHERE s.sensor_id IN (2, 4) AND s.reading.ppm > 35;
--| shared pass over the stream of "sensors"
--|   window: everything that is kept
--|   initial scan: sensor_id IN (2, 4)
--|   stream predicate: ppm > 35.0
--|   output: ppm DOUBLE, location TEXT

CREATE QUERY gas_alarm AS
  SELECT s.location, s.reading.ppm FROM sensors s WHERE s.reading.ppm > 35
  BEGIN (NOW - 10 MINUTES) END (NOW);
--| shared pass over the stream of "sensors"
--|   window: BEGIN (NOW - 10m) END (NOW)
--|   initial scan: every sensor
--|   stream predicate: ppm > 35.0
--|   output: location TEXT, ppm DOUBLE

SELECT * FROM gas_alarm;
--| invoke query "gas_alarm"

SELECT * FROM sensors;
--| shared pass over the stream of "sensors"
--|   window: everything that is kept
--|   initial scan: every sensor
--|   stream predicate: none
--|   output: sensor_id INT, location TEXT, lat DOUBLE, lon DOUBLE, gas_id INT, gas_name TEXT, ppm DOUBLE, ts TIMESTAMP

SELECT s.*, reading.ppm AS p, reading.* FROM sensors s;
--| shared pass over the stream of "sensors"
--|   window: everything that is kept
--|   initial scan: every sensor
--|   stream predicate: none
--|   output: sensor_id INT, location TEXT, lat DOUBLE, lon DOUBLE, gas_id INT, gas_name TEXT, ppm DOUBLE, ts TIMESTAMP, p DOUBLE = ppm, gas_id_2 INT = gas_id, gas_name_2 TEXT = gas_name, ppm_2 DOUBLE = ppm

-- numbers meet in the wider type; INT / INT stays INT
SELECT ppm * 2, gas_id / 2, ppm / gas_id, gas_id + 1.5, -ppm, ppm % 2 FROM sensors;
--| shared pass over the stream of "sensors"
--|   window: everything that is kept
--|   initial scan: every sensor
--|   stream predicate: none
--|   output: ppm * 2 DOUBLE = ppm * 2.0, gas_id / 2 INT, ppm / gas_id DOUBLE = ppm / CAST(gas_id AS DOUBLE), gas_id + 1.5 DOUBLE = CAST(gas_id AS DOUBLE) + 1.5, -ppm DOUBLE = neg(ppm), ppm % 2 DOUBLE = ppm % 2.0

SELECT CASE WHEN ppm > 3 THEN 'high' ELSE 'low' END, coalesce(location, 'nowhere'), round(ppm, 1), upper(location) || '!' FROM sensors;
--| shared pass over the stream of "sensors"
--|   window: everything that is kept
--|   initial scan: every sensor
--|   stream predicate: none
--|   output: case TEXT = case(ppm > 3.0, 'high', 'low'), coalesce TEXT = coalesce(location, 'nowhere'), round DOUBLE = round(ppm, 1), UPPER(location) || '!' TEXT = upper(location) || '!'

SELECT ts + 10 SECONDS AS soon, ts - '2026-01-01' AS since FROM sensors WHERE ts > '2026-01-01 12:00:00+02:00';
--| shared pass over the stream of "sensors"
--|   window: everything that is kept
--|   initial scan: every sensor
--|   stream predicate: ts > '2026-01-01T10:00:00.000000Z'
--|   output: soon TIMESTAMP = add_us(ts, 10000000), since BIGINT = diff_us(ts, '2026-01-01T00:00:00.000000Z')

-- the static part of WHERE decides which sensors are opened; user functions never do
SELECT ppm FROM sensors WHERE location LIKE 'north%' AND (lat > 3 OR lon IS NULL) AND similar(lat, lon) AND similar(ppm, 3);
--| shared pass over the stream of "sensors"
--|   window: everything that is kept
--|   initial scan: (location LIKE 'north%') AND ((lat > 3.0) OR lon IS NULL)
--|   stream predicate: similar(lat, lon) AND similar(ppm, 3.0)
--|   output: ppm DOUBLE
--|   functions: similar

-- a field that a static column hides is named through its stream
SELECT name, r.name, odd.r.amount, ok, at.x FROM odd WHERE r.name = name;
--| shared pass over the stream of "odd"
--|   window: everything that is kept
--|   initial scan: every sensor
--|   stream predicate: r.name = name
--|   output: name TEXT, name_2 TEXT = r.name, amount DECIMAL(10, 2), ok BOOLEAN, x DOUBLE = get_field(at, 'x')

SELECT volt FROM pulse;
--| shared pass over the stream of "pulse"
--|   window: everything that is kept
--|   initial scan: every sensor
--|   stream predicate: none
--|   output: volt DOUBLE

SELECT sensor_id FROM sensors BEGIN (NOW - 1 MINUTE);
--| shared pass over the stream of "sensors"
--|   window: BEGIN (NOW - 1m) END (NOW)
--|   initial scan: every sensor
--|   stream predicate: none
--|   output: sensor_id INT

SELECT "sensor_id" AS "Sensor", PPM FROM Sensors WHERE PPM BETWEEN 1 AND 2;
--| shared pass over the stream of "sensors"
--|   window: everything that is kept
--|   initial scan: every sensor
--|   stream predicate: (ppm >= 1.0) AND (ppm <= 2.0)
--|   output: Sensor INT = sensor_id, ppm DOUBLE
