"""Bound expressions over Arrow columns: evaluation, the predicate index and windows."""
