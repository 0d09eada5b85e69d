from azureml.exceptions import WebserviceException


class ResourceConfiguration(object):
    """Resources that a model needs where it is served."""

    def __init__(self, cpu=None, memory_in_gb=None, gpu=None):
        for name, value in (("cpu", cpu), ("memory_in_gb", memory_in_gb), ("gpu", gpu)):
            if value is not None and (isinstance(value, (bool, str)) or value < 0):
                raise WebserviceException("%s must be a number of at least 0, got %r." % (name, value))
        self.cpu = cpu
        self.memory_in_gb = memory_in_gb
        self.gpu = gpu

    def serialize(self):
        return {"cpu": self.cpu, "memoryInGB": self.memory_in_gb, "gpu": self.gpu}

    @staticmethod
    def deserialize(payload_obj):
        if payload_obj is None:
            return None
        return ResourceConfiguration(payload_obj.get("cpu"), payload_obj.get("memoryInGB"), payload_obj.get("gpu"))

    def __repr__(self):
        return "ResourceConfiguration(cpu=%r, memory_in_gb=%r, gpu=%r)" % (self.cpu, self.memory_in_gb, self.gpu)
