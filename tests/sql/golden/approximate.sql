SELECT APPROX_COUNT(*, 0.05) AS n, APPROX_SUM(ppm) AS s, APPROX_ERROR(n) FROM sensors;
--| Spark SQL: an aggregate runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|   output: n BIGINT, s DOUBLE, n_error DOUBLE
--|   text: SELECT COUNT(*) AS `n`, CAST(SUM(`sensors`.`ppm`) AS DOUBLE) AS `s`, IF(COUNT(*) >= 0, CAST(0 AS DOUBLE), NULL) AS `n_error` FROM IDENTIFIER(:r0) AS `sensors`

SELECT APPROX_DISTINCT(gas_name) AS d, APPROX_PERCENTILE(ppm, 0.9) AS p FROM sensors WITH ERROR;
--| Spark SQL: an aggregate runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|   output: d BIGINT, p DOUBLE, d_error DOUBLE, p_error DOUBLE
--|   text: SELECT COUNT(DISTINCT `sensors`.`gas_name`) AS `d`, PERCENTILE(`sensors`.`ppm`, CAST('0.9' AS DOUBLE)) AS `p`, IF(COUNT(*) >= 0, CAST(0 AS DOUBLE), NULL) AS `d_error`, IF(COUNT(*) >= 0, CAST(0 AS DOUBLE), NULL) AS `p_error` FROM IDENTIFIER(:r0) AS `sensors`

SELECT location, APPROX_TOP_K(gas_name, 3) AS top, APPROX_NORM(gas_id) AS norm FROM sensors GROUP BY location WITH ERROR;
--| Spark SQL: GROUP BY runs as Spark SQL
--|   r0: readings of "sensors"
--|     window: everything that is kept
--|   output: location TEXT, top ARRAY<STRUCT<item: TEXT, count: BIGINT>>, norm DOUBLE, top_error DOUBLE, norm_error DOUBLE
--|   text: SELECT `sensors`.`location` AS `location`, APPROX_TOP_K(`sensors`.`gas_name`, CAST(CAST('3.0' AS DOUBLE) AS INT)) FILTER(WHERE NOT `sensors`.`gas_name` IS NULL) AS `top`, AGGREGATE(ARRAY_SORT(COLLECT_LIST(`sensors`.`gas_id`)), STRUCT(FALSE AS `seen`, TRY_ELEMENT_AT(COLLECT_LIST(`sensors`.`gas_id`), 1) AS `last`, CAST(0 AS DOUBLE) AS `run`, CAST(0 AS DOUBLE) AS `total`), (`a`, `v`) -> STRUCT(TRUE AS `seen`, `v` AS `last`, IF(`a`.`seen` AND `a`.`last` = `v`, `a`.`run` + CAST(1 AS DOUBLE), CAST(1 AS DOUBLE)) AS `run`, IF(`a`.`seen` AND `a`.`last` = `v`, `a`.`total`, `a`.`total` + POWER(`a`.`run`, CAST('2.0' AS DOUBLE))) AS `total`), `a` -> IF(`a`.`seen`, POWER(`a`.`total` + POWER(`a`.`run`, CAST('2.0' AS DOUBLE)), CAST(1 AS DOUBLE) / CAST('2.0' AS DOUBLE)), CAST(NULL AS DOUBLE))) AS `norm`, IF(COUNT(*) >= 0, CAST(NULL AS DOUBLE), NULL) AS `top_error`, IF(COUNT(*) >= 0, CAST(0 AS DOUBLE), NULL) AS `norm_error` FROM IDENTIFIER(:r0) AS `sensors` GROUP BY `sensors`.`location`
