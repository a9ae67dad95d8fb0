"""Aggregates over UNION ALL: each branch is a family of slices, and their sums are merged by key before they are finished."""
