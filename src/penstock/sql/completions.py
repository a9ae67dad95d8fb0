"""Words that an editor or a shell offers: of SQL, and the system tables. Names of the catalog come beside them."""

from __future__ import annotations

KEYWORDS = (
    "ALTER QUERY", "ALTER TABLE", "AND", "AS", "AS OF", "AVG", "BEGIN", "BETWEEN", "BY", "CASCADE", "CASE",
    "COMMENT ON QUERY", "COUNT",
    "CREATE FUNCTION", "CREATE QUERY", "CREATE SINK", "CREATE STREAM TYPE", "CREATE TABLE", "DEDUPLICATE BY", "DELETE FROM",
    "DESCRIBE", "DISTINCT", "DROP FUNCTION", "DROP QUERY", "DROP STREAM TYPE", "DROP TABLE", "ELSE", "END",
    "EXPLAIN", "EXPLAIN ANALYZE", "FOR", "FROM", "GROUP BY", "HAVING", "HOUR", "IF EXISTS", "IN", "INSERT INTO",
    "INTERVAL", "IS NULL", "JOIN", "LAST", "LIKE", "LIMIT", "MAX", "MIN", "MINUTES", "NOT", "NOW", "NULL", "ON",
    "OPTIONS", "OR", "ORDER BY", "PER SENSOR", "PRIMARY KEY", "RETURNS", "ROWS", "SECONDS", "SELECT", "SET",
    "SET STRATEGY",
    "SHOW QUERIES", "SHOW TABLES", "START", "STREAM", "SUBSCRIBE", "SUM", "THEN", "TUMBLE", "UPDATE", "USING",
    "VALUES", "WHEN", "WHERE", "WINDOW", "WITH", "WITH CHANGES",
)  # fmt: skip
SYSTEM_TABLES = (
    "penstock.cycles",
    "penstock.fields",
    "penstock.queries",
    "penstock.sensors",
    "penstock.sinks",
    "penstock.streams",
    "penstock.inputs",
)
