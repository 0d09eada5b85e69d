import pytest

from runyard.compute.gpus import Gpu, given_gpus, share_gpus
from runyard.core.definitions.run import RunDefinition

H200 = Gpu("0", "H200", (9, 0))
T4 = Gpu("0", "T4", (7, 5))


def four(capability=(8, 0)) -> tuple[Gpu, ...]:
    return tuple(Gpu(str(n), "A100", capability) for n in range(4))


def estimator(framework=None, version=None, use_gpu=None) -> dict:
    return {"runyard": {"estimator": {"framework": framework, "version": version, "use_gpu": use_gpu}}}


def test_a_lone_run_gets_every_gpu():
    assert share_gpus(RunDefinition.parse({}), four(), slots=[0], most_slots=1).per_node == (("0", "1", "2", "3"),)


def test_the_nodes_of_a_cluster_share_them():
    share = share_gpus(RunDefinition.parse({}), four(), slots=[1, 0], most_slots=2)
    assert share.per_node == (("2", "3"), ("0", "1"))


def test_a_gang_with_too_few_gpus_runs_on_the_cpu_and_says_so_once():
    share = share_gpus(RunDefinition.parse(estimator(use_gpu=True)), four()[:1], slots=[0, 1], most_slots=2)
    assert not share.has_gpus
    assert share.per_node == ((), ())
    assert "only 1 of the 2 GPUs" in share.notice


def test_nothing_is_said_where_no_gpu_was_asked_for():
    assert share_gpus(RunDefinition.parse({}), (), slots=[0], most_slots=1).notice == ""


def test_use_gpu_false_hides_them():
    assert share_gpus(
        RunDefinition.parse(estimator("PyTorch", "2.1", False)), four(), slots=[0], most_slots=1
    ).per_node == ((),)


@pytest.mark.parametrize(
    ("framework", "version", "gpu", "drives"),
    [
        ("TensorFlow", "1.13", H200, False),
        ("TensorFlow", "1.13", T4, True),
        ("TensorFlow", "2.15", H200, True),
        ("PyTorch", "1.4", H200, False),
        ("PyTorch", "2.1.0", H200, True),
        ("Chainer", "5.1.0", H200, False),
        (None, None, H200, True),
    ],
)
def test_a_gpu_that_the_framework_cannot_drive_is_left_alone(framework, version, gpu, drives):
    share = share_gpus(RunDefinition.parse(estimator(framework, version, True)), (gpu,), slots=[0], most_slots=1)
    assert share.has_gpus is drives
    assert (gpu.name in share.notice) is not drives


@pytest.mark.parametrize(("vm_size", "is_told"), [("STANDARD_NC6", True), ("STANDARD_D2_V2", False), ("own", False)])
def test_a_gpu_asked_for_by_vm_size_that_is_not_there_is_told(vm_size, is_told):
    here = share_gpus(RunDefinition.parse({}), (), slots=[0], most_slots=1, vm_size=vm_size).notice
    elsewhere = given_gpus(RunDefinition.parse({}), [()], vm_size).notice
    end = "no GPU; the whole run takes the CPU."
    assert here == (f"Runyard: vm_size={vm_size!r}, but this machine has {end}" if is_told else "")
    assert elsewhere == (f"Runyard: vm_size={vm_size!r}, but 1 of 1 nodes have {end}" if is_told else "")
    assert (
        share_gpus(RunDefinition.parse(estimator(use_gpu=False)), (), slots=[0], most_slots=1, vm_size=vm_size).notice
        == ""
    )
