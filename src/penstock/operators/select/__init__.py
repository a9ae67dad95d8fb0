"""Selections: one shared pass over new rows, matches by position, and their answers."""
