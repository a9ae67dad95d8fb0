"""The HTTP API: requests in, answers, receipts and live events out.

`app.create_app` builds it around a `database.database.Database`, which tests replace by one of their own;
`app.run` is `penstock serve`. One module per resource; `decode` reads bodies, `encode` writes answers,
`errors` makes every refusal the same JSON body. Blocking work runs in `http.thread_pools`, never on the event loop.
"""
