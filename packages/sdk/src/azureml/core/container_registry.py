from azureml._elements import Element


class RegistryIdentity(Element):
    _fields = {"client_id": None, "resource_id": None}

    def __init__(self):
        self.resource_id = None
        self.client_id = None


class ContainerRegistry(Element):
    """Registry that an image is pulled from, and its credentials."""

    _fields = {"address": None, "username": None, "password": None, "registry_identity": RegistryIdentity}

    def __init__(self):
        self.address = None
        self.username = None
        self.password = None
        self.registry_identity = None
