"""Who may do what: users, tokens and their roles, who is asking right now, and the record of who changed what.

Comes in: a token, a password or nothing. Goes out: a `caller.Caller` with a role. `server.http.access` finds it, `queries`
asks it for its role before a statement runs, and `audit` writes it down. Secrets are kept as hashes only.
"""
