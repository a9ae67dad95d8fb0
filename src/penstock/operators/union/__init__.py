"""UNION ALL: each branch is a query of its own in the cycle, and the answer has the rows of all of them."""
