"""Reads data from http(s) addresses: `store.WebStore`, on httpcore. Imported on first use, so that processes which read
no such data import no HTTP client."""
