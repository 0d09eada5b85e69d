"""Secrets of a workspace, stored encrypted by the service."""


class _ContentType(object):
    """Default of set_secret: no content type given."""

    def __repr__(self):
        return "KeyVaultContentType.not_provided"


_NOT_PROVIDED = _ContentType()


class Keyvault(object):
    def __init__(self, workspace):
        self.workspace = workspace

    def set_secret(self, name, value, content_type=_NOT_PROVIDED):
        if not isinstance(name, str) or not name or "/" in name:
            from azureml.exceptions import UserErrorException
            raise UserErrorException("name must be a text without '/', best letters, digits and '-'; got %r." % (name,))
        self.workspace._client.put(self.workspace._path("secrets", name), {"value": value})

    def set_secrets(self, secrets_batch):
        for name, value in secrets_batch.items():
            self.set_secret(name, value)

    def get_secret(self, name):
        """Return the value, or None."""
        from runyard_sdk.errors import NotFound
        try:
            return self.workspace._client.get(self.workspace._path("secrets", name))["value"]
        except NotFound:
            return None

    def get_secrets(self, secrets):
        return {name: self.get_secret(name) for name in secrets}

    def get_secret_content_type(self, name):
        """Always None: content types are not stored."""

    def list_secrets(self):
        """Names of the secrets, as mappings with 'name'; never the values."""
        return self.workspace._client.get(self.workspace._path("secrets"))["secrets"]

    def delete_secret(self, name):
        self.workspace._client.delete(self.workspace._path("secrets", name))

    def delete_secrets(self, secrets):
        for name in secrets:
            self.delete_secret(name)
