"""Exact aggregates over windows, by slices of time that many queries share.

Rows of a stream come in (`slicing.slice_rows`), partials per (slice, group) go out (`cells.Cells`); `cells.CellStore` folds
them, `combining.combine` adds up those that lie inside a window, and a partial's `finish` says the value. The pipeline's
workers slice new rows, the server slices what no worker did, and both get the same.
"""
