from runyard.core.records.web_services import Scale
from runyard.serving.gateway.monitor import ReplicaAutoscaler

SCALE = Scale(least=1, most=10, target_utilization=70)


def test_passing_the_target_adds_what_is_missing() -> None:
    assert ReplicaAutoscaler().wanted(SCALE, 4, 1.0, 0) == 6


def test_at_the_target_nothing_changes() -> None:
    assert ReplicaAutoscaler().wanted(SCALE, 4, 0.7, 0) == 4


def test_a_queue_adds_one_even_where_the_workers_seem_idle() -> None:
    assert ReplicaAutoscaler().wanted(SCALE, 4, 0.1, 5) == 5
    assert ReplicaAutoscaler().wanted(Scale(least=1, most=10, requests_at_once=8), 4, 0.1, 5) == 4


def test_the_bounds_hold() -> None:
    assert ReplicaAutoscaler().wanted(SCALE, 10, 1.0, 1000) == 10
    assert ReplicaAutoscaler().wanted(Scale(least=3, most=10), 1, 0.0, 0) == 3


def test_replicas_go_one_at_a_time_after_a_calm_while() -> None:
    autoscale = ReplicaAutoscaler()
    looks = [autoscale.wanted(SCALE, 4, 0.0, 0) for _ in range(10)]
    assert looks == [4] * 9 + [3]


def test_a_busy_moment_ends_the_calm() -> None:
    autoscale = ReplicaAutoscaler()
    for _ in range(9):
        autoscale.wanted(SCALE, 4, 0.0, 0)
    autoscale.wanted(SCALE, 4, 0.7, 0)
    assert autoscale.wanted(SCALE, 4, 0.0, 0) == 4
