"""The one reader of http(s) data: `store.WebStore`, on httpcore. Nothing here is imported by itself, so that processes
which read no such data import no HTTP client."""
