"""The statements, by subject: each function takes the session, or the part of it that it uses, and one statement, and returns its result."""
