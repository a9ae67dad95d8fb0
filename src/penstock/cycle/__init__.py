"""The cycle without Spark: its cut through log and journal, its tasks, a worker's task and the commit record."""
