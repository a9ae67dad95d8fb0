"""Window joins in a cycle: prepared joins, the buffers of the host, the parts of a step, and their results."""
