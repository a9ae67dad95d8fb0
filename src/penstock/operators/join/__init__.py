"""Window joins: kernels, steps in the cycle, and their answers."""
