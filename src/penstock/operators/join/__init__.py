"""Window joins: their kernels, their steps in the cycle, and their answers."""
