"""From readings to a durable log: `Ingest` checks, `StreamLog` writes, `segments` finds files, `segment_rows` reads.

Comes in: pushed readings and those of opened sensors. Goes out: immutable segments named by positions and times,
and an `IngestReceipt` once the rows are synced. Called by the server and the stream manager; read by the pipeline.
"""
