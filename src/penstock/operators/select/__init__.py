"""Selections: the shared pass over new rows, matches by log position, and their answers."""
