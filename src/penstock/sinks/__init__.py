"""Ways out: what leaves the server by itself, cycle by cycle, for each `CREATE SINK`.

In: the sinks of the catalog, and subscriptions to their queries, which `queries` hands over. Out: deliveries to
webhooks, files, brokers and databases, and what is told about each sink. One thread a sink, so none waits for another.
"""
