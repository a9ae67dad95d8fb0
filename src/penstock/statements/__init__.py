"""Statements at work, by subject: each function takes the database and one statement, and gives its reply."""
