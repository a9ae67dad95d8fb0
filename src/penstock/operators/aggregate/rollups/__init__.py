"""Rollups: history that outlives the log. Readings that retention deletes are kept as cells of ever coarser tiers.

`keeper` rolls readings up before retention deletes them and writes files that the journal names (`files`). A window that
reaches further back than the log gets the rest from there: `rollup_read` finds a suitable rollup and reads its cells, and
`notices` makes the notices of the answer.
"""
