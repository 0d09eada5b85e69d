import pytest

pytestmark = pytest.mark.slow

MODELS = """
import joblib, numpy, pandas, pickle
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

features = [[5.1, 3.5, 1.4, 0.2], [4.9, 3.0, 1.4, 0.2], [7.0, 3.2, 4.7, 1.4], [6.4, 3.2, 4.5, 1.5],
            [6.3, 3.3, 6.0, 2.5], [7.1, 3.0, 5.9, 2.1]]
species = [0, 0, 1, 1, 2, 2]
model = LogisticRegression(C=100, max_iter=5000).fit(features, species)
joblib.dump(model, place("iris") + "model.pkl")

table = pandas.DataFrame({"age": [1, 2, 3, 40], "colour": ["red", "blue", "red", "blue"]})
columns = ColumnTransformer([("n", StandardScaler(), ["age"]), ("c", OneHotEncoder(), ["colour"])])
by_name = make_pipeline(columns, LogisticRegression()).fit(table, ["no", "yes", "no", "yes"])
joblib.dump(by_name, place("table") + "model.joblib", compress=3)

several = MultiOutputClassifier(model).fit(features, [[one, one > 0] for one in species])
pickle.dump(several, open(place("several") + "several.sav", "wb"))
joblib.dump(LinearSVC().fit(features, species), place("without_probabilities") + "model")

data = pickle.dumps(model, protocol=2)
at = data.index(b"_sklearn_version")
aged = data[:at] + data[at:].replace(b"1.", b"0.", 1)
moved = aged.replace(b"sklearn.linear_model._logistic", b"sklearn.linear_model.lugistic_")
for name, content in [("cut", data[:-50]), ("aged", aged), ("moved", moved)]:
    open(place(name) + "model.pkl", "wb").write(content)

mixing = make_pipeline(FunctionTransformer(numpy.cumsum, kw_args={"axis": 0}), model).fit(features, species)
joblib.dump(mixing, place("mixing") + "model.pkl")

joblib.dump({"model": model}, place("dict") + "model.pkl")
two, none = place("two"), place("none")
for path in (two + "a.pkl", two + "b.pkl", none + "more.txt", none + "notes.txt"):
    joblib.dump(model, path)
"""
SETOSA, VIRGINICA = [5.1, 3.5, 1.4, 0.2], [6.3, 3.3, 6.0, 2.5]


@pytest.fixture(scope="module")
def models(scikit_learn, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    scikit_learn.make(MODELS, folder)
    return folder


@pytest.fixture(scope="module")
def iris(scikit_learn, models):
    with scikit_learn.serve(models / "iris") as served:
        yield served


@pytest.fixture(scope="module")
def table(scikit_learn, models):
    with scikit_learn.serve(models / "table") as served:
        yield served


def test_requests_of_one_frame_are_answered_each_for_itself(iris):
    frame = [
        {"data": [SETOSA]},
        {"data": [SETOSA, VIRGINICA], "method": "predict"},
        {"data": [[1, 2]], "method": "predict"},
        {"data": [VIRGINICA], "method": "predict"},
        {"data": [VIRGINICA]},
    ]
    for _ in range(2):  # one by one, then together
        setosa, both, wrong, one, virginica = iris.ask(*frame)
        assert setosa[0] == 200
        assert setosa[1]["predict_proba"][0][0] > 0.9
        assert sum(setosa[1]["predict_proba"][0]) == pytest.approx(1)
        assert both == (200, {"predict": [0, 2]})
        assert wrong[0] == 400
        assert "expecting 4 features" in wrong[1]["message"]
        assert one == (200, {"predict": [2]})
        assert virginica[1]["predict_proba"][0][2] > 0.9


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("not json", "The body is not JSON"),
        ("[1, 2]", "The body is a JSON array"),
        ("{}", 'The body has no "data"'),
        ("[" * 100_000, "The body is not JSON"),
        ('{"data": [[NaN, 1, 2, 3]]}', "contains NaN"),
        ({"data": [[None, 1, 2, 3]]}, "contains NaN"),
        ({"data": [["a", 1, 2, 3]]}, "could not convert string to float"),
        ({"data": SETOSA}, "Expected 2D array"),
        ({"data": []}, "Expected 2D array"),
        ({"data": [[1, 2], [3]]}, "cannot be read as rows"),
        ({"data": 5}, "cannot be read as rows"),
        ({"data": {"a": [1], "b": [1, 2]}}, "unlike lengths"),
        ({"data": [SETOSA], "method": "fit"}, 'method is "fit"; this LogisticRegression has predict_proba, predict'),
        ({"data": [SETOSA], "method": ["predict"]}, "method is"),
        ({"data": [[1e400, 0, 0, 0]]}, "infinity"),
    ],
)
def test_what_cannot_be_scored_is_answered_400_with_the_reason(iris, body, words):
    (status, told), after = iris.ask(body, {"data": [SETOSA], "method": "predict"})
    assert status == 400
    assert words in told["message"]
    assert after == (200, {"predict": [0]})


