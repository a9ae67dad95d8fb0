"""Words that an editor or a shell offers: of SQL, and the system tables. Names of the catalog come beside them."""

from __future__ import annotations

KEYWORDS = (
    "ALTER QUERY", "ALTER SYSTEM ACCEPT CLOCK", "ALTER SYSTEM ACCEPT DAMAGE", "ALTER TABLE",
    "AND", "AS", "AS OF", "AVG", "BEGIN", "BETWEEN", "BY", "CASCADE", "CASE",
    "COMMENT ON QUERY", "COUNT", "CREATE AGGREGATE", "CREATE FUNCTION", "CREATE QUERY", "CREATE ROLLUP", "CREATE SINK",
    "CREATE STREAM TYPE", "CREATE TABLE", "DEDUPLICATE BY", "DELETE FROM", "DESCRIBE", "DISTINCT",
    "DROP AGGREGATE", "DROP FUNCTION", "DROP QUERY", "DROP ROLLUP", "DROP SINK", "DROP STREAM TYPE", "DROP TABLE", "ELSE", "END",
    "EVERY", "EXPLAIN", "EXPLAIN ANALYZE", "FOR", "FROM", "GROUP BY", "HAVING", "HOUR", "IF EXISTS", "IN",
    "INSERT INTO", "INTERVAL", "IS NULL", "JOIN", "KEEP", "LAST", "LATCH", "LIKE", "LIMIT", "MAX", "MIN",
    "MINUTES", "NOT", "NOW", "NULL", "ON", "OPTIONS", "OR", "ORDER BY", "PER SENSOR", "PRIMARY KEY", "RESAMPLE",
    "RETURNS", "ROWS", "SECONDS", "SELECT", "SESSION", "SET", "SET STRATEGY", "SHOW QUERIES", "SHOW ROLLUPS", "SHOW SINKS",
    "SHOW TABLES", "SLIDE", "START", "STREAM", "SUBSCRIBE", "SUM", "THEN", "TUMBLE", "UPDATE", "USING", "VALUES",
    "WHEN", "WHERE", "WINDOW", "WITH", "WITH CHANGES",
)  # fmt: skip
SYSTEM_TABLES = tuple(
    f"penstock.{name}"
    for name in ("cycles", "fields", "inputs", "queries", "rollups", "sensors", "services", "sinks", "streams")
)
