from azureml.core.webservice.webservice import UNKNOWN_WEBSERVICE_TYPE, Webservice


class UnknownWebservice(Webservice):
    """A web service of a type that this version of the SDK does not know: can be listed, read and deleted."""

    _webservice_type = UNKNOWN_WEBSERVICE_TYPE

    def run(self, input):
        raise NotImplementedError("A web service of an unknown type cannot be called from here; upgrade runyard-sdk.")

    def update(self, *args):
        raise NotImplementedError("A web service of an unknown type cannot be updated from here; upgrade runyard-sdk.")

    def get_token(self):
        raise NotImplementedError("A web service of an unknown type has no tokens here; upgrade runyard-sdk.")

    def _finished_line(self, outcome):
        return 'Service creation operation finished, operation "%s"' % outcome


Webservice._types[UNKNOWN_WEBSERVICE_TYPE] = UnknownWebservice
