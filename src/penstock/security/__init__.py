"""Access: users, tokens and their roles, the caller of the request that is running, and the audit log of changes.

Comes in: a token, a password or nothing. Goes out: a `caller.Caller` with a role. `server.http.access` finds it, `queries`
asks it for its role before a statement runs, and `audit` writes it down. Secrets are kept as hashes only.
"""
