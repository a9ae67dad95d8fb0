"""Cars are followed past cameras: `town` and `traffic` are the world, `camera` sees it, `statements` asks, `view` shows.

No camera knows which car it sees. A car is a number that cameras measure with an error; where it went is found by joins
of sightings that are alike and near each other in time, one join per route through the town.
"""
