"""The way of a reading from a request to the stream log: its rules, its order and its receipt."""
