"""Approximate aggregates over windows: partials with cells that grow wide with age.

`coarse_cells` merges old cells while their content is small beside everything newer, as an exponential histogram does.
`brackets` counts a cell that BEGIN cuts with bounds, and its rows are read only for groups that would break their bound.
"""
