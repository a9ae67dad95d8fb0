"""UNION ALL in the cycle."""
