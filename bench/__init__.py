"""Benchmarks. `make bench` runs them all; each writes bench/results/NAME.json, a table and a plot."""
