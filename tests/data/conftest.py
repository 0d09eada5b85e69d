from tests.servers.fixtures import azurite, azurite_access, s3_access, s3_server

__all__ = ["azurite", "azurite_access", "s3_access", "s3_server"]
