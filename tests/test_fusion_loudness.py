"""Labels say how loud the columns of a table are in what they teach; embeddings are heard in one way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import integrate

import epoxy
from epoxy import Fusion, Session, Split, Votes
from epoxy.errors import StoreError
from epoxy.fusion.correction import Problem, evidence
from epoxy.fusion.features import View
from epoxy.fusion.loudness import COLUMNS, LOUD, USUAL, ways
from epoxy.shards import label
from oracles.fusion import Oracle
from shard_projects import agree, write_project

BOTH = ["no", "yes"]


def board(n_rows: int, seed: int, n_classes: int = 2) -> Split:
    """Rows of zeros and ones whose class counts six of them; sources err on a third of their rows."""
    rng = np.random.default_rng(seed)
    table = rng.integers(2, size=(n_rows, 8)).astype(float)
    count = table[:, :6].sum(axis=1)
    y = (count > 3).astype(int) if n_classes == 2 else np.digitize(count, [2.5, 3.5])
    names = np.arange(6) % n_classes
    speaks = rng.random((n_rows, 6)) < np.where(
        y[:, None] == names, 0.4, 0.2 / (n_classes - 1) + 0.02
    )
    votes = np.where(speaks, names, -1)
    classes = BOTH if n_classes == 2 else ["low", "middle", "high"]
    return Split(Votes(votes, classes=classes), table, y)


def hidden(split: Split) -> Split:
    return Split(split.votes, split.vectors)


@pytest.fixture(scope="module")
def taught() -> Fusion:
    return Fusion().fit(hidden(board(300, 0)), board(80, 1))


def right(model: Fusion, split: Split) -> float:
    return float((model.predict_proba(split).argmax(axis=1) == split.truth).mean())


def test_a_class_that_counts_columns_is_learned_from_a_hundred_labels(
    taught: Fusion, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = board(1000, 2)

    assert taught.fitted_.corrected is not None
    assert taught.fitted_.corrected.way >= COLUMNS
    monkeypatch.setattr("epoxy.fusion.teaching.ways", lambda view: ways(view)[:1])
    usual = Fusion().fit(hidden(board(300, 0)), board(80, 1))

    assert right(taught, others) > right(usual, others) + 0.02


@pytest.mark.parametrize("n_classes", [2, 3])
def test_columns_heard_as_they_are_follow_the_formulas(n_classes: int) -> None:
    train, hand, other = (board(n, at, n_classes) for at, n in enumerate((200, 80, 40)))

    model, oracle = Fusion().fit(hidden(train), hand), Oracle(hidden(train), hand)

    np.testing.assert_allclose(model.predict_proba(other), oracle.proba(other), atol=1e-6)
    np.testing.assert_allclose(model.held_out_, oracle.held, atol=1e-6)
    assert model.fitted_.view is not None
    assert model.fitted_.corrected is not None
    chosen = ways(model.fitted_.view)[model.fitted_.corrected.way]
    np.testing.assert_allclose(chosen, np.broadcast_to(oracle.loud, chosen.shape))


def test_few_labels_leave_columns_as_loud_as_ever() -> None:
    model = Fusion().fit(hidden(board(300, 0)), board(10, 1))

    assert model.fitted_.corrected is not None
    assert model.fitted_.corrected.way == USUAL


def test_embeddings_are_heard_in_one_way() -> None:
    rng = np.random.default_rng(0)

    wide, narrow = (View.over(rng.normal(size=(300, n)))[0] for n in (128, 127))

    assert len(ways(wide)) == 1
    assert len(ways(narrow)) == 4


def test_vectors_that_are_all_alike_are_heard_in_one_way() -> None:
    assert len(ways(View.over(np.ones((30, 4)))[0])) == 1


def test_columns_as_they_are_have_the_length_they_are_told() -> None:
    table = np.random.default_rng(0).normal(size=(2000, 12)) @ np.diag(np.linspace(1, 3, 12))
    view, features = View.over(table)

    heard = features.matrix * ways(view)[COLUMNS]

    assert np.sqrt((heard**2).sum(axis=1).mean()) == pytest.approx(LOUD[0], rel=0.1)


def test_evidence_is_near_the_integral_over_what_is_learned() -> None:
    """One row, one feature: the labels' probability, whatever the weight and the bias are."""
    rows, scale = 3, 0.8
    features = scale * np.array([[1.0], [-1.0], [0.5]])
    y, offset = np.array([1, 0, 1]), np.array([[0.3, -0.3], [0.1, -0.1], [-0.2, 0.2]])
    likelihood = np.where(np.eye(2)[y] == 1, 0.99, 0.01)
    nothing = np.zeros((1, rows, 2))
    problem = Problem(
        offset, nothing, features, None, np.zeros((rows, 0)), y, likelihood, offset, 1.0, np.ones(1)
    )

    def density(bias: float, weight: float) -> float:
        # a difference d between two classes has logits ± d / √2
        moved = (features[:, 0] * weight + bias / np.sqrt(3)) / np.sqrt(2)
        logits = offset + np.stack([moved, -moved], axis=1)
        proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        seen = float(np.prod((proba * likelihood).sum(axis=1)))
        return seen * float(np.exp(-(weight**2 + bias**2) / 2)) / (2 * np.pi)

    exact = integrate.dblquad(density, -8, 8, -8, 8, epsabs=1e-9)[0]

    assert evidence(problem) == pytest.approx(np.log(exact), abs=0.05)


