import json

import pytest

pytestmark = pytest.mark.slow

JUDGED = """
import json
import numpy
from runyard_sdk.scoring.scorers.scikit_learn import is_row_by_row
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import NMF
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler

class Own(TransformerMixin, BaseEstimator):
    def fit(self, rows, labels=None):
        self.is_fitted_ = True
        return self

    def transform(self, rows):
        return rows / rows.max()

class OwnRegression(LogisticRegression):
    pass

regression = LogisticRegression()
estimators = {
    "regression": regression,
    "forest": RandomForestClassifier(10),
    "boosting": GradientBoostingClassifier(n_estimators=3),
    "pipeline": make_pipeline(StandardScaler(), SelectKBest(k=1), regression),
    "search": GridSearchCV(make_pipeline(StandardScaler(), regression), {"logisticregression__C": [1, 2]}, cv=2),
    "own step": make_pipeline(Own(), regression),
    "own step of a union": make_pipeline(make_union(StandardScaler(), Own()), regression),
    "own step of a search": GridSearchCV(make_pipeline(Own(), regression), {"logisticregression__C": [1, 2]}, cv=2),
    "own step of a vote": VotingClassifier([("a", regression), ("b", make_pipeline(Own(), regression))]),
    "function": make_pipeline(FunctionTransformer(lambda rows: rows / rows.max()), regression),
    "function of numpy": make_pipeline(FunctionTransformer(numpy.cumsum, kw_args={"axis": 0}), regression),
    "subclass": OwnRegression(),
    "factors": make_pipeline(NMF(1), regression),
}
rows, labels = numpy.array([[1.0, 2.0], [2.0, 1.0], [3.0, 5.0], [4.0, 3.0]]), [0, 1, 0, 1]
judged = {name: is_row_by_row(one.fit(rows, labels)) for name, one in estimators.items()}
judged["no estimator"] = is_row_by_row(Own())
json.dump(judged, open("judged.json", "w"))
"""
ROW_BY_ROW = {"regression", "forest", "boosting", "pipeline", "search"}


@pytest.fixture(scope="module")
def judged(scikit_learn, tmp_path_factory):
    folder = tmp_path_factory.mktemp("judged")
    scikit_learn.make(JUDGED, folder)
    return json.loads((folder / "judged.json").read_text())


def test_estimators_of_scikit_learn_alone_are_row_by_row_by_its_word(judged):
    assert {name for name, is_row_by_row in judged.items() if is_row_by_row} == ROW_BY_ROW
