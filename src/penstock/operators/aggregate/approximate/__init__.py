"""Approximate aggregates over windows: partials whose old cells may grow wide.

`coarsening` joins old cells while what they hold is little beside everything newer, as an exponential histogram does. `looking`
lets a cell that BEGIN cuts count with what it may hold, and has its rows read only for groups whose bound would break.
"""
