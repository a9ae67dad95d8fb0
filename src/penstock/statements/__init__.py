"""The statements, by subject: each function takes the session and one statement, and returns its result."""
