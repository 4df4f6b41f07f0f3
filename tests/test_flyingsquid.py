"""compat="flyingsquid" against the reference: stored answers, and the package itself where it is."""

from __future__ import annotations

import logging
import warnings

import numpy as np
import pytest

import epoxy
from epoxy.datasets import read_folder
from epoxy.errors import NotIdentifiable, ParameterError

# rows with the same votes have the same answer: the distinct ones of a random matrix, and what
# FlyingSquid's predict_proba_marginalized says of them with class balance (0.4, 0.6)
SEED, SHAPE = 7, (300, 5)


def random_votes(seed: int = SEED, shape: tuple[int, int] = SHAPE) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, shape[0])
    right = rng.random(shape) < rng.uniform(0.55, 0.9, shape[1])
    votes = np.where(right, y[:, None], 1 - y[:, None])
    votes[rng.random(shape) < rng.uniform(0.1, 0.7, shape[1])] = -1
    return votes


STORED = {
    "median": [
        0.9719146733,
        0.9765677122,
        0.9930288141,
        0.9959622272,
        0.9713498675,
        0.9785407232,
        0.9229016404,
        0.1654224338,
    ],
    "mean": [
        0.9918308956,
        0.9951643355,
        0.9981901286,
        0.9991573546,
        0.9731710296,
        0.9804870560,
        0.9842649876,
        0.0904210576,
    ],
}


@pytest.mark.parametrize("solve", ["median", "mean"])
def test_stored_answers_of_the_reference_are_met(solve):
    votes = epoxy.Votes(random_votes())

    model = epoxy.Triplet([0.4, 0.6], solve=solve, compat="flyingsquid").fit(votes)

    np.testing.assert_allclose(model.predict_proba(votes)[:8, 1], STORED[solve], atol=1e-8)


@pytest.mark.parametrize("data", ["spam", "tennis_L", "random"])
@pytest.mark.parametrize("solve", ["median", "mean"])
@pytest.mark.parametrize("balance", [None, (0.4, 0.6), (0.9, 0.1)])
def test_probabilities_equal_the_reference_where_it_is_installed(data, solve, balance, request):
    reference = pytest.importorskip(
        "flyingsquid.label_model", reason="flyingsquid is not installed"
    )
    if data == "random":
        votes = epoxy.Votes(random_votes(seed=3, shape=(200, 12)))
    else:
        votes = read_folder(request.getfixturevalue("shared_data") / data).train.votes
    logging.getLogger("pgmpy").setLevel(logging.ERROR)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = reference.LabelModel(votes.n_sources)
        given = None if balance is None else np.array(balance)
        theirs.fit(votes.to_signed(), class_balance=given, solve_method=f"triplet_{solve}")
        expected = np.ravel(theirs.predict_proba_marginalized(votes.to_signed()))
    ours = epoxy.Triplet(balance, solve=solve, compat="flyingsquid").fit(votes)

    np.testing.assert_allclose(ours.predict_proba(votes)[:, 1], expected, atol=1e-5)


def test_the_papers_ws_lm_on_spam_is_met_to_the_digit(shared_data):
    data = read_folder(shared_data / "spam")

    model = epoxy.Triplet((0.4, 0.6), solve="median", compat="flyingsquid").fit(data.train.votes)
    found = epoxy.diagnostics.scores(
        model.predict_proba(data.test.votes), data.test.y, data.classes
    )

    assert {
        name: round(100 * found[name], 1) for name in ("accuracy", "precision", "recall", "f1")
    } == {
        "accuracy": 83.6,
        "precision": 86.7,
        "recall": 77.1,
        "f1": 81.6,
    }


def test_the_papers_own_arithmetic_does_better_there(shared_data):
    data = read_folder(shared_data / "spam")

    model = epoxy.Triplet((0.4, 0.6)).fit(data.train.votes)
    found = epoxy.diagnostics.scores(
        model.predict_proba(data.test.votes), data.test.y, data.classes
    )

    assert round(100 * found["accuracy"], 1) == 86.8


def test_the_reference_knows_two_classes_and_three_sources():
    with pytest.raises(ParameterError, match="compat='flyingsquid' knows two classes, got 3"):
        epoxy.Triplet(compat="flyingsquid").fit(epoxy.Votes([[0, 1, 2]]))
    with pytest.raises(NotIdentifiable, match="at least 3 sources, got 2"):
        epoxy.Triplet(compat="flyingsquid").fit(epoxy.Votes([[0, 1]]))
