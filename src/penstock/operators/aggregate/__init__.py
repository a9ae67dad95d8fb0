"""Standing aggregations: cells folded from commit records, shared by all queries of a family, and their answers.

`store` folds and forgets cells, `history` slices rows that no record covers, `answer` is one query's answer at a cycle.
"""
