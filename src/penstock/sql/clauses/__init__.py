"""What our SQL adds to PostgreSQL's SELECT, one family of clauses per file.

Tokens come in, the trees of `nodes` go out. `dialect.PenstockParser` is put together from these parsers.
"""
