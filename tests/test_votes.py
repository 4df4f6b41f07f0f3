from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import epoxy
from epoxy.errors import AlignmentError, LabelError, UnknownName, VectorError, VoteError


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


def test_a_vote_outside_the_classes_is_refused_before_it_could_wrap():
    with pytest.raises(VoteError, match=r"source 'b' votes 300 on row 1; expected -1 to abstain"):
        epoxy.Votes([[0, 0], [0, 300]], sources=["a", "b"], classes=["x", "y"])
    with pytest.raises(VoteError, match="votes -2 on row 0"):
        epoxy.Votes([[-2, 0]])


def test_more_than_127_classes_are_kept_exactly():
    votes = epoxy.Votes([[0, 300]])

    assert votes.n_classes == 301
    assert votes.matrix.tolist() == [[0, 300]]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([0, 1], "votes are a matrix of rows × sources"),
        ([["spam"]], "votes are class indices"),
        ([[0.5]], "votes are whole numbers"),
        ([[float("nan")]], "votes are whole numbers"),
        ([[True]], "votes are class indices"),
    ],
)
def test_what_is_not_a_matrix_of_votes_is_refused(matrix, message):
    with pytest.raises(VoteError, match=message):
        epoxy.Votes(matrix)


def test_duplicate_source_names_are_refused():
    with pytest.raises(VoteError, match=r"source names must differ, got \['a'\] more than once"):
        epoxy.Votes([[0, 1, 1]], sources=["a", "b", "a"])


def test_one_name_per_column_is_needed():
    with pytest.raises(AlignmentError, match="2 columns and 1 source names"):
        epoxy.Votes([[0, 1]], sources=["a"])


def test_one_class_only_is_refused():
    with pytest.raises(LabelError, match="at least 2 classes, got \\['spam'\\]"):
        epoxy.Votes([[0]], classes=["spam"])


def test_class_names_must_differ():
    with pytest.raises(LabelError, match="class names must differ"):
        epoxy.Votes([[0]], classes=["a", "a"])


def test_signed_votes_read_zero_as_abstain():
    votes = epoxy.Votes.from_signed([[1, 0], [-1, 1]], classes=["ham", "spam"])

    assert votes.matrix.tolist() == [[1, -1], [0, 1]]
    assert votes.to_signed().tolist() == [[1, 0], [-1, 1]]
    assert votes.to_signed().dtype == np.int64


def test_signed_votes_outside_minus_one_to_one_are_refused():
    with pytest.raises(VoteError, match="source 'source_0' holds 2 on row 0; signed votes are"):
        epoxy.Votes.from_signed([[2]])


def test_only_two_classes_can_be_signed():
    with pytest.raises(VoteError, match="signed votes know two classes, these have 3"):
        epoxy.Votes([[0, 2]]).to_signed()


@given(arrays(np.int64, (4, 3), elements=st.integers(-1, 2)))
def test_selecting_rows_and_sources_keeps_their_votes(matrix):
    votes = epoxy.Votes(matrix, sources="abc", classes=["x", "y", "z"])

    assert votes.rows([2, 0]).only(["c", "a"]).matrix.tolist() == matrix[[2, 0]][:, [2, 0]].tolist()


def test_an_unknown_source_is_named_with_the_nearest_one():
    with pytest.raises(UnknownName, match="no source named 'lnk'; did you mean 'link'"):
        epoxy.Votes([[0]], sources=["link"]).column("lnk")


def test_a_split_must_be_row_aligned():
    votes = epoxy.Votes(np.zeros((10, 1), int))

    with pytest.raises(AlignmentError, match=r"row-aligned, got {'votes': 10, 'vectors': 5}"):
        epoxy.Split(votes, vectors=np.ones((5, 2)))
    with pytest.raises(AlignmentError, match=r"'y': 3"):
        epoxy.Split(votes, y=[0, 1, 0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e39])
def test_vectors_must_be_finite(bad):
    vectors = np.ones((3, 2))
    vectors[1, 1] = bad

    with pytest.raises(VectorError, match="NaN or infinity in 1 rows, first row 1"):
        epoxy.Split(epoxy.Votes(np.zeros((3, 1), int)), vectors)


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
        lambda: epoxy.theory.near_share(vectors, [0.1]),
    ):
        with pytest.raises(VectorError, match=message):
            take()


def test_vectors_must_be_a_table_of_numbers():
    votes = epoxy.Votes(np.zeros((2, 1), int))

    with pytest.raises(VectorError, match="vectors are numbers, rows × dimension"):
        epoxy.Split(votes, [1.0, 2.0])
    with pytest.raises(VectorError, match="dtype <U1"):
        epoxy.Split(votes, [["a"], ["b"]])


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


@pytest.mark.parametrize(
    ("y", "what"), [(["ham", "eggs"], "'eggs' on row 1"), ([0, 2], "2 on row 1")]
)
def test_an_unknown_label_is_refused(y, what):
    votes = epoxy.Votes(np.zeros((2, 1), int), classes=["ham", "spam"])

    with pytest.raises(LabelError, match=f"y holds {what}; expected one of"):
        epoxy.Split(votes, y=y)


def test_an_unknown_label_is_told_by_the_id_of_its_row_and_the_nearest_class():
    votes = epoxy.Votes(np.zeros((2, 1), int), classes=["ham", "spam"])

    told = r"y holds 'SPAM' on the row with id 'r7'; did you mean 'spam'\? expected one of"
    with pytest.raises(LabelError, match=told):
        epoxy.Split(votes, y=["ham", "SPAM"], ids=["r3", "r7"])


def test_labels_come_one_per_row():
    with pytest.raises(LabelError, match="one label per row"):
        epoxy.Split(epoxy.Votes(np.zeros((2, 1), int)), y=[[0], [1]])


def test_a_split_needs_votes():
    with pytest.raises(VoteError, match="a Split needs Votes first, got list"):
        epoxy.Split([[0]])


def test_rows_of_one_sequence_must_be_adjacent():
    with pytest.raises(AlignmentError, match="rows of sequence"):
        epoxy.Votes(np.zeros((3, 1), int), sequences=["a", "b", "a"])
    with pytest.raises(AlignmentError, match="one sequence per row"):
        epoxy.Votes(np.zeros((3, 1), int), sequences=["a"])


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
    with pytest.raises(AlignmentError, match="row-aligned"):
        split.with_votes(epoxy.Votes([[1]]))