@pytest.mark.parametrize(
    "body",
    [
        {"data": [{"colour": "red", "age": 3}]},
        {"data": [[3, "red"]]},
        {"data": {"columns": ["colour", "age"], "data": [["red", 3]]}},
        {"data": {"age": [3], "colour": ["red"]}},
        {"data": [["red", 3]], "columns": ["colour", "age"]},
    ],
    ids=["records", "rows", "split", "columns", "columns beside"],
)
def test_a_pipeline_that_goes_by_names_gets_them_whatever_the_form(table, body):
    for _ in range(2):
        answer, other, again = table.ask({**body, "method": "predict"}, body, {**body, "method": "predict"})
        assert answer == again == (200, {"predict": ["no"]})
        assert other[1]["predict_proba"][0][0] > 0.5


def test_a_missing_column_is_named(table):
    ((status, told),) = table.ask({"data": [{"age": 3}]})
    assert status == 400
    assert "colour" in told["message"]


def test_the_schema_tells_columns_methods_and_a_sample(iris, table):
    assert iris.schema["input"]["properties"]["data"]["items"]["maxItems"] == 4
    assert iris.schema["input"]["properties"]["method"]["default"] == "predict_proba"
    assert iris.ask(iris.schema["sample_input"])[0][0] == 200
    record = table.schema["input"]["properties"]["data"]["items"]["oneOf"][0]
    assert record["required"] == ["age", "colour"]


def test_a_model_of_several_outputs_gives_a_list_for_each(scikit_learn, models):
    with scikit_learn.serve(models / "several") as served:
        for _ in range(2):
            (_, one), (_, two) = served.ask({"data": [SETOSA]}, {"data": [VIRGINICA, SETOSA]})
            assert [len(output) for output in one["predict_proba"]] == [1, 1]
            assert [len(output) for output in two["predict_proba"]] == [2, 2]
            assert two["predict_proba"][0][1] == pytest.approx(one["predict_proba"][0][0])


def test_a_model_without_probabilities_predicts(scikit_learn, models):
    with scikit_learn.serve(models / "without_probabilities") as served:
        assert served.ask({"data": [SETOSA]}) == [(200, {"predict": [0]})]


def test_a_pickle_that_fails_to_load_says_why(scikit_learn, models):
    assert scikit_learn.refusal(models / "cut").problem.startswith("'model.pkl' cannot be loaded by scikit-learn ")


def test_a_pickle_of_another_release_is_served_with_a_note_that_names_both(scikit_learn, models):
    with scikit_learn.serve(models / "aged") as served:
        assert served.notes[0].startswith("The model was saved by scikit-learn 0.")
        assert "served by 1." in served.notes[0]


def test_a_pickle_of_another_release_that_fails_names_both_and_the_way_out(scikit_learn, models):
    refusal = scikit_learn.refusal(models / "moved")
    assert "cannot be loaded by scikit-learn 1." in refusal.problem
    assert "It was saved by scikit-learn 0." in refusal.problem
    assert "model_framework_version='0." in refusal.hint


def test_a_step_that_mixes_rows_gets_those_of_one_request_at_a_time(scikit_learn, models):
    with scikit_learn.serve(models / "mixing") as served:
        frame = [{"data": [SETOSA]}, {"data": [VIRGINICA]}, {"data": [SETOSA]}]
        alone = [served.ask(one)[0] for one in frame]
        for _ in range(20):
            assert served.ask(*frame) == alone


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dict", "holds a dict ('model'), which can neither predict nor transform"),
        ("two", "2 files that could be the pickled model: a.pkl, b.pkl"),
        ("none", "holds no pickled model; it holds: more.txt, notes.txt"),
    ],
)
def test_what_is_no_single_estimator_is_refused_in_words(scikit_learn, models, name, words):
    refusal = scikit_learn.refusal(models / name)
    assert words in refusal.problem
    assert refusal.hint
