"""The cycle without Spark: its cut through log and journal, its tasks, the loop of a worker and the commit record."""
