"""Window joins in a cycle: what is joined, the buffers of the host, one part of a step, its results."""
