from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoxy.neighbors import ivf
from epoxy.neighbors.ivf import Cells, nearest
from epoxy.neighbors.knn import merge_nearest, nearest_of_each, nearest_rows


def rows_of(seed: int, count: int, metric: str, values: int = 0) -> np.ndarray:
    """Rows to search; with few `values` many are equally far."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, 6)) if not values else rng.integers(1, values + 1, (count, 6))
    if metric == "cosine":
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32)


def oracle(queries: np.ndarray, train: np.ndarray, metric: str) -> np.ndarray:
    """All distances, in float64."""
    squares = np.square(queries[:, None].astype(float) - train[None]).sum(axis=2)
    return np.sqrt(squares) if metric == "euclidean" else squares / 2


def test_of_equally_near_rows_the_first_is_taken():
    train = np.eye(40, dtype=np.float32)[:, ::-1].copy()
    query = np.full((1, 40), 40**-0.5, dtype=np.float32)

    assert nearest_rows(query, train, 5)[0].tolist() == [[0, 1, 2, 3, 4]]
    assert nearest_of_each(query, train, [np.arange(40)])[0].tolist() == [[0]]


def test_equal_rows_are_at_distance_0_whatever_block_they_fall_into():
    rows = rows_of(0, 3000, "cosine")
    rows[2999] = rows[5]

    near, distance = nearest_rows(rows, rows, 2)

    assert near[[5, 2999]].tolist() == [[5, 2999]] * 2
    assert (distance[[5, 2999]] == 0.0).all()


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_lists_found_block_by_block_merge_to_those_of_all_rows(metric):
    train, queries = rows_of(0, 2500, metric), rows_of(1, 50, metric)
    one = nearest_rows(queries, train[:900], 8, metric=metric)
    other = nearest_rows(queries, train[900:], 8, metric=metric)

    merged = merge_nearest(one, (other[0] + 900, other[1]), 8)

    rows, distance = nearest_rows(queries, train, 8, metric=metric)
    assert (merged[0] == rows).all()
    assert (merged[1] == distance).all()


def clustered(seed: int, count: int, groups: int = 40) -> np.ndarray:
    rng = np.random.default_rng(seed)
    middle = rng.normal(size=(groups, 24))
    rows = middle[rng.integers(0, groups, count)] + 0.4 * rng.normal(size=(count, 24))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    metric=st.sampled_from(["cosine", "euclidean"]),
    k=st.integers(1, 60),
    copies=st.integers(0, 30),
    same=st.booleans(),
)
def test_rows_that_stand_several_times_are_neighbours_each(seed, metric, k, copies, same):
    train = rows_of(seed, 30, metric)
    train = np.vstack([train, train[np.random.default_rng(seed).integers(0, 30, copies)]])
    queries = train if same else rows_of(seed + 1, 20, metric)

    rows, distance = nearest(queries, train, k, same=same, metric=metric)

    every = oracle(queries, train, metric)
    if same:
        np.fill_diagonal(every, np.inf)
        assert (rows != np.arange(len(train))[:, None]).all()
    assert all(len(set(each)) == rows.shape[1] == min(k, len(train) - same) for each in rows)
    np.testing.assert_allclose(distance, np.sort(every, axis=1)[:, : rows.shape[1]], atol=2e-6)
    np.testing.assert_allclose(distance, np.take_along_axis(every, rows, axis=1), atol=2e-6)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_cells_that_are_all_asked_give_what_comparing_everything_gives(metric):
    train, queries = clustered(0, 1500), clustered(1, 70)
    cells = Cells.of(train, metric)

    rows, distance = cells.nearest(queries, 12, len(cells.centre))

    expected = nearest_rows(queries, train, 12, metric=metric)
    np.testing.assert_allclose(distance, expected[1], atol=1e-6)
    assert (rows == expected[0]).mean() > 0.999


def test_the_threads_that_search_change_nothing(monkeypatch):
    monkeypatch.setattr(ivf, "LARGE", 1000)
    monkeypatch.setattr(ivf, "WORTH", 1.0)
    train = clustered(0, 3000)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    alone = nearest(train, train, 5, same=True)
    monkeypatch.delenv("OMP_NUM_THREADS")

    together = nearest(train, train, 5, same=True)

    assert (alone[0] == together[0]).all()
    assert (alone[1] == together[1]).all()
