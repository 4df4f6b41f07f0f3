"""Heads: one contract over all of them, and scikit-learn as the oracle."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from attacks import models
from epoxy import heads
from epoxy.errors import (
    AlignmentError,
    LabelError,
    MissingExtra,
    NotFitted,
    ParameterError,
    StoreError,
    VectorError,
)
from epoxy.heads import FineTuned, Head, LinearHead, NearestNeighbors

HEADS = [
    LinearHead(),
    LinearHead(C=(0.1, 10.0)),
    NearestNeighbors(k=3),
]
each_head = pytest.mark.parametrize("head", HEADS, ids=repr)


def blobs(n_classes: int = 2, n_rows: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around one direction per class, and their classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    centres = np.eye(6)[:n_classes] * 3
    return (centres[y] + rng.normal(size=(n_rows, 6))).astype(np.float32), y


def softened(y: np.ndarray, n_classes: int, seed: int = 1) -> np.ndarray:
    noise = np.random.default_rng(seed).dirichlet(np.ones(n_classes), size=len(y))
    return 0.7 * np.eye(n_classes)[y] + 0.3 * noise


@each_head
def test_a_head_learns_labels_and_answers_with_probabilities(head):
    vectors, y = blobs(n_classes=3)
    names = np.array(["bird", "cat", "dog"])

    fitted = clone(head).fit(vectors, names[y])

    answer = fitted.predict_proba(vectors)
    assert isinstance(fitted, Head)
    assert answer.shape == (90, 3)
    np.testing.assert_allclose(answer.sum(axis=1), 1)
    assert fitted.classes_.tolist() == ["bird", "cat", "dog"]
    assert (fitted.predict(vectors) == names[y]).mean() > 0.85


@each_head
@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_hot_probabilities_teach_the_same_head_as_labels(head, n_classes):
    vectors, y = blobs(n_classes)

    hard = clone(head).fit(vectors, y).predict_proba(vectors)
    soft = clone(head).fit(vectors, np.eye(n_classes)[y]).predict_proba(vectors)

    np.testing.assert_allclose(soft, hard, atol=2e-3)


@each_head
def test_a_saved_head_answers_the_same_after_loading(head, tmp_path):
    vectors, y = blobs(3)
    fitted = clone(head).fit(vectors, softened(y, 3))

    fitted.save(tmp_path / "head")
    again = heads.load(tmp_path / "head")

    np.testing.assert_array_equal(again.predict_proba(vectors), fitted.predict_proba(vectors))
    assert type(again) is type(fitted)
    assert not list((tmp_path / "head").glob("*.pkl"))


@each_head
def test_a_class_without_rows_keeps_its_column_with_probability_zero(head):
    vectors, y = blobs(2)

    fitted = clone(head).set_params(classes=["a", "b", "never"]).fit(vectors, y)

    answer = fitted.predict_proba(vectors)
    assert answer.shape == (90, 3)
    assert (answer[:, 2] == 0).all()
    assert set(fitted.predict(vectors)) <= {"a", "b"}


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("C", [0.3, 1.0, 20.0])
def test_labels_give_scikit_learns_logistic_regression(n_classes, C):
    vectors, y = blobs(n_classes)
    by_hand = LogisticRegression(C=C, max_iter=1000).fit(vectors, y)

    head = LinearHead(C=C).fit(vectors, y)

    assert head.coef_.shape == by_hand.coef_.shape
    np.testing.assert_allclose(
        head.predict_proba(vectors), by_hand.predict_proba(vectors), atol=2e-3
    )


@pytest.mark.parametrize("n_classes", [2, 4])
def test_probabilities_give_the_head_of_weighted_copies(n_classes):
    vectors, y = blobs(n_classes)
    soft = softened(y, n_classes)
    copies = LogisticRegression(C=0.7, max_iter=1000, tol=1e-7).fit(
        np.tile(vectors.astype(float), (n_classes, 1)),
        np.repeat(np.arange(n_classes), len(y)),
        sample_weight=soft.T.ravel(),
    )

    head = LinearHead(C=0.7).fit(vectors.astype(float), soft)

    np.testing.assert_allclose(
        head.predict_proba(vectors), copies.predict_proba(vectors), atol=2e-3
    )


def test_of_several_penalties_the_one_with_the_best_held_out_loss_is_taken():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(60, 40)).astype(np.float32)
    y = np.arange(60) % 2

    # the labels are independent of the vectors, so the strongest penalty predicts best
    head = LinearHead(C=(1e-4, 1.0, 1e4)).fit(noise, y)

    assert head.C_ == 1e-4


@pytest.mark.parametrize("k", [1, 4, 9])
def test_labels_give_scikit_learns_nearest_neighbours(k):
    vectors, y = blobs(3)
    new, _ = blobs(3, seed=7)
    by_hand = KNeighborsClassifier(n_neighbors=k, metric="cosine").fit(vectors, y)

    head = NearestNeighbors(k=k).fit(vectors, y)

    np.testing.assert_allclose(head.predict_proba(new), by_hand.predict_proba(new))


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(12)))
def test_the_order_of_the_rows_does_not_matter(order):
    vectors, y = blobs(2, n_rows=12)
    soft = softened(y, 2)
    order = np.array(order)

    for head in (LinearHead(), NearestNeighbors(k=3)):
        plain = clone(head).fit(vectors, soft).predict_proba(vectors)
        mixed = clone(head).fit(vectors[order], soft[order]).predict_proba(vectors)
        np.testing.assert_allclose(mixed, plain, atol=1e-3)


VECTORS = np.eye(3)
BAD_TARGETS = [
    ([0, 1], AlignmentError, "3 rows"),
    ([0, 1, -1], LabelError, "row 2"),
    (["a", None, "b"], LabelError, "row 1"),
    ([0.5, 1, 2], LabelError, "fractions"),
    (np.full((3, 2), 0.9), LabelError, "row 0"),
    (np.full((3, 2), "a"), LabelError, "dtype"),
    (np.ones((3, 1, 1)), LabelError, "shape"),
]


@each_head
@pytest.mark.parametrize(("targets", "error", "names"), BAD_TARGETS)
def test_unusable_targets_are_refused(head, targets, error, names):
    with pytest.raises(error, match=names):
        clone(head).fit(VECTORS, targets)


@pytest.mark.parametrize(
    ("head", "vectors", "targets", "error", "names"),
    [
        (LinearHead(), VECTORS[0], [0], VectorError, "shape"),
        (LinearHead(), VECTORS * np.nan, [0, 1, 1], VectorError, "row 0"),
        (LinearHead(), VECTORS[:0], [], LabelError, "no rows"),
        (LinearHead(), VECTORS, ["spam"] * 3, LabelError, "spam"),
        (LinearHead(classes=["a", "b"]), VECTORS, ["a", "c", "b"], LabelError, "'c'"),
        (LinearHead(classes=["a", "b"]), VECTORS, [0, 1, 2], LabelError, "row 2"),
        (LinearHead(classes=["a", "b", "c"]), VECTORS, np.full((3, 2), 0.5), LabelError, "columns"),
        (LinearHead(classes=[3, 7]), VECTORS, [3, 7, 1], LabelError, "row 2"),
        (LinearHead(C=-1.0), VECTORS, [0, 1, 1], ParameterError, "C=-1.0"),
        (LinearHead(C=(1.0, 2.0), folds=1), VECTORS, [0, 1, 1], ParameterError, "folds=1"),
        (NearestNeighbors(k=0), VECTORS, [0, 1, 1], ParameterError, "k=0"),
        (NearestNeighbors(k=4), VECTORS, [0, 1, 1], ParameterError, "k=4"),
    ],
)
def test_errors(head, vectors, targets, error, names):
    with pytest.raises(error, match=names):
        head.fit(vectors, targets)


@each_head
def test_vectors_of_another_dimension_are_refused(head):
    fitted = clone(head).fit(*blobs())

    with pytest.raises(VectorError, match="dimension 6"):
        fitted.predict_proba(VECTORS)


@pytest.mark.parametrize("head", [*HEADS, FineTuned()], ids=repr)
@pytest.mark.parametrize("ask", ["predict_proba", "save"])
def test_a_head_that_was_not_fitted_says_so(head, ask, tmp_path):
    with pytest.raises(NotFitted, match="fit"):
        getattr(clone(head), ask)(tmp_path)


@pytest.mark.parametrize("name", ["model", "folder"])
def test_a_head_is_not_saved_over_something_else(tmp_path, name):
    (tmp_path / "model").write_text("a file")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "photo").write_text("a file")

    with pytest.raises(StoreError, match=name):
        LinearHead().fit(*blobs()).save(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 9}, "format 9"),
        ({"kind": "Forest"}, "Forest"),
        ({"values": {"C": 1.0}}, "classes"),
    ],
)
def test_a_damaged_head_gets_a_sentence(tmp_path, change, message):
    LinearHead().fit(*blobs()).save(tmp_path)
    record, arrays = models.read(tmp_path)
    models.write(tmp_path, record | change, arrays)

    with pytest.raises(StoreError, match=message):
        heads.load(tmp_path)


def test_fine_tuning_without_torch_names_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(MissingExtra, match=r"FineTuned needs torch.*epoxy-ws\[torch\]"):
        FineTuned().fit(["a", "b"], [0, 1])
