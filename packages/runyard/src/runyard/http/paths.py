from starlette.convertors import Convertor, register_url_convertor


class _AnyPath(Convertor[str]):
    """Like Starlette's "path" converter, but matches line ends too: file names may hold them."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any", _AnyPath())
PATH = "{path:any}"
"""Last part of a route that ends in a file path."""
