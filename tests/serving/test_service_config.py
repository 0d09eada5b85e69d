import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.records.web_services import ServiceType
from runyard.serving.deployments.config import (
    THREAD_VARIABLES,
    Machine,
    asks_for_keys,
    asks_for_tokens,
    changed_config,
    checked_config,
    plan_serving,
)
from runyard.serving.deployments.parameters import PARAMETERS, SECRETS, WITHOUT_EFFECT

ACI, AKS, LOCAL = ServiceType.ACI, ServiceType.AKS, ServiceType.LOCAL
PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
FOUR_CORES = Machine(cores=4)


def serving(type, config=None, *, machine=FOUR_CORES, variables=None):
    checked = checked_config(type, config or {})
    return plan_serving(type, checked, machine=machine, own_variables=variables or {}, request_bytes=1000)


def test_every_parameter_of_the_original_is_known():
    aci = (
        "cpu_cores memory_gb location auth_enabled ssl_enabled enable_app_insights ssl_cert_pem ssl_key_pem ssl_cname "
        "dns_name_label primary_key secondary_key collect_model_data cmk_vault_base_url cmk_key_name cmk_key_version "
        "vnet_name subnet_name"
    )
    aks = (
        "autoscale_enabled autoscale_min_replicas autoscale_max_replicas autoscale_refresh_seconds "
        "autoscale_target_utilization collect_model_data auth_enabled cpu_cores memory_gb enable_app_insights "
        "scoring_timeout_ms replica_max_concurrent_requests max_request_wait_time num_replicas "
        "primary_key secondary_key gpu_cores period_seconds initial_delay_seconds timeout_seconds "
        "success_threshold failure_threshold namespace token_auth_enabled compute_target_name cpu_cores_limit "
        "memory_gb_limit blobfuse_enabled version_name traffic_percentile"
    )
    for type, expected in ((ACI, aci), (AKS, aks), (LOCAL, "port")):
        known = {name for name, parameter in PARAMETERS.items() if type in parameter.types}
        assert set(expected.split()) <= known


def test_those_without_effect_are_told_apart():
    assert {"location", "enable_app_insights", "period_seconds", "namespace"} <= set(WITHOUT_EFFECT)
    assert not {"cpu_cores", "auth_enabled", "autoscale_enabled", "ssl_cname"} & set(WITHOUT_EFFECT)
    assert {"primary_key", "secondary_key", "ssl_key_pem"} == SECRETS


