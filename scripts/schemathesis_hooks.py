"""Hooks of schemathesis: lines of JSON are sent as they are, and no call waits long for changes."""

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def map_query(context, query):
    """Lets no call wait longer than a second for changes: a call gives up after ten seconds."""
    wait = (query or {}).get("wait_s")
    if isinstance(wait, int) and not isinstance(wait, bool) and 1 < wait <= 25:
        query["wait_s"] = 1
    return query
