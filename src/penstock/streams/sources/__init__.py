"""Sensors that the server asks or listens to by itself."""
