"""Standing queries from the outside: register, invoke, subscribe, drop; and the database facade.

In: commit records from `pipeline`, statements from `server` and `cli`. Out: results and events. `Database`
wires the rooms together; `answers` folds records into answers; `fetch` turns positions into rows.
"""
