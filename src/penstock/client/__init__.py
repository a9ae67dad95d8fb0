"""The Python client: calls in, Arrow tables, pandas frames and live changes out, over HTTP.

`penstock.connect(url)` gives a `Connection`. It needs nothing of the server but its address: this package
imports errors and clock only, and every refusal comes back as the `PenstockError` that the server raised.
"""

from penstock.client.connection import Answer, Connection, Query
from penstock.client.streams import Change, Receipt, Refusal

__all__ = ["Answer", "Change", "Connection", "Query", "Receipt", "Refusal"]
