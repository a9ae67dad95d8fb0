"""Identify hazardous materials from gamma spectra, and decide as early as the data allow.

In: bursts of counts per channel from gamma detectors around a closed box. Out: a verdict per box (alarm, safe, more, inspect), the
material, and an action. `decision.decide` is the whole of it; `measure` says how often it is right. Not a certified instrument.
"""
