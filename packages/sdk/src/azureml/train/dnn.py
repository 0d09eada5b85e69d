"""Estimators for deep-learning frameworks."""
from azureml.train._distributed_training import Gloo, Mpi, Nccl, ParameterServer
from azureml.train.estimator import _FrameworkBaseEstimator, given_to

__all__ = ["Chainer", "Gloo", "Mpi", "Nccl", "ParameterServer", "PyTorch", "TensorFlow"]


class TensorFlow(_FrameworkBaseEstimator):
    FRAMEWORK_NAME = "TensorFlow"
    DEFAULT_VERSION = "1.13"
    _estimator_name = "TensorFlow"
    _versions = ("1.10", "1.12", "1.13", "2.0", "2.1", "2.2", "2.3")
    _horovod = {"1.10": "0.15.2", "1.12": "0.15.2", "1.13": "0.16.1", "2.0": "0.18.1", "2.1": "0.19.1",
                "2.2": "0.19.5", "2.3": "0.20.0"}

    def __init__(self, source_directory, *, compute_target=None, vm_size=None, vm_priority=None, entry_script=None,
                 script_params=None, node_count=1, process_count_per_node=1, worker_count=1,
                 parameter_server_count=1, distributed_backend=None, distributed_training=None, use_gpu=False,
                 use_docker=True, custom_docker_base_image=None,
                 custom_docker_image=None, image_registry_details=None, user_managed=False, conda_packages=None,
                 pip_packages=None, conda_dependencies_file_path=None, pip_requirements_file_path=None,
                 conda_dependencies_file=None, pip_requirements_file=None, environment_variables=None,
                 environment_definition=None, inputs=None, source_directory_data_store=None, shm_size=None,
                 resume_from=None, max_run_duration_seconds=None, framework_version=None,
                 _enable_optimized_mode=False, _disable_validation=True, _show_lint_warnings=False,
                 _show_package_warnings=False):
        self._build(given_to(locals()))

    def _framework_packages(self, version, use_gpu):
        package = "tensorflow-gpu" if use_gpu else "tensorflow"
        release = {"1.13": "1.13.1"}.get(version) or version + ".0" * (2 - version.count("."))
        horovod = ("horovod==" + self._horovod[version],) if version in self._horovod else ()
        cmake = ("cmake==3.18.2",) if version == "2.3" else ()
        return ("%s==%s" % (package, release),) + cmake + horovod


class PyTorch(_FrameworkBaseEstimator):
    FRAMEWORK_NAME = "PyTorch"
    DEFAULT_VERSION = "1.4"
    _estimator_name = "PyTorch"
    _versions = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6")
    _beside = {"1.0": ("0.4.1", "0.18.1"), "1.1": ("0.4.1", "0.18.1"), "1.2": ("0.4.1", "0.18.1"),
               "1.3": ("0.4.1", "0.18.1"), "1.4": ("0.5.0", "0.18.1"), "1.5": ("0.5.0", "0.19.1"),
               "1.6": ("0.5.0", "0.19.5")}

    def __init__(self, source_directory, *, compute_target=None, vm_size=None, vm_priority=None, entry_script=None,
                 script_params=None, node_count=1, process_count_per_node=1, distributed_backend=None,
                 distributed_training=None, use_gpu=False, use_docker=True, custom_docker_base_image=None,
                 custom_docker_image=None, image_registry_details=None, user_managed=False, conda_packages=None,
                 pip_packages=None, conda_dependencies_file_path=None, pip_requirements_file_path=None,
                 conda_dependencies_file=None, pip_requirements_file=None, environment_variables=None,
                 environment_definition=None, inputs=None, source_directory_data_store=None, shm_size=None,
                 resume_from=None, max_run_duration_seconds=None, framework_version=None,
                 _enable_optimized_mode=False, _disable_validation=True, _show_lint_warnings=False,
                 _show_package_warnings=False):
        self._build(given_to(locals()))
        if environment_definition is None:
            self.run_config.environment.environment_variables.setdefault("NCCL_TREE_THRESHOLD", "0")

    def _framework_packages(self, version, use_gpu):
        release = {"1.3": "1.3.1", "1.4": "1.4.0", "1.5": "1.5.0", "1.6": "1.6.0"}.get(version, version)
        packages = ("torch==%s" % release,)
        if version in self._beside:
            packages += ("torchvision==%s" % self._beside[version][0], "horovod==%s" % self._beside[version][1])
        if version != "1.0" and version in self._versions:
            packages += ("tensorboard==1.14.0", "future==0.17.1")
        return packages


class Chainer(_FrameworkBaseEstimator):
    FRAMEWORK_NAME = "Chainer"
    DEFAULT_VERSION = "5.1.0"
    _estimator_name = "Chainer"
    _versions = ("5.1.0", "7.0.0")
    _cupy = {"5.1.0": "cupy-cuda90==5.2.0", "7.0.0": "cupy-cuda90==7.0.0"}

    def __init__(self, source_directory, *, compute_target=None, vm_size=None, vm_priority=None, entry_script=None,
                 script_params=None, node_count=1, process_count_per_node=1, distributed_backend=None,
                 distributed_training=None, use_gpu=False, use_docker=True, custom_docker_base_image=None,
                 custom_docker_image=None, image_registry_details=None, user_managed=False, conda_packages=None,
                 pip_packages=None, conda_dependencies_file_path=None, pip_requirements_file_path=None,
                 conda_dependencies_file=None, pip_requirements_file=None, environment_variables=None,
                 environment_definition=None, inputs=None, source_directory_data_store=None, shm_size=None,
                 resume_from=None, max_run_duration_seconds=None, framework_version=None,
                 _enable_optimized_mode=False, _disable_validation=True, _show_lint_warnings=False,
                 _show_package_warnings=False):
        self._build(given_to(locals()))

    def _framework_packages(self, version, use_gpu):
        cupy = (self._cupy[version],) if use_gpu and version in self._cupy else ()
        return ("chainer==%s" % version, "mpi4py==3.0.0") + cupy
