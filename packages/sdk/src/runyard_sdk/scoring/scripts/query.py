def query_of_get(request):
    """The first value of each name in the query of a GET; None for any other request."""
    if request.head is None or request.head["method"] != "GET":
        return None
    from urllib.parse import parse_qsl
    values = {}
    for name, value in parse_qsl(request.head["query"], keep_blank_values=True):
        values.setdefault(name, value)
    return values
