"""The operators: one package each, from kernels to answers."""
