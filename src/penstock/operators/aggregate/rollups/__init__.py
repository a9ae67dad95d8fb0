"""History that outlives the log: readings that retention takes are kept as cells of ever coarser tiers.

`keeper` rolls readings up before retention takes them (`closing`, `tiers`) and writes files that the journal names
(`files`). Whoever asks for a window that reaches further back than the log gets the rest from there: `matching` finds a
rollup that can say it, `looking` its cells, `telling` what the answer has to say about that.
"""
