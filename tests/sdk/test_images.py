"""Images as SDK v1 before 2020 deploys them: models and a script kept together, without a container."""

from pathlib import Path

import pytest

from azureml.core import Image, Model, Webservice, Workspace
from azureml.core.image import ContainerImage
from azureml.core.webservice import AciWebservice, LocalWebservice
from azureml.exceptions import WebserviceException
from tests.sdk.served import ECHO, a_model


@pytest.fixture
def model(workspace: Workspace, tmp_path: Path) -> Model:
    return a_model(workspace, tmp_path)


def image_config(folder: Path, said: str, **more: object) -> object:
    (folder / "score.py").write_text(ECHO.format(said=said))
    (folder / "env.yml").write_text("name: here\ndependencies: []\n")
    return ContainerImage.image_configuration("score.py", "python", "env.yml", **more)


def test_an_image_is_kept_listed_and_changed(workspace, model, tmp_path, capsys):
    config = image_config(tmp_path, "one", tags={"area": "a"}, description="d", properties={"p": 1})
    image = Image.create(workspace, "pictures", [model], config)
    image.wait_for_creation(show_output=True)
    assert "Succeeded" in capsys.readouterr().out
    assert (image.id, image.creation_state, type(image)) == ("pictures:1", "Succeeded", ContainerImage)
    assert (image.model_ids, image.driver_program, image.description) == (["net:1"], "score.py", "d")
    second = ContainerImage.create(workspace, "pictures", ["net:1"], config)
    assert (second.version, Image(workspace, "pictures").version) == (2, 2)
    assert Image(workspace, id="pictures:1").tags == {"area": "a"}
    assert [one.id for one in Image.list(workspace, tags=["area"])] == ["pictures:2", "pictures:1"]
    assert Image.list(workspace, model_name="other") == Image.list(workspace, tags=[["area", "b"]]) == []
    assert workspace.images["pictures"].id == "pictures:2"
    image.add_tags({"b": 2})
    image.remove_tags(["area"])
    image.add_properties({"q": "2"})
    found = Image.deserialize(workspace, image.serialize())
    assert (found.tags, found.properties) == ({"b": "2"}, {"p": "1", "q": "2"})
    image.update({"c": "3"})
    assert Image(workspace, id="pictures:1").tags == {"c": "3"}
    second.delete()
    with pytest.raises(WebserviceException, match="ImageNotFound"):
        Image(workspace, id="pictures:2")


def test_an_image_holds_its_model(workspace, model, tmp_path):
    image = Image.create(workspace, "holder", [model], image_config(tmp_path, "one"))
    with pytest.raises(WebserviceException, match="holder"):
        model.delete()
    image.delete()
    model.delete()


def test_an_image_is_deployed_as_it_was_kept(workspace, model, tmp_path):
    image = Image.create(workspace, "kept", [model], image_config(tmp_path, "kept"))
    (tmp_path / "score.py").write_text(ECHO.format(said="edited later"))
    service = Webservice.deploy_from_image(workspace, "from-image", image, LocalWebservice.deploy_configuration())
    assert service.run("1") == {"said": "kept", "got": 1}
    assert (service.image_id, service.image.id) == ("kept:1", "kept:1")
    assert [one.name for one in Webservice.list(workspace, image_name="kept")] == ["from-image"]
    assert Webservice.list(workspace, image_id="kept:2") == []
    with pytest.raises(WebserviceException, match="from-image"):
        image.delete()
    service.delete()
    image.delete()


def test_the_oldest_form_registers_and_deploys_at_once(workspace, tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"w")
    config = image_config(tmp_path, "oldest")
    service = Webservice.deploy(workspace, "oldest", ["weights.bin"], config, AciWebservice.deploy_configuration())
    assert [one.id for one in service.models] == ["weights.bin:1"]
    service.wait_for_deployment()
    assert service.run("1") == {"said": "oldest", "got": 1}
    service.delete()


def test_what_is_no_configuration_of_an_image_is_refused(workspace, model):
    with pytest.raises(WebserviceException, match="image_config must come from"):
        Image.create(workspace, "odd", [model], {"runtime": "python"})
    with pytest.raises(WebserviceException, match="image is missing"):
        Webservice.deploy_from_image(workspace, "odd", None)