@pytest.mark.parametrize("type", [ACI, LOCAL])
def test_a_parameter_that_the_type_does_not_have_is_refused_with_those_it_has(type):
    with pytest.raises(InvalidArgument, match=r"'autoscale_enabled' is no parameter.*Known: .*cpu_cores"):
        checked_config(type, {"autoscale_enabled": True})
    with pytest.raises(InvalidArgument, match="no parameter"):
        checked_config(type, {"cpu_core": 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cpu_cores", 0),
        ("cpu_cores", "1"),
        ("cpu_cores", True),
        ("cpu_cores", float("nan")),
        ("cpu_cores", float("inf")),
        ("memory_gb", -1),
        ("memory_gb", 1e30),
        ("auth_enabled", "yes"),
        ("num_replicas", 0),
        ("num_replicas", 1.5),
        ("num_replicas", 10**9),
        ("autoscale_target_utilization", 101),
        ("autoscale_refresh_seconds", 0),
        ("scoring_timeout_ms", 0),
        ("replica_max_concurrent_requests", 0),
        ("max_request_wait_time", -1),
        ("port", 65536),
        ("primary_key", "short"),
        ("primary_key", "with a space in it"),
        ("namespace", "a\0b"),
        ("namespace", 3),
        ("period_seconds", 0),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_name(name, value):
    with pytest.raises(InvalidArgument, match=name):
        checked_config(AKS, {name: value})


@pytest.mark.parametrize(
    ("type", "config", "said"),
    [
        (AKS, {"num_replicas": 2, "autoscale_enabled": True}, "cannot both"),
        (AKS, {"num_replicas": 2, "autoscale_max_replicas": 3}, "cannot both"),
        (AKS, {"autoscale_enabled": False, "autoscale_min_replicas": 2}, "autoscale_enabled is False"),
        (AKS, {"autoscale_min_replicas": 3, "autoscale_max_replicas": 2}, "is above autoscale_max_replicas"),
        (AKS, {"auth_enabled": True, "token_auth_enabled": True}, "cannot both be True"),
        (AKS, {"auth_enabled": False, "primary_key": "0123456789"}, "no key is asked for"),
        (AKS, {"token_auth_enabled": True, "secondary_key": "0123456789"}, "no key is asked for"),
        (AKS, {"cpu_cores": 2, "cpu_cores_limit": 1}, "cpu_cores_limit must be at least cpu_cores"),
        (AKS, {"memory_gb": 2, "memory_gb_limit": 1}, "memory_gb_limit must be at least"),
        (ACI, {"primary_key": "0123456789"}, "auth_enabled=True"),
        (ACI, {"ssl_enabled": True}, "ssl_cert_pem_file is not given"),
        (ACI, {"ssl_enabled": True, "ssl_cert_pem": PEM}, "ssl_key_pem_file is not given"),
        (ACI, {"ssl_cert_pem": "/etc/passwd"}, "ssl_cert_pem_file holds no certificate"),
        (ACI, {"vnet_name": "v"}, "subnet_name is not"),
        (ACI, {"cmk_key_name": "v"}, "cmk_vault_base_url is not"),
    ],
)
def test_parameters_that_contradict_each_other_are_refused(type, config, said):
    with pytest.raises(InvalidArgument, match=said):
        checked_config(type, config)


def test_a_private_key_is_in_no_message():
    with pytest.raises(InvalidArgument) as raised:
        checked_config(ACI, {"ssl_key_pem": "a-secret-that-is-no-key"})
    assert "a-secret" not in str(raised.value)


def test_the_defaults_are_those_of_the_original():
    aci, aks = serving(ACI), serving(AKS)
    assert (aci.auth_enabled, aks.auth_enabled, serving(LOCAL).auth_enabled) == (False, True, False)
    assert (aci.scale.least, aci.scale.most) == (1, 1)
    assert (aks.scale.least, aks.scale.most, aks.scale.target_utilization, aks.scale.refresh_seconds) == (1, 4, 70, 1.0)
    assert (aks.limits.scoring_seconds, aks.limits.queue_seconds, aks.scale.requests_at_once) == (60.0, 0.5, 1)
    assert (aci.limits.memory_bytes, aci.limits.request_bytes) == (0, 1000)


def test_workers_are_as_many_as_asked_for():
    assert serving(AKS, {"num_replicas": 3}).scale.most == serving(ACI, {"num_replicas": 3}).scale.least == 3
    bounds = serving(AKS, {"autoscale_min_replicas": 2, "autoscale_max_replicas": 20}).scale
    assert (bounds.least, bounds.most) == (2, 20)
    above_the_cores = serving(AKS, {"autoscale_min_replicas": 8}).scale
    assert (above_the_cores.least, above_the_cores.most) == (8, 8)
    assert serving(AKS, {"autoscale_enabled": False}).scale.most == 1


def test_the_old_images_variables_count_workers_and_seconds():
    found = serving(ACI, variables={"WORKER_COUNT": "3", "WORKER_TIMEOUT": "20"})
    assert (found.scale.least, found.scale.most, found.limits.scoring_seconds) == (3, 3, 20.0)
    assert serving(ACI, {"num_replicas": 2}, variables={"WORKER_COUNT": "3"}).scale.least == 2
    with pytest.raises(InvalidArgument, match=r"WORKER_COUNT must be.*'many'"):
        serving(ACI, variables={"WORKER_COUNT": "many"})


def test_cores_are_threads_and_memory_is_a_limit():
    found = serving(AKS, {"cpu_cores": 1.5, "memory_gb": 2, "memory_gb_limit": 3})
    assert {found.variables[name] for name in THREAD_VARIABLES} == {"2"}
    assert found.limits.memory_bytes == 3 << 30
    assert "OMP_NUM_THREADS" not in serving(AKS).variables


def test_gpus_are_hidden_unless_asked_for():
    two = Machine(cores=4, gpus=("0", "1"))
    assert serving(AKS, machine=two).variables["CUDA_VISIBLE_DEVICES"] == ""
    assert serving(AKS, {"gpu_cores": 1}, machine=two).variables["CUDA_VISIBLE_DEVICES"] == "0"
    many = serving(AKS, {"gpu_cores": 3}, machine=two)
    assert many.variables["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert many.notes == ("gpu_cores is 3, but this machine has 2 GPUs.",)


def test_a_change_takes_the_place_of_what_would_contradict_it():
    assert changed_config({"autoscale_max_replicas": 4}, {"num_replicas": 2}) == {"num_replicas": 2}
    assert changed_config({"num_replicas": 2}, {"autoscale_enabled": True}) == {"autoscale_enabled": True}
    assert changed_config({"auth_enabled": True}, {"token_auth_enabled": True}) == {"token_auth_enabled": True}
    assert changed_config({"token_auth_enabled": True}, {"auth_enabled": True}) == {"auth_enabled": True}
    assert changed_config({"cpu_cores": 2.0, "memory_gb": 1.0}, {"cpu_cores": None}) == {"memory_gb": 1.0}


def test_tokens_come_in_place_of_keys():
    config = {"token_auth_enabled": True}
    assert (asks_for_keys(AKS, config), asks_for_tokens(config)) == (False, True)
    assert (asks_for_keys(AKS, {}), asks_for_tokens({})) == (True, False)
