"""Rollups: history that outlives the log. Readings that retention deletes are kept as cells of ever coarser tiers.

`keeper` rolls readings up before retention deletes them (`roll_up`) and writes files that the journal names
(`files`). A window that reaches further back than the log gets the rest from there: `rollup_choice` finds a suitable
rollup, `rollup_read` reads its cells, and `notices` makes the notices of the answer.
"""
