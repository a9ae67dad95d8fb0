"""The answers of all standing queries: folded from the commit records, kept small and kept current."""
