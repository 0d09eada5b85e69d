from azureml.train.hyperdrive.parameter_expressions import (
    choice, lognormal, loguniform, normal, qlognormal, qloguniform, qnormal, quniform, randint, uniform)
from azureml.train.hyperdrive.policy import (
    BanditPolicy, EarlyTerminationPolicy, MedianStoppingPolicy, NoTerminationPolicy, TruncationSelectionPolicy)
from azureml.train.hyperdrive.run import HyperDriveRun
from azureml.train.hyperdrive.runconfig import HyperDriveConfig, HyperDriveRunConfig, PrimaryMetricGoal
from azureml.train.hyperdrive.sampling import (
    BayesianParameterSampling, GridParameterSampling, HyperParameterSampling, RandomParameterSampling)

__all__ = ["BanditPolicy", "BayesianParameterSampling", "EarlyTerminationPolicy", "GridParameterSampling",
           "HyperDriveConfig", "HyperDriveRun", "HyperDriveRunConfig", "HyperParameterSampling",
           "MedianStoppingPolicy", "NoTerminationPolicy", "PrimaryMetricGoal", "RandomParameterSampling",
           "TruncationSelectionPolicy", "choice", "lognormal", "loguniform", "normal", "qlognormal", "qloguniform",
           "qnormal", "quniform", "randint", "uniform"]
