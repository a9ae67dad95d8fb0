"""Applications that use Penstock as a user would: SQL, a sensor class of their own and the client, nothing else."""
