from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import epoxy
from epoxy.errors import (
    AlignmentError,
    LabelError,
    ParameterError,
    UnknownName,
    VectorError,
    VoteError,
)


def test_coverage_counts_votes_not_abstentions():
    votes = epoxy.Votes([[0, -1], [1, -1], [-1, -1], [0, 1]])

    assert votes.coverage.tolist() == [0.75, 0.25]
    assert votes.covered.tolist() == [True, True, False, True]
    assert votes.polarity == (("0", "1"), ("1",))


def test_votes_do_not_share_memory_with_what_they_were_made_from():
    matrix = np.array([[0, 1]])
    votes = epoxy.Votes(matrix)

    matrix[0, 0] = 1

    assert votes.matrix.tolist() == [[0, 1]]
    with pytest.raises(ValueError, match="read-only"):
        votes.matrix[0, 0] = 1


def test_more_than_127_classes_are_kept_exactly():
    votes = epoxy.Votes([[0, 300]])

    assert votes.n_classes == 301
    assert votes.matrix.tolist() == [[0, 300]]


def test_signed_votes_read_zero_as_abstain():
    votes = epoxy.Votes.from_signed([[1, 0], [-1, 1]], classes=["ham", "spam"])

    assert votes.matrix.tolist() == [[1, -1], [0, 1]]
    assert votes.to_signed().tolist() == [[1, 0], [-1, 1]]
    assert votes.to_signed().dtype == np.int64


@given(arrays(np.int64, (4, 3), elements=st.integers(-1, 2)))
def test_selecting_rows_and_sources_keeps_their_votes(matrix):
    votes = epoxy.Votes(matrix, sources="abc", classes=["x", "y", "z"])

    assert votes.rows([2, 0]).only(["c", "a"]).matrix.tolist() == matrix[[2, 0]][:, [2, 0]].tolist()


@pytest.mark.parametrize("large", [3e38, -3e38, 2e18])
def test_vectors_whose_squares_overflow_are_refused_everywhere(large):
    vectors = np.ones((3, 2), dtype=np.float32)
    vectors[1, 1] = large
    message = r"vectors must lie within ±1e\+18, got .* in row 1; divide all vectors by a constant"

    for take in (
        lambda: epoxy.Split(epoxy.Votes(np.zeros((3, 1), int)), vectors),
        lambda: epoxy.neighbors.Space(vectors),
        lambda: epoxy.encoders.Precomputed(vectors).encode(["a", "b", "c"]),
        lambda: epoxy.heads.LinearHead().fit(vectors, [0, 1, 0]),
        lambda: epoxy.theory.smoothness([0, 1, 0], vectors, [0.1]),
    ):
        with pytest.raises(VectorError, match=message):
            take()


def test_half_precision_vectors_are_widened_exactly():
    half = np.array([[0.1, 0.2]], dtype=np.float16)

    split = epoxy.Split(epoxy.Votes([[0]]), half)

    assert split.vectors.dtype == np.float32
    assert (split.vectors == half).all()


@pytest.mark.parametrize(
    "y",
    [
        ["ham", "spam", None],
        [0, 1, -1],
        np.array(["ham", "spam", None], dtype=object),
        ["ham", "spam", float("nan")],
        [0.0, 1.0, -1.0],
    ],
)
def test_true_labels_may_be_names_or_indices_and_unknown(y):
    votes = epoxy.Votes(np.zeros((3, 1), int), classes=["ham", "spam"])

    split = epoxy.Split(votes, y=y)

    assert split.y.tolist() == [0, 1, -1]
    assert split.labelled.tolist() == [True, True, False]


def test_splits_can_be_cut_and_given_other_votes():
    votes = epoxy.Votes([[0], [1], [-1]])
    split = epoxy.Split(votes, np.eye(3), y=[0, 1, 1], ids=["a", "b", "c"])

    part = split.rows([2, 0])
    other = split.with_votes(epoxy.Votes([[1], [1], [1]]))

    assert part.ids.tolist() == ["c", "a"]
    assert part.y.tolist() == [1, 0]
    assert part.vectors.tolist() == np.eye(3)[[2, 0]].tolist()
    assert other.votes.matrix.ravel().tolist() == [1, 1, 1]
    assert other.y.tolist() == [0, 1, 1]


def votes(*matrix, **more):
    return epoxy.Votes(list(matrix), **more)


def split(rows=2, *, ids=None, y=None, vectors=None, classes=("ham", "spam")):
    return epoxy.Split(epoxy.Votes(np.zeros((rows, 1), int), classes=classes), vectors, y, ids)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: votes([0, 300], sources="ab", classes="xy"), VoteError, "'b' votes 300 on row 0"),
        (lambda: votes([-2, 0]), VoteError, "votes -2 on row 0"),
        (lambda: votes([10**12]), VoteError, "below 32767"),
        (lambda: votes(0, 1), VoteError, "a matrix of rows"),
        (lambda: votes(["spam"]), VoteError, "class indices"),
        (lambda: votes([True]), VoteError, "class indices"),
        (lambda: votes([0.5]), VoteError, "whole numbers"),
        (lambda: votes([np.nan]), VoteError, "whole numbers"),
        (lambda: votes([0, 1, 1], sources="aba"), VoteError, r"\['a'\] more than once"),
        (lambda: votes([0, 1], sources="a"), AlignmentError, "2 columns and 1 source names"),
        (lambda: votes([0], classes=["spam"]), LabelError, r"\['spam'\]"),
        (lambda: votes([0], classes="aa"), LabelError, "must differ"),
        (lambda: votes([0], classes=3), ParameterError, "a list of texts, got 3"),
        (lambda: votes([0], [0], [0], sequences=list("aba")), AlignmentError, "sequence 'a'"),
        (lambda: votes([0], [0], sequences=["a"]), AlignmentError, "one sequence per row"),
        (lambda: votes([0], sources=["link"]).column("lnk"), UnknownName, "did you mean 'link'"),
        (lambda: votes([0, 2]).to_signed(), VoteError, "these have 3"),
        (lambda: epoxy.Votes.from_signed([[2]]), VoteError, "holds 2 on row 0"),
        (lambda: epoxy.Split([[0]]), VoteError, "got list"),
        (lambda: split(vectors=np.ones((5, 2))), AlignmentError, "'vectors': 5"),
        (lambda: split(y=[0, 1, 0]), AlignmentError, "'y': 3"),
        (lambda: split().with_votes(votes([1])), AlignmentError, "row-aligned"),
        (lambda: split(vectors=[1.0, 2.0]), VectorError, "rows × dimension"),
        (lambda: split(vectors=[["a"], ["b"]]), VectorError, "dtype <U1"),
        (lambda: split(vectors=[[1, 1], [1, np.nan]]), VectorError, "first row 1"),
        (lambda: split(vectors=[[1, 1], [1, np.inf]]), VectorError, "first row 1"),
        (lambda: split(vectors=[[1, 1], [1, 1e39]]), VectorError, "first row 1"),
        (lambda: split(y=["ham", "eggs"]), LabelError, "'eggs' on row 1"),
        (lambda: split(y=[0, 2]), LabelError, "2 on row 1"),
        (lambda: split(y=[[0], [1]]), LabelError, "one label per row"),
        (
            lambda: split(y=["ham", "SPAM"], ids=["a", "b"]),
            LabelError,
            "id 'b'; did you mean 'spam'",
        ),
    ],
)
def test_what_no_votes_or_split_can_be_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
