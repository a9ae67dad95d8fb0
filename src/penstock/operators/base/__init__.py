"""The base of the operators: an answer at a cycle, and the reader that fetches its rows from the log."""
