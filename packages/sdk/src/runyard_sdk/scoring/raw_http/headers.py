from wsgiref.headers import Headers as _WsgiHeaders


class Headers(_WsgiHeaders):
    """Names and values of HTTP, whatever the case of the names; one name may stand several times."""

    def __getitem__(self, name):
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self):
        return iter(self.items())

    def add(self, name, value):
        """One more header, beside those of that name."""
        self.add_header(name, str(value))

    def getlist(self, name):
        return self.get_all(name)

    def update(self, others):
        for name, value in dict(others).items():
            self[name] = str(value)

    def to_wsgi_list(self):
        return list(self.items())
