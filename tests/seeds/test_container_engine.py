from seeds.container_engine import IMAGES, engine_for
from seeds.pages import read_page


def page(image):
    return read_page("900", f"```\nEstimator('.', custom_docker_base_image='{image}')\n```\n")


def test_pages_that_name_no_image_start_no_engine():
    with engine_for([page("")]) as variables:
        assert variables == {}


def test_a_machine_that_cannot_start_an_engine_says_why(monkeypatch, capsys):
    monkeypatch.setattr("seeds.container_engine.missing_programs", lambda: ("dockerd",))
    with engine_for([page(next(iter(IMAGES)))]) as variables:
        assert variables == {}
    assert "dockerd missing (make ci-setup)" in capsys.readouterr().out
