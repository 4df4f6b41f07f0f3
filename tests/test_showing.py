"""What values look like at a prompt and in a notebook."""

from __future__ import annotations

import builtins

import numpy as np
import pytest

import epoxy
from epoxy.errors import MissingExtra

NASTY = "<script>alert('x')</script>"
ESCAPED = "&lt;script&gt;"


def splits() -> tuple[epoxy.Split, epoxy.Split]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 80)
    heard = rng.random((80, 3)) < 0.7
    matrix = np.where(heard, np.where(rng.random((80, 3)) < 0.85, y[:, None], 1 - y[:, None]), -1)
    vectors = rng.normal(size=(80, 4)) + 3 * y[:, None]
    votes = epoxy.Votes(matrix, [NASTY, "b", "c"], ["ham", f"{NASTY}!"])
    split = epoxy.Split(votes, vectors, y)
    return split.rows(slice(0, 50)), split.rows(slice(50, 80))


def test_votes_are_a_pandas_frame_of_class_names():
    votes = epoxy.Votes([[0, -1], [1, 1]], ["a", "b"], ["ham", "spam"])

    frame = votes.to_pandas()

    assert frame.columns.tolist() == ["a", "b"]
    assert frame["a"].tolist() == ["ham", "spam"]
    assert frame["b"].isna().tolist() == [True, False]
    assert frame["b"].cat.categories.tolist() == ["ham", "spam"]


def test_votes_without_pandas_say_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest, **more):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)

    with pytest.raises(MissingExtra, match=r"to_pandas needs pandas; run: pip install pandas"):
        epoxy.Votes([[0, 1]]).to_pandas()


def test_votes_splits_and_sessions_are_told_in_a_line_and_in_a_table():
    train, dev = splits()
    session = epoxy.Session(train, dev, epoxy.Epoxy(radius=0.0))

    assert repr(train.votes).startswith("Votes(50 rows × 3 sources, 2 classes, ")
    assert repr(dev).endswith("4-d vectors, 30 true labels)")
    assert repr(session).startswith(
        "Session(epoxy, 50 train and 30 dev rows, 3 sources, 30 hand labels, accuracy 0."
    )
    session.switch("b", False)
    for value in (train.votes, dev, session):
        page = value._repr_html_()
        assert page.count("<tr>") == 4
        assert NASTY not in page
        assert ESCAPED in page
    assert "<td>False</td>" in session._repr_html_()


def test_a_search_is_told_in_a_line_and_in_a_table_of_its_best_settings():
    train, dev = splits()
    session = epoxy.Session(train, dev, epoxy.Epoxy())

    tuned = session.tune()

    assert repr(tuned) == f"Tuned({tuned.search})"
    assert repr(tuned.search).startswith("Search(accuracy 0.")
    assert "array" not in repr(tuned.search)
    shown = min(10, len(tuned.search.trials))
    assert tuned._repr_html_().count("<tr>") == shown + 1
    assert NASTY not in tuned._repr_html_()


def test_what_a_session_holds_is_told_in_a_line_however_large_it_is():
    train, dev = splits()
    session = epoxy.Session(train, dev, epoxy.Epoxy(radius=0.0))
    change = session.label(3, "ham")

    inner = "Workspace(50 and 30 rows, 3 sources, 31 hand labels)"
    assert repr(session.state) == f"SessionState({inner})"
    assert repr(session.outcome) == f"Outcome({inner})"
    assert repr(change) == f"Change({change})"
    assert repr(session.state.records) == "Records(1 rows labelled since, HandLabels(31 rows))"
    assert repr(session.state.workspace.sources[1]) == "Source('b', radius=0.0, on)"
    assert repr(epoxy.Session(train).state).startswith("SessionState(Workspace(50 rows,")