def test_evidence_is_the_same_from_rows_and_from_features() -> None:
    rng = np.random.default_rng(0)
    features, offset = rng.normal(size=(12, 3)), np.zeros((12, 3))
    y = rng.integers(3, size=12)
    likelihood = np.where(np.eye(3)[y] == 1, 0.95, 0.025)
    rest = (np.zeros((12, 0)), y, likelihood, offset, 1.0, np.full(1, 12.0))
    said = rng.normal(size=(1, 12, 3))
    by_features = Problem(offset, said, features, None, *rest)
    by_rows = Problem(offset, said, features, features @ features.T, *rest)

    values = [evidence(each) for each in (by_features, by_rows)]

    assert values[0] == pytest.approx(values[1], abs=0.05)


def test_a_saved_model_keeps_how_columns_are_heard(taught: Fusion, tmp_path: Path) -> None:
    others = board(50, 3)

    again = epoxy.load(taught.save(tmp_path / "model"))

    np.testing.assert_array_equal(again.predict_proba(others), taught.predict_proba(others))
    assert again.fitted_.corrected.way >= COLUMNS
    assert str(again.explain(others, 3)) == str(taught.explain(others, 3))


def test_a_saved_way_that_does_not_exist_is_refused(taught: Fusion) -> None:
    state = taught.to_state()

    with pytest.raises(StoreError, match="its features do not fit the rest"):
        Fusion.from_state(replace(state, values={**state.values, "way": 4}))


def test_explanations_name_the_hand_labels_by_how_columns_are_heard(taught: Fusion) -> None:
    """What single labelled rows add up to is what they taught, whichever way features are heard."""
    others, fitted = board(30, 4), taught.fitted_
    rows = taught.rows_of(others)
    assert fitted.corrected is not None
    assert fitted.corrected.labelled is not None
    assert fitted.view is not None
    assert rows.features is not None
    loud = ways(fitted.view)[fitted.corrected.way] ** 2
    like = (rows.features * loud) @ fitted.corrected.labelled.features.T
    like = like + fitted.spread(rows.cast) @ fitted.spread(taught.hand_votes).T

    added = like @ fitted.corrected.dual

    np.testing.assert_allclose(added, fitted.second(rows)[1], atol=1e-4)
    voices = [v for v in taught.explain(others, 5).voices if v.source == "hand labels"]
    scale = fitted.scale(rows, fitted.evidence(rows))[5]
    first, second = np.argsort(-taught.predict_proba(others)[5])
    pulls = scale * like[5] * (fitted.corrected.dual[:, first] - fitted.corrected.dual[:, second])
    shown = [v.weight for v in voices if v.origin == "hand"]
    np.testing.assert_allclose(shown, pulls[np.argsort(-np.abs(pulls))][: len(shown)], atol=1e-4)


def test_a_session_hears_columns_as_a_fit_does() -> None:
    """Labels come one after another, and the way changes once there are enough."""
    train, dev = hidden(board(300, 0)), board(80, 1)
    session = Session(train, Split(dev.votes, dev.vectors))

    for row in range(80):
        session.label(row, BOTH[dev.truth[row]], split="dev", chosen="random")
    fresh = Fusion().fit(train, Split(dev.votes, dev.vectors, dev.y, chosen=["random"] * 80))

    assert session.model().fitted_.corrected.way >= COLUMNS
    np.testing.assert_allclose(session.probabilities, fresh.predict_proba(train), atol=1e-7)


def test_shards_hear_columns_as_memory_does(tmp_path: Path) -> None:
    rows = board(420, 0)
    y = np.where(np.arange(420) < 120, rows.truth, -1)
    votes, table = rows.votes.matrix.astype(np.int8), np.asarray(rows.vectors, dtype=np.float32)
    home = write_project(tmp_path / "board", votes, table, y, BOTH)

    session = Session.open(home, graph=False)
    in_memory = pq.read_table(session.export(home / "in-memory.parquet"))

    assert session.model().fitted_.corrected.way >= COLUMNS
    agree(in_memory, pq.read_table(label(home, rows_per_shard=100).path), within=1e-6)


def test_the_report_says_how_columns_are_heard(taught: Fusion) -> None:
    few = Fusion().fit(hidden(board(300, 0)), board(10, 1))

    told = [str(each.report(board(50, 3))) for each in (taught, few)]

    assert "hand labels teach the columns of the vectors as they are, at length " in told[0]
    assert "teach the columns" not in told[1]
