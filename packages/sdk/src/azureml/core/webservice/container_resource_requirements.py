from azureml.core.webservice._configuration import Part
from azureml.exceptions import WebserviceException  # noqa: F401


class ContainerResourceRequirements(Part):
    """Resources of one replica."""

    _keys = (("cpu", "cpu"), ("memory_in_gb", "memoryInGB"), ("gpu", "gpu"), ("cpu_limit", "cpuLimit"),
             ("memory_in_gb_limit", "memoryInGBLimit"))
    _optional = ("gpu", "cpu_limit", "memory_in_gb_limit")

    def __init__(self, cpu, memory_in_gb, gpu=None, cpu_limit=None, memory_in_gb_limit=None):
        self.cpu = cpu
        self.memory_in_gb = memory_in_gb
        self.gpu = gpu
        self.cpu_limit = cpu_limit
        self.memory_in_gb_limit = memory_in_gb_limit
