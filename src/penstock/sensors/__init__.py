"""Ways to reach sensors, one file per connector.

Comes in: an address (the value of a stream column), the stream's fields and the options of its stream type.
Goes out: readings, by `read` (pull) or by a call (push). `streams.sources.manager` opens, polls and closes them;
`sql` asks `registry.validate_connector` when a stream type is created.
"""
