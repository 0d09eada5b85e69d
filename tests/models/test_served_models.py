"""What is known of a model that was registered, and what of a web service's files may go."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from runyard.assets.registry import Assets
from runyard.assets.workspaces import Workspaces
from runyard.core.definitions.assets import ImageDefinition
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import NotFound
from runyard.core.principal import OWNER
from runyard.core.records.assets import AssetKind
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.environments.folder import EnvironmentFolder, environment_key
from runyard.environments.planning.environment_spec import plan_environment
from runyard.models.model_kinds import ImageKind, ModelKind
from runyard.serving.deployments.old_revisions import OldRevisions
from tests.serving.web_service_parts import SPACE, opened_parts

DEFINITION = {
    "environment": {
        "python": {"condaDependencies": {"dependencies": ["python=3.10", {"pip": ["scikit-learn==1.3.2"]}]}}
    }
}
LOCK = "scikit-learn==1.3.2\nnumpy==1.26.4\njoblib==1.3.2\n"


@pytest.fixture
def parts(home):
    with opened_parts(home) as opened:
        yield opened


def trained(parts, lock=LOCK, definition=DEFINITION):
    """A run that has the lock of its environment."""
    base = parts.base
    made = RunRecord(
        RunId("training"), SPACE, "e", 0, RunStatus.NOT_STARTED, base.clock.now(), definition=RunDefinition(definition)
    )
    base.stores.assets.ensure_experiment(SPACE, "e")
    base.runs.create(made)
    base.runs.update(made.id, environment_lock=lock)
    return made.id


def requirements(parts):
    spec = parts.host.applied[-1].environment
    return spec.python, [*spec.requirements, *spec.constraints, *spec.preferences]


def test_a_model_of_a_run_is_served_with_what_the_run_had(parts):
    parts.model(run_id=trained(parts), client={"python": "3.12", "packages": {"scikit-learn": "1.5.0"}})
    parts.deploy(inference=None)
    python, packages = requirements(parts)
    assert python.startswith("3.10")
    assert any("1.3" in line for line in packages if line.startswith("scikit-learn"))
    assert any("training" in note for note in parts.record().notes)


def test_the_python_of_a_run_is_that_of_its_environment_on_this_machine(parts, home):
    any_python = {"environment": {"python": {"condaDependencies": {"dependencies": [{"pip": ["scikit-learn"]}]}}}}
    key = environment_key(plan_environment(RunDefinition.parse(any_python), gpu_present=False))
    folder = EnvironmentFolder(home / "environments", key)
    folder.path.mkdir(parents=True)
    folder.ready.write_text('{"lock": "", "version": "3.9.18", "python_mtime": 0}')
    parts.model(run_id=trained(parts, definition=any_python))
    parts.deploy(inference=None)
    assert requirements(parts)[0].startswith("3.9")


def test_a_version_that_was_registered_counts_more_than_what_the_run_had(parts):
    parts.model(run_id=trained(parts), framework_version="1.5")
    parts.deploy(inference=None)
    assert any(line.startswith("scikit-learn==1.5") for line in requirements(parts)[1])


@pytest.mark.parametrize("run_id", ["", "long-gone", "../x", None])
def test_a_model_whose_run_is_gone_is_served_with_what_its_registrar_had(parts, run_id):
    parts.model(run_id=run_id, client={"python": "3.11", "packages": {"scikit-learn": "1.4.2"}})
    parts.deploy(inference=None)
    assert any("1.4" in line for line in requirements(parts)[1] if line.startswith("scikit-learn"))


def test_replaced_revisions_go_and_what_answers_or_is_wanted_stays(parts, home):
    parts.model()
    made = parts.deploy()
    for _ in range(3):
        parts.serving.services.reload(OWNER, SPACE, made.name)
    parts.host.change(made.id, revision=3)
    folder = home / "services" / made.id
    for name in ("r1", "r2", "r3", "r4", "r5", "rx", "log"):
        (folder / name).mkdir(parents=True)
    stray = home / "services" / "profile-1" / "r1"
    stray.mkdir(parents=True)
    leftovers = OldRevisions(home / "services", parts.base.stores.assets, parts.host)
    assert leftovers.remove(timedelta(days=1)) == []
    os.utime(folder / "r1", (0, 0))
    assert leftovers.remove(timedelta(days=1)) == [f"{made.id}/r1"]
    assert leftovers.remove(timedelta(0)) == [f"{made.id}/r2"]
    assert sorted(os.listdir(folder)) == ["log", "r3", "r4", "r5", "rx"]
    assert stray.is_dir()


def test_the_environments_of_web_services_are_in_use(parts):
    parts.model()
    parts.deploy(inference=None)
    assert parts.serving.environments_in_use() == {environment_key(parts.host.applied[-1].environment)}


@pytest.fixture
def registry(parts):
    """Models and images as the service registers them."""
    base, serving = parts.base, parts.serving
    assets = base.stores.assets
    rules = {
        AssetKind.MODEL: ModelKind(base.access, None, base.callers_blobs, assets, serving.models_lock),
        AssetKind.IMAGE: ImageKind(assets, serving.planner.checked_image, serving.models_lock),
    }
    return Assets(assets, Workspaces(assets, base.runs, base.clock, base.access), base.access, rules)


def name_in_a_deployment(parts, registry):
    parts.deploy()


def name_in_an_update(parts, registry):
    parts.change(models=["iris:1"])


def name_in_an_image(parts, registry):
    image = ImageDefinition.parse({"models": ["iris:1"], "inference": parts.inference()})
    registry.create(OWNER, SPACE, "box", image, {})


@pytest.mark.parametrize("name_it", [name_in_a_deployment, name_in_an_update, name_in_an_image])
def test_a_model_that_is_just_being_deleted_is_not_there(parts, registry, monkeypatch, name_it):
    """Nobody names it between the look at who has it and its end."""
    parts.model("other")
    if name_it is name_in_an_update:
        parts.deploy(models=["other:1"])
    parts.model()
    store, deleting, go_on = parts.base.stores.assets, threading.Event(), threading.Event()
    delete = store.delete

    def slow_delete(*which):
        deleting.set()
        assert go_on.wait(10)
        delete(*which)

    monkeypatch.setattr(store, "delete", slow_delete)
    with ThreadPoolExecutor(2) as pool:
        deletion = pool.submit(registry.delete, OWNER, SPACE, "models", "iris")
        assert deleting.wait(10)
        naming = pool.submit(name_it, parts, registry)
        with pytest.raises(TimeoutError):
            naming.result(timeout=0.5)
        go_on.set()
        deletion.result(10)
        with pytest.raises(NotFound, match="iris:1"):
            naming.result(10)
