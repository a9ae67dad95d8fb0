"""What the operators share: one answer at one cycle, and how its rows are read from the log."""
