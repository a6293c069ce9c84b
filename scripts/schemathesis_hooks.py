"""What schemathesis does not know of itself: lines of JSON are sent as they are."""

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    return value if isinstance(value, bytes) else str(value).encode()
