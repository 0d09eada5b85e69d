"""Authentication classes of SDK v1. Accepted wherever `auth` is, without opening a browser: the local service
identifies its owner by a file that only the owner can read."""
from collections import namedtuple
from enum import Enum

from azureml.exceptions import (  # noqa: F401
    AuthenticationException, AzureMLException, RunEnvironmentException, UserErrorException)

ACQUIRE_DURATION_THRESHOLD = 0.1
DISCOVERY_END_POINT = "AZUREML_DISCOVERY_SERVICE_ENDPOINT"
TYPE_CHECKING = False

_FAR_AWAY = 253402300799

AccessToken = namedtuple("AccessToken", ["token", "expires_on"])


class Audience(Enum):
    ARM = "ARM"
    AZUREML = "AZUREML"


class AbstractAuthentication(object):
    def __init__(self, cloud=None):
        self._cloud_type = cloud

    def get_authentication_header(self):
        """Header mapping. Grants no access: the service has its own token."""
        return {"Authorization": "Bearer " + self._token()}

    def get_token(self, *scopes, **kwargs):
        return AccessToken(self._token(), _FAR_AWAY)

    def signed_session(self, session=None):
        if session is not None:
            session.headers.update(self.get_authentication_header())
        return session

    def _token(self):
        return "local"


class InteractiveLoginAuthentication(AbstractAuthentication):
    def __init__(self, force=False, tenant_id=None, cloud=None):
        super(InteractiveLoginAuthentication, self).__init__(cloud)
        self._tenant_id = tenant_id


class AzureCliAuthentication(AbstractAuthentication):
    def __init__(self, cloud=None):
        super(AzureCliAuthentication, self).__init__(cloud)


class MsiAuthentication(AbstractAuthentication):
    def __init__(self, cloud=None, **kwargs):
        super(MsiAuthentication, self).__init__(cloud)


class ServicePrincipalAuthentication(AbstractAuthentication):
    def __init__(self, tenant_id, service_principal_id, service_principal_password, cloud="AzureCloud",
                 _enable_caching=True):
        super(ServicePrincipalAuthentication, self).__init__(cloud)
        self._tenant_id = tenant_id
        self._service_principal_id = service_principal_id
        self._service_principal_password = service_principal_password


class ArmTokenAuthentication(AbstractAuthentication):
    def __init__(self, arm_access_token, cloud="None"):
        super(ArmTokenAuthentication, self).__init__(cloud)
        self._arm_access_token = arm_access_token

    def update_arm_access_token(self, new_arm_access_token):
        self._arm_access_token = new_arm_access_token

    def _token(self):
        return self._arm_access_token


class TokenAuthentication(AbstractAuthentication):
    def __init__(self, get_token_for_audience, cloud=None):
        super(TokenAuthentication, self).__init__(cloud)
        self._get_token_for_audience = get_token_for_audience

    def get_token(self, audience=Audience.ARM):
        return self._get_token_for_audience(audience)

    def _token(self):
        return self._get_token_for_audience(Audience.ARM)


class AzureMLTokenAuthentication(AbstractAuthentication):
    """The token of a run."""

    REFRESH_INTERVAL_IN_SECONDS = 30
    EXPIRATION_THRESHOLD_IN_SECONDS = 95

    def __init__(self, azureml_access_token, expiry_time=None, host=None, subscription_id=None,
                 resource_group_name=None, workspace_name=None, experiment_name=None, run_id=None, user_email=None,
                 experiment_id=None, cloud="AzureCloud"):
        super(AzureMLTokenAuthentication, self).__init__(cloud)
        self._aml_access_token = azureml_access_token
        self._expiry_time = expiry_time

    @classmethod
    def create(cls, azureml_access_token, expiry_time, host, subscription_id, resource_group_name, workspace_name,
               experiment_name, run_id, user_email=None, experiment_id=None):
        return cls(azureml_access_token, expiry_time, host, subscription_id, resource_group_name, workspace_name,
                   experiment_name, run_id, user_email, experiment_id)

    @property
    def token(self):
        return self._aml_access_token

    @property
    def expiry_time(self):
        return self._expiry_time

    def set_token(self, token, expiry_time):
        self._aml_access_token = token
        self._expiry_time = expiry_time

    def get_authentication_header(self):
        return {"Authorization": "Bearer " + self._token()}

    def _token(self):
        return self._aml_access_token
