from azureml.train.estimator import _FrameworkBaseEstimator, given_to


class SKLearn(_FrameworkBaseEstimator):
    """Estimator for scikit-learn: one node, one process."""

    FRAMEWORK_NAME = "SKLearn"
    DEFAULT_VERSION = "0.20.3"
    _estimator_name = "SKLearn"
    _versions = ("0.20.3",)

    def __init__(self, source_directory, *, compute_target=None, vm_size=None, vm_priority=None, entry_script=None,
                 script_params=None, use_docker=True, custom_docker_image=None, image_registry_details=None,
                 user_managed=False, conda_packages=None, pip_packages=None, conda_dependencies_file_path=None,
                 pip_requirements_file_path=None, conda_dependencies_file=None, pip_requirements_file=None,
                 environment_variables=None, environment_definition=None, inputs=None, shm_size=None, resume_from=None,
                 max_run_duration_seconds=None, framework_version=None, _enable_optimized_mode=False,
                 _disable_validation=True, _show_lint_warnings=False, _show_package_warnings=False):
        self._build(given_to(locals()))

    def _framework_packages(self, version, use_gpu):
        if version == self.DEFAULT_VERSION:
            return ("scikit-learn==0.20.3", "scipy==1.2.1", "joblib==0.13.2")
        return ("scikit-learn==%s" % version,)
