"""What is stored and what the host runs stay the same thing, whatever fails in between."""

import threading

import pytest

from runyard.core.errors import EngineError, StorageFull
from runyard.core.principal import OWNER
from runyard.core.records.assets import AssetKind
from runyard.core.records.web_services import ListenDefaults
from tests.serving.web_service_parts import SCRIPT, SPACE, opened_parts


@pytest.fixture
def parts(home):
    with opened_parts(home) as opened:
        opened.model()
        yield opened


def test_a_deployment_that_the_host_refuses_leaves_nothing(parts):
    parts.host.refusal = StorageFull("The disk is full.")
    with pytest.raises(StorageFull):
        parts.deploy()
    assert parts.names() == []
    assert parts.base.stores.assets.list(SPACE, AssetKind.SECRET) == []
    parts.host.refusal = None
    parts.deploy()


def test_a_change_that_the_host_refuses_is_unmade(parts):
    parts.deploy()
    parts.host.refusal = StorageFull("The disk is full.")
    with pytest.raises(StorageFull):
        parts.serving.services.reload(OWNER, SPACE, "iris-service")
    assert parts.record().wanted_revision == 1
    parts.host.refusal = None
    parts.serving.services.reload(OWNER, SPACE, "iris-service")
    assert parts.host.applied[-1].revision == 2


def test_the_numbers_of_a_change_that_the_host_may_have_are_not_given_again(parts):
    """A gateway that hung finds the spec of a change that was called off, and must see what comes after as news."""
    made = parts.deploy(type="AKS")
    parts.host.silence = EngineError("The gateway did not answer.")
    with pytest.raises(EngineError):
        parts.change(inference=parts.inference(SCRIPT + b"# called off\n"))
    with pytest.raises(EngineError):
        parts.serving.keys.renew(OWNER, SPACE, made.name, "Primary")
    parts.host.silence = None
    wanted = parts.inference(SCRIPT + b"# wanted\n")
    parts.change(inference=wanted)
    spec = parts.host.specs[made.id]
    assert spec.code[0].sha256 == wanted["files"][0][1]
    assert spec.revision == parts.record().wanted_revision
    assert spec.admission.keys[0] == parts.serving.keys.get(OWNER, SPACE, made.name).primary


def test_a_change_that_was_called_off_while_the_host_was_silent_is_undone_there_later(parts):
    made = parts.deploy()
    script = parts.host.specs[made.id].code
    parts.host.silence = EngineError("The gateway did not answer.")
    with pytest.raises(EngineError):
        parts.change(inference=parts.inference(SCRIPT + b"# called off\n"))
    with pytest.raises(EngineError):
        parts.serving.reconciler.apply_pending()
    parts.host.silence = None
    parts.serving.reconciler.apply_pending()
    spec = parts.host.specs[made.id]
    assert (spec.code, spec.revision) == (script, 3)
    told = len(parts.host.applied)
    parts.serving.reconciler.apply_pending()
    assert len(parts.host.applied) == told


def test_a_deletion_that_takes_long_keeps_nobody_else_waiting(parts, monkeypatch):
    parts.deploy()
    remove, removing, go_on = parts.host.remove, threading.Event(), threading.Event()

    def slow_remove(service_id):
        removing.set()
        assert go_on.wait(10)
        remove(service_id)

    monkeypatch.setattr(parts.host, "remove", slow_remove)
    deletion = threading.Thread(target=parts.serving.services.delete, args=(OWNER, SPACE, "iris-service"))
    deletion.start()
    assert removing.wait(10)
    again = parts.deploy()
    go_on.set()
    deletion.join()
    assert parts.host.service_ids() == [again.id]


def test_a_start_applies_what_a_killed_service_had_stored_but_not_told(parts):
    made = parts.deploy()
    parts.host.remove(made.id)
    parts.restarted().serving.reconciler.reconcile([])
    assert parts.host.specs[made.id].revision == 1


def test_a_start_removes_what_is_stored_no_longer(parts):
    made = parts.deploy()
    parts.host.apply(parts.host.specs[made.id].__class__(**{**vars(parts.host.specs[made.id]), "id": "left-over"}))
    parts.restarted().serving.reconciler.reconcile(parts.host.service_ids())
    assert parts.host.service_ids() == [made.id]


def test_a_start_applies_the_operators_new_settings_as_a_new_generation(parts):
    made = parts.deploy()
    parts.restarted().serving.reconciler.reconcile([])
    assert parts.host.specs[made.id].generation == 1
    elsewhere = ListenDefaults("127.0.0.2", ("models.example",), request_bytes=1000)
    restarted = parts.restarted(web_services=elsewhere)
    restarted.serving.reconciler.reconcile([])
    spec = parts.host.specs[made.id]
    assert (spec.generation, spec.revision) == (2, 1)
    assert (spec.host, spec.host_names, spec.limits.request_bytes) == ("127.0.0.2", ("models.example",), 1000)
    assert restarted.record().scoring_uri == "http://models.example:4711/score"


def test_one_web_service_that_cannot_be_applied_does_not_keep_others_from_it(parts):
    parts.deploy("first-one")
    parts.model("other")
    second = parts.deploy("second-one", models=["other:1"])
    parts.base.stores.assets.delete(SPACE, AssetKind.MODEL, "iris")
    parts.host.specs.clear()
    parts.restarted().serving.reconciler.reconcile([])
    assert parts.host.service_ids() == [second.id]


def test_the_keeper_revives_the_host_again_and_again_until_it_is_stopped(parts, monkeypatch):
    monkeypatch.setattr("runyard.serving.deployments.reconciler.RECONCILE_SECONDS", 0.0)
    thrice = threading.Event()

    def revive():
        parts.host.revived += 1
        if parts.host.revived == 1:
            raise OSError("no room for a socket")
        if parts.host.revived >= 3:
            thrice.set()

    parts.host.revive = revive
    parts.serving.reconciler.start()
    assert thrice.wait(10)
    parts.serving.reconciler.stop()
