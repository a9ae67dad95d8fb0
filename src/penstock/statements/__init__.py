"""The statements, by subject: each function takes the database and one statement, and returns its result."""
