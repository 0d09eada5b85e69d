from azureml.core.webservice._part import Part


class AutoScaler(Part):
    """Between how many replicas the service chooses, and how busy it wants them."""

    _keys = (("autoscale_enabled", "autoscaleEnabled"), ("max_replicas", "maxReplicas"),
             ("min_replicas", "minReplicas"), ("refresh_period_seconds", "refreshPeriodInSeconds"),
             ("target_utilization", "targetUtilization"))

    def __init__(self, autoscale_enabled, max_replicas, min_replicas, refresh_period_seconds, target_utilization):
        self.autoscale_enabled = autoscale_enabled
        self.max_replicas = max_replicas
        self.min_replicas = min_replicas
        self.refresh_period_seconds = refresh_period_seconds
        self.target_utilization = target_utilization


class DataCollection(Part):
    """Whether inputs are to be collected. Kept as given: nothing is collected here."""

    _keys = (("event_hub_enabled", "eventHubEnabled"), ("storage_enabled", "storageEnabled"))

    def __init__(self, event_hub_enabled, storage_enabled):
        self.event_hub_enabled = event_hub_enabled
        self.storage_enabled = storage_enabled


class LivenessProbeRequirements(Part):
    """How a cluster was to ask whether a replica lives. Kept as given: here a worker's end is seen at once."""

    _keys = (("period_seconds", "periodSeconds"), ("initial_delay_seconds", "initialDelaySeconds"),
             ("timeout_seconds", "timeoutSeconds"), ("success_threshold", "successThreshold"),
             ("failure_threshold", "failureThreshold"))

    def __init__(self, period_seconds, initial_delay_seconds, timeout_seconds, success_threshold, failure_threshold):
        self.period_seconds = period_seconds
        self.initial_delay_seconds = initial_delay_seconds
        self.timeout_seconds = timeout_seconds
        self.success_threshold = success_threshold
        self.failure_threshold = failure_threshold


class WebServiceAccessToken(Part):
    """A token that opens a web service, and the times (seconds since 1970) when to ask for another."""

    _keys = (("access_token", "accessToken"), ("token_type", "tokenType"), ("refresh_after", "refreshAfter"),
             ("expiry_on", "expiryOn"))

    def __init__(self, access_token, token_type, refresh_after, expiry_on):
        self.access_token = access_token
        self.token_type = token_type
        self.refresh_after = refresh_after
        self.expiry_on = expiry_on

    def __repr__(self):
        return "%s(token_type=%r, refresh_after=%r, expiry_on=%r)" % (
            type(self).__name__, self.token_type, self.refresh_after, self.expiry_on)


class AksServiceAccessToken(WebServiceAccessToken):
    pass
