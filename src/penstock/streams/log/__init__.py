"""The stream log: segments on disk, how they are written, merged, checked and given up."""
