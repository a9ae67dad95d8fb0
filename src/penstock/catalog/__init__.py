"""Definitions: what tables, stream types, functions and queries there are, in what order they came."""
