"""Reach over shards is what one search over all rows gives, bit for bit, and every two shards meet once."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epoxy import extension
from epoxy.neighbors import Space
from epoxy.neighbors import old as neighbors
from epoxy.shards import Run, Serial
from epoxy.shards.lending import (
    NAMES,
    Answers,
    Held,
    Lending,
    lend,
    lend_to_few,
    met_by,
    typical_distance,
    with_direction,
)
from epoxy.shards.shard import Kept, Shard
from epoxy.shards.vectors import ShardVectors
from epoxy.votes import ABSTAIN


def lending(home, votes, vectors, ends, metric="cosine", room=0) -> tuple[Run, Lending]:
    """Rows cut at `ends`, all of them train rows."""
    ends = [0, *ends, len(vectors)]
    shards = tuple(
        Shard(at, (), start, start, stop - start) for at, (start, stop) in enumerate(pairwise(ends))
    )
    kept = Kept(home / "given")
    kept.folder.mkdir(parents=True)
    for shard in shards:
        rows = slice(shard.train, shard.train + shard.n_train)
        train = np.ones(shard.n_train, dtype=bool)
        kept.save(shard, votes=votes[:, rows], vectors=vectors[rows], train=train)
    over = ShardVectors(None, kept, vectors.shape[1], kept, None)
    lends = (votes != ABSTAIN).any(axis=1) & (votes == ABSTAIN).any(axis=1)
    columns = np.arange(len(votes))
    run = Run(home / "run", Serial(), shards, "")
    return run, Lending(kept, over, shards, columns, lends, metric, Held(room))


def drawn(seed, n_rows, n_sources=3, dimension=4):
    """Votes and vectors, many of them equal, some of zeros."""
    rng = np.random.default_rng(seed)
    vectors = np.round(rng.normal(size=(n_rows, dimension)) * 1.5).astype(np.float32)
    votes = np.where(rng.random((n_sources, n_rows)) < 0.3, rng.integers(2), ABSTAIN)
    return votes.astype(np.int8), vectors


def at_once(votes, vectors, metric, onto=None, own=None) -> Answers:
    """What one search over all rows says."""
    own = votes if own is None else own
    made = Answers.none(own)
    some, asking = with_direction(vectors, metric), np.arange(own.shape[1])
    if onto is not None:
        asking = with_direction(onto, metric)
    elif len(some) < len(vectors):
        asking = some
    space = neighbors.Space(vectors[some], metric)
    other = space if onto is None else neighbors.Space(onto[asking], metric)
    lends = (votes != ABSTAIN).any(axis=1) & (votes == ABSTAIN).any(axis=1)
    support, wanted = (votes[:, some] != ABSTAIN).T & lends, (own[:, asking] == ABSTAIN).T & lends
    found = neighbors.nearest(space, support, other, wanted=wanted)
    for at in range(len(own)):
        near = found.row[:, at] >= 0
        made.lender[at, asking[near]] = some[found.row[near, at]]
        made.distance[at, asking[near]] = found.distance[near, at]
        made.vote[at, asking[near]] = votes[at, some[found.row[near, at]]]
    return made


def same(one: Answers, two: Answers) -> None:
    for name in NAMES:
        assert getattr(one, name).tolist() == getattr(two, name).tolist(), name


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    cuts=st.sets(st.integers(1, 59), max_size=22),
    metric=st.sampled_from(["cosine", "euclidean"]),
    room=st.sampled_from([0, 10**9]),
)
def test_shards_that_meet_find_what_one_search_finds(tmp_path_factory, seed, cuts, metric, room):
    votes, vectors = drawn(seed, 60)
    run, given_shards = lending(
        tmp_path_factory.mktemp("reach"), votes, vectors, sorted(cuts), metric, room
    )

    kept = lend(run, given_shards)

    parts = [[kept.load(shard, name) for shard in run.shards] for name in NAMES]
    found = Answers(*(np.concatenate(each, axis=1) for each in parts))
    same(found, at_once(votes, vectors, metric))


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_rows_from_elsewhere_are_lent_what_one_search_lends(tmp_path, metric):
    votes, vectors = drawn(5, 80)
    asking = drawn(6, 20)
    run, given_shards = lending(tmp_path, votes, vectors, [3, 40], metric)

    found = lend_to_few(run, given_shards, asking[1], asking[0], "few")

    same(found, at_once(votes, vectors, metric, asking[1], asking[0]))


@pytest.mark.parametrize("ends", [[], [2], [4]])
def test_a_row_with_a_twin_is_at_no_distance_whichever_shard_the_twin_is_in(tmp_path, ends):
    vectors = np.array([[0], [5], [6], [6], [6]], dtype=np.float32)
    votes = np.full((1, 5), ABSTAIN, dtype=np.int8)
    run, given_shards = lending(tmp_path, votes, vectors, ends, "euclidean")

    found = typical_distance(run, given_shards.vectors, "euclidean", 5)

    assert found == extension.typical_distance(Space(vectors, "euclidean")) == 0.0


@pytest.mark.parametrize("count", [1, 2, 3, 8, 16, 17])
def test_every_two_shards_meet_once(count):
    shards = [Shard(at, (), at) for at in range(count)]
    pairs = Counter(
        frozenset([each.number, other]) for each in shards for _, other in met_by(each, count)
    )
    most, fewest = (f(len(met_by(each, count)) for each in shards) for f in (max, min))

    assert set(pairs.values()) <= {1}
    assert len(pairs) == count * (count - 1) // 2
    assert most - fewest <= 1  # as much work for each


def test_what_waits_to_be_merged_is_not_kept(tmp_path):
    votes, vectors = drawn(5, 80)
    run, given_shards = lending(tmp_path, votes, vectors, range(4, 80, 4))

    kept = lend(run, given_shards)

    assert kept.folder.name.startswith("nearest-1-")
    assert not list(run.home.glob("reach-*"))
    assert lend(run, given_shards) == kept
