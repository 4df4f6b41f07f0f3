from __future__ import annotations

import itertools

import numpy as np
import pytest

from epoxy.label_models import Triplet
from epoxy.sequences import Chain, learn_dependencies
from epoxy.sequences.dependencies import Linked
from epoxy.sequences.movement import vote_counts
from epoxy.votes import Votes

NAMES = list("abcdefghij")


def votes_with_copies(
    copies, *, n_rows=5000, n_classes=2, one_sided=False, seed=0, share=0.7
) -> tuple[Votes, np.ndarray]:
    """Ten sources; each (from, to) in `copies` makes one repeat another on a share of the rows."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, n_classes, n_rows)
    matrix = np.full((n_rows, 10), -1)
    for source in range(10):
        if one_sided:
            named = source % n_classes
            fires = rng.random(n_rows) < np.where(label == named, 0.35, 0.08)
            matrix[fires, source] = named
            continue
        wrong = (label + rng.integers(1, n_classes, n_rows)) % n_classes
        matrix[:, source] = np.where(rng.random(n_rows) < rng.uniform(0.65, 0.9), label, wrong)
        matrix[rng.random(n_rows) < 0.3, source] = -1
    for a, b in copies:
        same = rng.random(n_rows) < share
        matrix[same, b] = matrix[same, a]
    return Votes(matrix, NAMES), label


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_sources_that_copy_are_found_and_no_others(n_classes, one_sided):
    copies = [(0, n_classes), (1, 1 + n_classes)]
    votes, _ = votes_with_copies(copies, n_classes=n_classes, one_sided=one_sided)

    found = learn_dependencies(votes)

    assert set(found) == {(NAMES[a], NAMES[b]) for a, b in copies}


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_independent_sources_are_left_in_peace(one_sided, seed):
    votes, _ = votes_with_copies([], one_sided=one_sided, seed=seed)

    assert len(learn_dependencies(votes)) == 0


def test_three_copies_of_one_source_form_a_group():
    votes, _ = votes_with_copies([(0, 2), (0, 4)])

    found = set(learn_dependencies(votes))

    assert {("a", "c"), ("a", "e")} <= found <= {("a", "c"), ("a", "e"), ("c", "e")}


def test_learned_pairs_can_be_given_to_the_triplet_model():
    votes, label = votes_with_copies([(0, 2), (0, 4)], seed=1)

    plain, honest = (
        Triplet(dependencies=pairs).fit(votes) for pairs in ((), learn_dependencies(votes))
    )

    truth = [(votes.matrix[:, s] == label)[votes.matrix[:, s] >= 0].mean() for s in range(10)]
    assert np.abs(honest.accuracy_ - truth).max() < np.abs(plain.accuracy_ - truth).max()


def test_one_word_makes_a_chain_learn_and_honour_dependencies():
    votes, label = votes_with_copies([(0, 2), (0, 4), (0, 6)], seed=2, share=0.9)

    plain, honest = (Chain(1, dependencies=each).fit(votes) for each in ((), "learn"))

    assert {("a", "c"), ("a", "e"), ("a", "g")} <= set(honest.dependencies_)
    loss = [
        -np.log(model.predict_proba(votes)[np.arange(len(label)), label]).mean()
        for model in (plain, honest)
    ]
    assert loss[1] < loss[0]


def test_dependent_pairs_never_meet_in_a_triplet_on_one_row():
    votes, label = votes_with_copies([(0, 2)], seed=3, share=0.9)

    accuracy = Chain(1, dependencies=[("a", "c")]).fit(votes).accuracy_

    # 5,000 rows of coverage 0.7: agreement has standard error 0.02, triplet medians less
    truth = [(votes.matrix[:, s] == label)[votes.matrix[:, s] >= 0].mean() for s in range(10)]
    assert accuracy == pytest.approx(truth, abs=0.04)


def one_coin(theta, coverage):
    """Pr(vote | class) of sources with one accuracy, whose silence says nothing; two classes."""
    said = coverage[:, None, None] * (
        (1 - theta)[:, None, None] / 2 + theta[:, None, None] * np.eye(2)
    )
    return np.concatenate([np.tile((1 - coverage)[:, None, None], (1, 1, 2)), said], axis=1)


def pair_setting() -> tuple[Votes, np.ndarray, np.ndarray]:
    votes, _ = votes_with_copies([(0, 2)], seed=4)
    counts = vote_counts(votes.matrix, np.arange(5000), np.arange(5000), 2)
    tables = one_coin(np.linspace(0.3, 0.8, 10), votes.coverage)
    return votes, counts, tables


def test_a_corrected_pair_is_a_distribution_with_the_sources_own_tables():
    _, counts, tables = pair_setting()
    barred = np.zeros((10, 10), dtype=bool)
    barred[0, 2] = barred[2, 0] = True

    found = Linked.of(barred, counts, tables, np.array([0.5, 0.5]))

    joint = np.exp(found.terms[0]) * tables[0][:, None, :] * tables[2][None, :, :]
    assert joint.sum(axis=1) == pytest.approx(tables[0], abs=1e-6)
    assert joint.sum(axis=0) == pytest.approx(tables[2], abs=1e-6)


def test_a_corrected_pair_agrees_as_often_as_observed():
    votes, counts, _ = pair_setting()
    tables = one_coin(np.full(10, 0.55), votes.coverage)
    barred = np.zeros((10, 10), dtype=bool)
    barred[0, 2] = True

    found = Linked.of(barred | barred.T, counts, tables, np.array([0.5, 0.5]))

    joint = (np.exp(found.terms[0]) * tables[0][:, None, :] * tables[2][None, :, :]).mean(axis=2)
    a, b = votes.matrix[:, 0], votes.matrix[:, 2]
    both, alike = (a >= 0) & (b >= 0), (a == b) & (a >= 0)
    assert joint[1:, 1:].sum() == pytest.approx(both.mean(), abs=1e-3)
    assert np.trace(joint[1:, 1:]) == pytest.approx(alike.mean(), abs=1e-3)


def test_cycles_of_dependencies_are_corrected_along_the_strongest_edges():
    votes, _ = votes_with_copies([(0, 2), (0, 4)], seed=6)

    model = Chain(1, dependencies=list(itertools.combinations("ace", 2))).fit(votes)

    assert len(model.dependencies_) == 3
    assert len(model.linked_.pairs) == 2


def test_evidence_with_dependencies_equals_enumeration_of_the_pair():
    votes, _ = votes_with_copies([(0, 2)], seed=7)
    model = Chain(1, dependencies=[("a", "c")]).fit(votes)
    tables = np.exp(model.by_place_[0])
    joint = np.exp(model.linked_.terms[0]) * tables[0][:, None, :] * tables[2][None, :, :]

    found = model.predict_proba(votes)

    for row in range(20):
        said = votes.matrix[row] + 1
        share = model.class_balance_ * joint[said[0], said[2]]
        for source in set(range(10)) - {0, 2}:
            share = share * tables[source, said[source]]
        assert found[row] == pytest.approx(share / share.sum(), abs=1e-9)


def test_the_result_is_a_table_and_a_list_of_pairs():
    votes, _ = votes_with_copies([(0, 2)])

    found = learn_dependencies(votes)

    assert list(found) == [("a", "c")]
    assert found.rows[0]["q_value"] < 0.01
    assert found.to_dict()["rows"] == [dict(found.rows[0])]
    assert "<td>a</td><td>c</td>" in found._repr_html_()
    assert "0 dependent pairs among 2" in str(learn_dependencies(votes.only(["a", "b"])))
