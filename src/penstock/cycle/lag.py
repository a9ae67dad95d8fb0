"""How many committed cycles may wait to be folded into the answers before the pipeline waits for them."""

LAG_MAX = 50
