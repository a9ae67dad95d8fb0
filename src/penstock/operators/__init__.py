"""The operators, one package each: kernels, the steps of a cycle, and answers."""
