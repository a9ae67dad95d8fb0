"""Aggregates in the cycle: what standing aggregations share, sliced in workers, told to the commit.

`shape` says what two queries share, `slicer` makes cells of rows, `slice_pass` holds a table's families in a worker and
`payload` is how cells travel in a commit record. The server slices what no worker did with the same `slicer`.
"""
