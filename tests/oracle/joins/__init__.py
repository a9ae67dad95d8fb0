"""Window joins against brute force: the definition, evaluated over all combinations of a small log."""
