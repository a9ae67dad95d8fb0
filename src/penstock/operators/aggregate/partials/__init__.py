"""Exact aggregates over windows, by slices of time that many queries share.

Rows of a stream come in (`slices.slice_rows`), partials per (slice, group) go out (`cells.Cells`); `cells.CellStore` folds
them, `cell_sums.combine` adds up those inside a window, and a partial's `finish` gives the value. The pipeline's workers
slice new rows, the server slices the rest, and both get the same cells.
"""
