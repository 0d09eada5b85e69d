from starlette.convertors import Convertor, register_url_convertor


class _AnyPath(Convertor[str]):
    """As Starlette's own "path", and line ends too: a file's name may hold them."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any", _AnyPath())
PATH = "{path:any}"
"""For a route that ends in the path of a file."""
