INSERT INTO sensors VALUES (1, 'north gate', 40.42, -86.92, 'plant/north/1');
--| (1, 'north gate', 40.42, -86.92, 'plant/north/1')

INSERT INTO sensors (location, sensor_id) VALUES ('a', 1), (NULL, 1 + 1);
--| (1, 'a', None, None, None)
--| (2, None, None, None, None)

INSERT INTO odd VALUES (9000000000, 'x', '2026-01-01T00:00:00Z', 'address');
--| (9000000000, 'x', 1767225600000000, 'address')

UPDATE sensors SET location = upper(location) || '!', lat = lat + 1, reading = 'new/address' WHERE sensor_id = 3 AND reading LIKE 'plant%';
--| set location = upper(location) || '!'
--| set lat = lat + 1.0
--| set reading = 'new/address'
--| where: (sensor_id = 3) AND (_address LIKE 'plant%')

UPDATE sensors s SET lon = NULL WHERE s.lat > 3;
--| set lon = NULL
--| where: lat > 3.0

DELETE FROM sensors WHERE location IS NULL;
--| where: location IS NULL

DELETE FROM my_segments;
--| where: every row

INSERT INTO sensor VALUES (1);
--| ERROR 42P01 table_not_found: there is no table "sensor"
--|   1 | INSERT INTO sensor VALUES (1);
--|     |             ^^^^^^
--| hint: did you mean "sensors"?

INSERT INTO sensors (sensor_id, latt) VALUES (1, 2);
--| ERROR 42703 column_not_found: table "sensors" has no column "latt"
--|   1 | INSERT INTO sensors (sensor_id, latt) VALUES (1, 2);
--|     |                                 ^^^^
--| hint: did you mean "lat"?

INSERT INTO sensors (sensor_id, ppm) VALUES (1, 2);
--| ERROR 42703 column_not_found: table "sensors" has no column "ppm"
--|   1 | INSERT INTO sensors (sensor_id, ppm) VALUES (1, 2);
--|     |                                 ^^^
--| hint: readings come from sensors or are pushed; rows hold static columns and the address

INSERT INTO sensors VALUES ('abc');
--| ERROR 42804 type_mismatch: column "sensor_id" is INT: "abc" is not an INT
--|   1 | INSERT INTO sensors VALUES ('abc');
--|     |                             ^^^^^

INSERT INTO sensors VALUES (1, 2, 3, 4, 5, 6);
--| ERROR 42601 syntax_error: 6 values for 5 columns
--|   1 | INSERT INTO sensors VALUES (1, 2, 3, 4, 5, 6);
--|     |                                            ^
--| hint: the columns are sensor_id, location, lat, lon, reading

INSERT INTO sensors VALUES (1, 'x', TRUE);
--| ERROR 42804 type_mismatch: column "lat" is DOUBLE: "True" is not a DOUBLE
--|   1 | INSERT INTO sensors VALUES (1, 'x', TRUE);
--|     |                                     ^^^^

INSERT INTO sensors VALUES (3000000000);
--| ERROR 42804 type_mismatch: column "sensor_id" is INT: "3000000000" is not an INT
--|   1 | INSERT INTO sensors VALUES (3000000000);
--|     |                             ^^^^^^^^^^

INSERT INTO sensors SELECT * FROM sensors;
--| ERROR 0A000 not_supported: INSERT ... SELECT is not supported
--|   1 | INSERT INTO sensors SELECT * FROM sensors;
--|     |                     ^^^^^^
--| hint: INSERT takes VALUES; to load a file use penstock load

UPDATE sensors SET sensor_id = location;
--| ERROR 42804 type_mismatch: column "sensor_id" is INT, this is TEXT
--|   1 | UPDATE sensors SET sensor_id = location;
--|     |                                ^^^^^^^^
--| hint: use CAST(... AS ...)

UPDATE sensors SET ppm = 3;
--| ERROR 42703 column_not_found: table "sensors" has no column "ppm"
--|   1 | UPDATE sensors SET ppm = 3;
--|     |                    ^^^
--| hint: readings come from sensors or are pushed; rows hold static columns and the address

DELETE FROM sensors WHERE similar(lat, lon);
--| ERROR 0A000 not_supported: a user's function in a change of rows is not supported
--|   1 | DELETE FROM sensors WHERE similar(lat, lon);
--|     |                           ^^^^^^^^^^^^^^^^^

DELETE FROM sensors WHERE location;
--| ERROR 42804 type_mismatch: WHERE needs a condition, this is TEXT
--|   1 | DELETE FROM sensors WHERE location;
--|     |                           ^^^^^^^^
