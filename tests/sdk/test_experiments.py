import urllib.request

import pytest

from azureml.core import Experiment, Run
from azureml.exceptions import UserErrorException


def names(experiment: Experiment) -> list[str]:
    return [found.name for found in Experiment.list(experiment.workspace, view_type="All")]


def test_an_experiment_is_deleted_with_its_runs(experiment: Experiment) -> None:
    with experiment.start_logging(snapshot_directory=None) as run:
        run.child_run("child").complete()
    other = Experiment(experiment.workspace, "other")
    Experiment.delete(experiment.workspace, experiment.id)
    assert names(experiment) == [other.name]
    with pytest.raises(UserErrorException, match=run.id):
        Run.get(experiment.workspace, run.id)
    with pytest.raises(UserErrorException, match="no experiment with the id"):
        Experiment.delete(experiment.workspace, experiment.id)
    assert list(Experiment(experiment.workspace, "story").get_runs()) == []


def test_an_experiment_with_a_run_that_goes_on_is_not_deleted(experiment: Experiment) -> None:
    with experiment.start_logging(snapshot_directory=None) as ended:
        pass
    run = experiment.start_logging(snapshot_directory=None)
    with pytest.raises(UserErrorException, match=f"{run.id}.*still going on"):
        Experiment.delete(experiment.workspace, experiment.id)
    assert list(experiment.get_runs()) == [run, ended]
    run.complete()


def test_an_experiments_address_leads_to_the_page_of_its_newest_run(experiment: Experiment) -> None:
    assert experiment.get_portal_url() == experiment.portal_url
    with experiment.start_logging(snapshot_directory=None) as run:
        pass
    with urllib.request.urlopen(experiment.get_portal_url()) as page:
        assert run.id in page.read().decode()
