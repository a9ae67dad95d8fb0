"""The HTTP API: requests in, answers, receipts and live events out.

`create_app` builds it around whatever satisfies `backend.Backend` (in a server: `queries.database.Database`);
`run.run` is `penstock serve`. One module per resource; `decode` reads bodies, `encode` writes answers,
`errors` makes every refusal the same JSON body. Blocking work runs in `http.thread_pools`, never on the event loop.
"""
