import pytest

from tests.frameworks.printed import last_value


def test_the_scikit_learn_example_trains_and_registers_its_model(submit):
    printed = submit("sklearn_digits")
    assert last_value(printed, "accuracy") > 0.9
    assert "Registered sklearn-digits version 1" in printed


def test_the_example_of_data_goes_from_files_to_a_table_to_a_result(submit):
    printed = submit("data")
    assert "Registered measured-weather version 1 of 5 files" in printed
    assert "Registered weather version 1 by run" in printed
    assert last_value(printed, "measurements") == 270
    assert last_value(printed, "degrees_a_day") == pytest.approx(0.05, abs=0.002)


@pytest.mark.frameworks
@pytest.mark.parametrize(
    ("example", "model", "metric", "enough"),
    [
        ("tf1_mnist", "tf1-mnist", "final_acc", 0.9),
        ("tf2_mnist", "tf2-mnist", "final_acc", 0.9),
        ("chainer_mnist", "chainer-mnist", "Accuracy", 0.95),
        ("pytorch_mnist", "pytorch-mnist", "accuracy", 0.95),
    ],
)
def test_the_example_of_a_large_framework_trains_and_registers_its_model(submit, example, model, metric, enough):
    printed = submit(example)
    assert last_value(printed, metric) > enough
    assert f"Registered {model} version 1" in printed
