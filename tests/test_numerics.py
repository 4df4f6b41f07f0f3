from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.special import softmax as scipys_softmax
from scipy.stats import binomtest
from sklearn import metrics

from epoxy.errors import ParameterError, UnknownName
from epoxy.numerics import softmax, unit_rows, wilson
from epoxy.scoring import Score, positive_index, precision_recall_f1
from epoxy.shares import checked_shares


def test_softmax_agrees_with_scipy_and_survives_large_logits():
    logits = np.array([[1.0, 2.0, -1.0], [1000.0, 0.0, 999.0]])

    np.testing.assert_allclose(softmax(logits), scipys_softmax(logits, axis=1))


def test_unit_rows_have_length_one_and_rows_of_zeros_stay():
    found = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32))

    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0]], rtol=1e-6)


@pytest.mark.parametrize(("right", "total"), [(0, 5), (3, 7), (40, 40), (55, 100)])
def test_wilsons_limits_agree_with_scipy(right, total):
    theirs = binomtest(right, total).proportion_ci(0.95, method="wilson")

    low, high = wilson(right / total, total, 1.959963984540054)

    assert (float(low), float(high)) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize(("positive", "average"), [(None, "macro"), (0, None), (2, None)])
def test_precision_recall_and_f1_agree_with_scikit_learn(positive, average):
    rng = np.random.default_rng(0)
    truth, guess = rng.integers(0, 3, (2, 50))

    theirs = metrics.precision_recall_fscore_support(truth, guess, average=average)[:3]

    expected = theirs if positive is None else [each[positive] for each in theirs]
    assert precision_recall_f1(guess, truth, positive, 3) == pytest.approx(tuple(expected))


@pytest.mark.parametrize("name", ["f1_macro", "precision_macro", "recall_macro"])
def test_means_over_classes_leave_out_those_that_nobody_shows_or_is_given(name):
    """Labels of two of five classes, and answers of three."""
    rng = np.random.default_rng(1)
    truth, guess = rng.integers(0, 2, 40), rng.integers(0, 3, 40)
    kind = name.split("_")[0]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = getattr(metrics, f"{kind}_score")(truth, guess, average="macro")

    ours = precision_recall_f1(guess, truth, None, 5)
    assert ours[("precision", "recall", "f1").index(kind)] == pytest.approx(theirs)
    assert Score(name, truth, tuple(range(5))).score(np.eye(5)[guess]) == pytest.approx(theirs)


def test_the_positive_class_is_the_one_named_or_the_second_of_two():
    assert positive_index("a", ["a", "b", "c"]) == 0
    assert positive_index(None, ["a", "b"]) == 1
    assert positive_index(None, ["a", "b", "c"]) is None
    with pytest.raises(UnknownName, match="no class named 'x'"):
        positive_index("x", ["a", "b"])


def test_shares_may_be_given_by_name_and_are_normalised():
    found = checked_shares({"b": 0.3333, "a": 0.6666}, ["a", "b"])

    np.testing.assert_allclose(found, [0.6666 / 0.9999, 0.3333 / 0.9999])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            [0.5],
            ParameterError,
            r"a share above 0 to each of \['a', 'b'\], Triplet got \[0.5\]; give",
        ),
        ([1.0, 0.0], ParameterError, "class_balance must give a share above 0"),
        ([0.5, float("nan")], ParameterError, "class_balance must give a share above 0"),
        ({"a": 1.0}, ParameterError, "class_balance must give a share above 0"),
        ({"c": 1.0}, UnknownName, "no class named 'c'"),
        ([1.0, 2.0], ParameterError, "Triplet got a class_balance that sums to 3; shares must sum"),
    ],
)
def test_shares_that_are_none_are_refused(given, error, message):
    with pytest.raises(error, match=message):
        checked_shares(given, ["a", "b"], "Triplet")
