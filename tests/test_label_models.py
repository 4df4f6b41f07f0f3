from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.utils import estimator_checks

import epoxy
from epoxy.errors import (
    AlignmentError,
    LabelError,
    NotFitted,
    NotIdentifiable,
    ParameterError,
    UnknownName,
)
from epoxy.label_models import LabelModel, balance_of, moments
from epoxy.label_models.triplet import Triplet
from epoxy.votes import Votes

MODELS = [
    epoxy.Triplet(),
    epoxy.Triplet(solve="mean"),
    epoxy.Triplet(solve="overlap"),
    epoxy.Triplet("learn"),
    epoxy.Triplet(compat="flyingsquid"),
    epoxy.MajorityVote(),
    epoxy.DawidSkene(),
    epoxy.DawidSkene(abstain="symbol"),
    epoxy.DawidSkene(abstain="missing"),
]
ANY_CLASSES = [model for model in MODELS if getattr(model, "compat", None) is None]


def names(model):
    return repr(model)


def sample(
    accuracy, coverage, n_rows=4000, n_classes=2, balance=None, seed=0, one_sided=False
) -> tuple[epoxy.Votes, np.ndarray]:
    """Votes of independent sources with known accuracies; one-sided ones name class i mod K only."""
    rng = np.random.default_rng(seed)
    y = rng.choice(n_classes, n_rows, p=balance)
    columns = []
    for index, (right, covers) in enumerate(zip(accuracy, coverage)):
        wrong = (y + rng.integers(1, n_classes, n_rows)) % n_classes
        column = np.where(rng.random(n_rows) < right, y, wrong)
        column[rng.random(n_rows) >= covers] = -1
        if one_sided:
            column[column != index % n_classes] = -1
        columns.append(column)
    return epoxy.Votes(np.stack(columns, axis=1), classes=[str(k) for k in range(n_classes)]), y


@pytest.fixture(scope="module")
def votes() -> epoxy.Votes:
    return sample([0.9, 0.8, 0.7, 0.85, 0.75], [0.5, 0.6, 0.9, 0.4, 0.7])[0]


# contracts: every label model


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_probabilities_are_one_finite_row_per_row_summing_to_one(model, votes):
    proba = clone(model).fit(votes).predict_proba(votes)

    assert isinstance(model, LabelModel)
    assert proba.shape == (votes.n_rows, 2)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1)


@pytest.mark.parametrize("model", MODELS, ids=names)
@pytest.mark.parametrize("balance", [None, [0.3, 0.7], [0.7, 0.3]])
def test_the_label_is_the_most_probable_class_ties_included(model, balance, votes):
    model = clone(model)
    if balance is not None and hasattr(model, "class_balance"):
        model.set_params(class_balance=balance)
    tied = epoxy.Votes([[0, 1, -1, -1, -1], [1, -1, 0, -1, -1], [-1] * 5], classes=votes.classes)
    model.fit(votes)

    assert model.predict(tied).tolist() == [
        votes.classes[at] for at in model.predict_proba(tied).argmax(axis=1)
    ]


@pytest.mark.parametrize("model", ANY_CLASSES, ids=names)
def test_any_number_of_classes_beats_the_best_single_source(model):
    votes, y = sample([0.7, 0.65, 0.6, 0.7], [0.9, 0.8, 0.9, 0.7], n_classes=5)

    guess = clone(model).fit(votes).predict_proba(votes).argmax(axis=1)

    assert (guess == y).mean() > 0.72


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_the_order_of_rows_does_not_matter(model, votes):
    order = np.random.default_rng(1).permutation(votes.n_rows)

    straight = clone(model).fit(votes).predict_proba(votes)
    shuffled = clone(model).fit(votes.rows(order)).predict_proba(votes.rows(order))

    np.testing.assert_allclose(shuffled, straight[order], atol=1e-9)


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_the_order_of_sources_does_not_matter(model, votes):
    turned = votes.only(votes.sources[::-1])

    straight = clone(model).fit(votes).predict_proba(votes)

    np.testing.assert_allclose(clone(model).fit(turned).predict_proba(turned), straight, atol=1e-9)


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_what_no_model_can_learn_from_or_answer_is_refused(model, votes):
    for error, message, ask in [
        (NotIdentifiable, "abstains", lambda m: m.fit(epoxy.Votes(np.full((5, 3), -1)))),
        (NotIdentifiable, "without rows", lambda m: m.fit(epoxy.Votes(np.empty((0, 3), int)))),
        (NotFitted, "not fitted yet", lambda m: m.predict_proba(votes)),
        (
            AlignmentError,
            "5 sources",
            lambda m: m.fit(votes).predict_proba(votes.only(votes.sources[:3])),
        ),
    ]:
        with pytest.raises(error, match=message):
            ask(clone(model))


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_a_row_without_votes_gets_a_number_for_every_class(model, votes):
    empty = epoxy.Votes(np.full((1, 5), -1))

    proba = clone(model).fit(votes).predict_proba(empty)

    np.testing.assert_allclose(proba, 0.5, atol=0.12)


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_state_survives_json_and_gives_equal_probabilities(model, votes):
    fitted = clone(model).fit(votes)
    state = fitted.to_state()

    values = json.loads(json.dumps(state.values))
    again = type(model).from_state(type(state)(values, state.arrays))

    assert (again.predict_proba(votes) == fitted.predict_proba(votes)).all()


@pytest.mark.parametrize(
    "model", [*MODELS, epoxy.Chain(), epoxy.Epoxy(), epoxy.Fusion()], ids=names
)
@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_set_params,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_estimator_cloneable,
    ],
    ids=lambda check: check.__name__,
)
def test_scikit_learn_conventions_hold(model, check):
    check(type(model).__name__, clone(model))


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (Triplet([0.5]), ParameterError, "each of 2 classes"),
        (Triplet([0.0, 1.0]), ParameterError, "each of 2 classes"),
        (Triplet([np.nan, 0.5]), ParameterError, "each of 2 classes"),
        (Triplet([0.5, 0.7]), ParameterError, "sums to 1.2"),
        (Triplet("lern"), UnknownName, "did you mean 'learn'"),
        (Triplet(dependencies=[("source_0", "z")]), UnknownName, "'z'"),
        (Triplet(solve="medain"), UnknownName, "did you mean 'median'"),
        (Triplet(compat="snorkel"), UnknownName, "'snorkel'"),
        (Triplet(solve="overlap", compat="flyingsquid"), UnknownName, "'overlap'"),
        (epoxy.DawidSkene(abstain="skip"), UnknownName, "'skip'"),
        (epoxy.DawidSkene(max_iter=0), ParameterError, "max_iter=0"),
    ],
    ids=repr,
)
def test_parameters_out_of_range_are_named(model, error, message, votes):
    with pytest.raises(error, match=message):
        model.fit(votes)


# Triplet: the paper's arithmetic


def algorithm_2(matrix: np.ndarray, balance: np.ndarray) -> np.ndarray:
    """Algorithm 2 written out, one loop per line of the paper; two-sided binary sources."""
    signed = np.where(matrix == -1, 0, 2 * matrix - 1)
    m = signed.shape[1]
    both = [[((signed[:, i] != 0) & (signed[:, j] != 0)).sum() for j in range(m)] for i in range(m)]
    agree = [[(signed[:, i] * signed[:, j]).sum() / both[i][j] for j in range(m)] for i in range(m)]
    log_odds = np.full(len(signed), np.log(balance[1] / balance[0]))
    for i in range(m):
        others = [(j, k) for j in range(m) for k in range(j + 1, m) if i not in (j, k)]
        j, k = max(others, key=lambda p: min(both[i][p[0]], both[i][p[1]], both[p[0]][p[1]]))
        accuracy = (1 + np.sqrt(abs(agree[i][j] * agree[i][k] / agree[j][k]))) / 2
        log_odds += signed[:, i] * np.log(accuracy / (1 - accuracy))
    return 1 / (1 + np.exp(-log_odds))


def test_solve_by_overlap_is_algorithm_2_to_the_last_digit(votes):
    balance = np.array([0.4, 0.6])

    proba = Triplet(balance, solve="overlap").fit(votes).predict_proba(votes)

    np.testing.assert_allclose(proba[:, 1], algorithm_2(votes.matrix, balance), atol=1e-12)


@pytest.mark.parametrize("solve", ["median", "mean", "overlap"])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_accuracies_are_found_from_agreement_alone(solve, n_classes):
    truth = [0.9, 0.8, 0.7, 0.85, 0.75]
    votes, _ = sample(truth, [0.5, 0.6, 0.9, 0.4, 0.7], n_rows=20_000, n_classes=n_classes)

    found = Triplet(solve=solve).fit(votes).accuracy_

    # at least 4,000 shared rows a pair: an agreement is off by 0.02 at two standard errors, and a
    # ratio of three of them by about twice that
    np.testing.assert_allclose(found, truth, atol=0.05)


@pytest.mark.parametrize("solve", ["median", "mean", "overlap"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_one_sided_sources_are_read_as_precise_as_they_are(solve, n_classes):
    votes, y = sample(
        [0.95, 0.9] * 4, [0.4] * 8, n_rows=40_000, n_classes=n_classes, one_sided=True
    )
    precision = [(y[c >= 0] == c[c >= 0]).mean() for c in votes.matrix.T]

    model = Triplet(solve=solve).fit(votes)

    assert all(len(named) == 1 for named in votes.polarity)
    np.testing.assert_allclose(model.accuracy_, precision, atol=0.1)
    assert (model.predict_proba(votes).argmax(1) == y)[votes.covered].mean() > 0.9


def test_voters_and_one_sided_sources_mix():
    all_sided, y = sample([0.8, 0.75, 0.7, 0.9, 0.9], [0.6] * 5, n_rows=20_000)
    matrix = all_sided.matrix.copy()
    matrix[matrix[:, 3] == 1, 3] = -1
    matrix[matrix[:, 4] == 0, 4] = -1
    votes = epoxy.Votes(matrix)
    precision = [(y[c >= 0] == c[c >= 0]).mean() for c in votes.matrix.T]

    found = Triplet().fit(votes).accuracy_

    np.testing.assert_allclose(found, precision, atol=0.06)


@pytest.mark.parametrize("seed", range(8))
def test_a_source_that_contradicts_others_as_chance_would_is_not_reversed(seed):
    votes, _ = sample([0.8, 0.8, 0.8, 0.5], [1.0] * 4, n_rows=60, seed=seed)

    model = Triplet([0.5, 0.5]).fit(votes)

    assert model.accuracy_[3] >= 0.5
    assert not any("reversed" in finding for finding in model.findings_)


@pytest.mark.parametrize(("shared", "pooled"), [(9, True), (10, False)])
def test_triplets_over_ten_shared_rows_are_trusted_one_by_one(shared, pooled):
    right = np.arange(shared) % 2
    matrix = np.repeat(right[:, None], 3, axis=1)
    matrix[0, 0], matrix[1, 1], matrix[2, 2] = 1, 0, 1

    model = Triplet([0.5, 0.5]).fit(epoxy.Votes(matrix, classes=["no", "yes"]))

    assert any("triplets were pooled" in finding for finding in model.findings_) == pooled


def test_a_source_worse_than_chance_is_found_and_counted_reversed():
    votes, y = sample([0.9, 0.85, 0.8, 0.2], [0.8] * 4)

    model = Triplet().fit(votes)

    assert model.accuracy_[3] == pytest.approx(0.2, abs=0.05)
    assert any("count reversed: source_3" in finding for finding in model.findings_)
    assert (model.predict_proba(votes).argmax(1) == y).mean() > 0.88


def test_the_prior_enters_once():
    votes, _ = sample([0.9, 0.8, 0.7], [0.5] * 3)
    empty = epoxy.Votes(np.full((1, 3), -1))

    ours = Triplet([0.4, 0.6]).fit(votes).predict_proba(empty)
    reference = Triplet([0.4, 0.6], compat="flyingsquid").fit(votes).predict_proba(empty)

    assert ours[0, 1] == pytest.approx(0.6)
    assert reference[0, 1] == pytest.approx(0.6**2 / (0.6**2 + 0.4**2))


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("balance", [[0.5, 0.5], [0.8, 0.2]])
def test_class_balance_is_learned_from_the_votes_alone(balance, one_sided):
    votes, _ = sample(
        [0.85, 0.8, 0.9, 0.8, 0.85, 0.9],
        [0.7] * 6,
        n_rows=40_000,
        balance=balance,
        one_sided=one_sided,
    )

    found = Triplet("learn").fit(votes).class_balance_

    np.testing.assert_allclose(found, balance, atol=0.05)


def test_class_balance_can_be_counted_on_a_dev_split(votes):
    dev = epoxy.Split(votes.rows([0, 1, 2, 3]), y=[0, 0, 1, -1])

    model = Triplet(dev).fit(votes)

    assert model.class_balance_.tolist() == [0.6, 0.4]
    with pytest.raises(LabelError, match="needs true labels"):
        balance_of(epoxy.Split(votes))


def test_dependent_sources_share_no_triplet():
    votes, _ = sample([0.8, 0.7, 0.75, 0.7], [0.9] * 4, n_rows=20_000)
    twin = np.hstack([votes.matrix, votes.matrix[:, :1]])
    doubled = epoxy.Votes(twin, sources=["a", "b", "c", "d", "a again"])

    naive = Triplet(solve="mean").fit(doubled).accuracy_
    told = Triplet(solve="mean", dependencies=[("a", "a again")]).fit(doubled).accuracy_

    assert naive[0] > 0.85
    assert told[0] == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0, 1], [1, 1]], r"at least 3 sources that vote, got 2"),
        (
            [[0, 1, -1], [1, 1, -1]],
            r"at least 3 sources that vote, got 2 \['source_0', 'source_1'\]",
        ),
        ([[1, 1, 1], [1, 1, -1]], "every vote names '1'"),
        (
            [[0, -1, -1], [1, -1, -1], [-1, 0, -1], [-1, 1, -1], [-1, -1, 0], [-1, -1, 1]],
            "no three",
        ),
        (
            [
                [0, 0, 0],
                [0, 1, 1],
                [1, 0, 1],
                [1, 1, 0],
                [1, 1, 1],
                [1, 0, 0],
                [0, 1, 0],
                [0, 0, 1],
            ],
            "chance",
        ),
    ],
)
def test_where_triplets_cannot_answer_it_says_so(matrix, message):
    with pytest.raises(NotIdentifiable, match=message):
        Triplet().fit(epoxy.Votes(np.repeat(matrix, 30, axis=0)))


def test_sources_without_partners_carry_no_weight_and_are_named():
    votes, _ = sample([0.9, 0.8, 0.7], [0.5] * 3)
    matrix = np.vstack(
        [
            np.hstack([votes.matrix, np.full((votes.n_rows, 1), -1)]),
            np.hstack([np.full((4, 3), -1), np.array([[0], [1], [0], [1]])]),
        ]
    )

    model = Triplet().fit(epoxy.Votes(matrix, sources=["a", "b", "c", "hermit"]))
    proba = model.predict_proba(epoxy.Votes([[-1, -1, -1, 1]]))

    assert model.identified_.tolist() == [True, True, True, False]
    assert any("too few rows with others" in each and "hermit" in each for each in model.findings_)
    assert proba.tolist() == [[0.5, 0.5]]


@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(3, 6))
@settings(max_examples=60, deadline=None)
def test_whatever_the_votes_the_answer_is_finite_or_refused(seed, n_classes, n_sources):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-1, n_classes, (rng.integers(1, 30), n_sources))
    matrix[:, rng.random(n_sources) < 0.3] = -1
    votes = epoxy.Votes(matrix, classes=[str(k) for k in range(n_classes)])

    for model in ANY_CLASSES:
        try:
            proba = clone(model).fit(votes).predict_proba(votes)
        except NotIdentifiable:
            continue
        assert np.isfinite(proba).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_silence_of_a_one_sided_source_counts():
    votes, _ = sample([0.95] * 6, [0.9] * 6, n_rows=20_000, one_sided=True)
    empty = epoxy.Votes([[-1, 0, -1, -1, -1, -1]])

    model = Triplet().fit(votes)
    evidence = model.evidence(empty)[0]

    assert evidence[0, 1] > evidence[0, 0]  # source 0 names class 0 whenever it can, and did not
    total = model.log_prior() + evidence.sum(axis=0)
    proba = np.exp(total) / np.exp(total).sum()
    np.testing.assert_allclose(proba, model.predict_proba(empty)[0])


# moments add


@given(st.integers(0, 2**32 - 1), st.integers(0, 20))
@settings(max_examples=50, deadline=None)
def test_moments_of_shards_add_up_to_those_of_the_whole(seed, cut):
    matrix = np.random.default_rng(seed).integers(-1, 3, (20, 4))
    votes = epoxy.Votes(matrix, classes="abc")

    whole = moments(votes)
    parts = moments(votes.rows(slice(cut))) + moments(votes.rows(slice(cut, None)))

    assert parts.n_rows == whole.n_rows
    assert (parts.joint == whole.joint).all()
    assert (parts.counts == whole.counts).all()


def test_moments_of_other_sources_do_not_add_up(votes):
    with pytest.raises(AlignmentError, match="the same sources"):
        moments(votes) + moments(epoxy.Votes([[0]]))


# other models


def test_majority_vote_counts_each_vote_once():
    votes = epoxy.Votes([[0, 0, 1], [-1, 1, -1], [0, 1, -1], [-1, -1, -1]], classes=["ham", "spam"])

    model = epoxy.MajorityVote([0.4, 0.6]).fit(votes)

    np.testing.assert_allclose(
        model.predict_proba(votes), [[2 / 3, 1 / 3], [0, 1], [0.5, 0.5], [0.4, 0.6]], atol=1e-8
    )
    assert model.predict(votes).tolist() == ["ham", "spam", "spam", "spam"]


def test_dawid_skene_finds_confusions_a_single_accuracy_cannot_hold():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 5000)
    says_one = np.array([[0.05, 0.6], [0.5, 0.95], [0.1, 0.9], [0.2, 0.7]])  # Pr(votes 1 | y)
    votes = epoxy.Votes((rng.random((5000, 4)) < says_one[:, y].T).astype(int))

    model = epoxy.DawidSkene().fit(votes)

    np.testing.assert_allclose(np.exp(model.log_likelihood_[:, 2]), says_one, atol=0.06)


def test_the_snorkel_adapter_says_what_is_missing(votes):
    try:
        import snorkel  # noqa: F401
    except ImportError:
        with pytest.raises(epoxy.errors.MissingExtra, match=r"pip install 'epoxy-ws\[snorkel\]'"):
            epoxy.Snorkel().fit(votes)
    else:
        proba = epoxy.Snorkel(seed=1).fit(votes).predict_proba(votes)
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-6)
    with pytest.raises(NotFitted, match="Snorkel is not fitted"):
        epoxy.Snorkel().predict_proba(votes)


@given(
    arrays(np.int8, st.tuples(st.integers(1, 60), st.integers(1, 5)), elements=st.integers(-1, 2))
)
@settings(deadline=None)
def test_moments_count_how_often_each_two_votes_meet(matrix):
    votes = Votes(np.tile(matrix, (7, 1)), classes="abc")
    found = moments(votes)
    at = {pair: place for place, pair in enumerate(zip(found.source, found.named, strict=True))}
    for a, b in itertools.product(range(matrix.shape[1]), repeat=2):
        for c, d in itertools.product(range(3), repeat=2):
            both = (votes.matrix[:, a] == c) & (votes.matrix[:, b] == d)
            known = (a, c) in at and (b, d) in at
            counted = found.joint[at[a, c], at[b, d]] if known else 0
            assert counted == np.count_nonzero(both)


def crowded(n_sources: int, n_rows=3000, voters=False) -> Votes:
    """Votes of many sources, as different in how often they vote as in how often they are right."""
    rng = np.random.default_rng(n_sources)
    y = rng.integers(0, 2, n_rows)
    accuracy, coverage = rng.uniform(0.6, 0.95, n_sources), rng.uniform(0.02, 0.3, n_sources)
    right = rng.random((n_rows, n_sources)) < accuracy
    said = np.where(right, y[:, None], 1 - y[:, None])
    speaks = rng.random((n_rows, n_sources)) < coverage
    if not voters:
        speaks &= said == np.arange(n_sources) % 2
    return Votes(np.where(speaks, said, -1), classes=["a", "b"])


@pytest.mark.parametrize("linked", [(), [(0, 1), (4, 9)], "most"])
def test_pooled_triplets_are_the_sums_over_all_triplets(linked):
    from epoxy.label_models import readings, solvers

    pairs = itertools.combinations(range(30), 2)
    apart = {(a, b) for a, b in pairs if (a + b) % 3} if linked == "most" else set(linked)
    found = readings.read(moments(crowded(30)), np.array([0.5, 0.5])).without(apart)
    weight = np.where(found.observed, 1 / found.spread**2, 0.0)
    theta = solvers.pooled(found)

    for unit in range(12):
        w, wm = weight[unit], weight[unit] * found.moment[unit]
        above = np.einsum("j,k,jk->", wm, wm, found.observed)
        below = np.einsum("j,k,jk->", w, w, found.moment * found.observed)
        expected = np.sqrt(above / below) if above > 0 and below > 0 else np.nan
        assert theta[unit] == pytest.approx(expected, rel=1e-9, nan_ok=True)


def test_what_was_solved_for_other_dependencies_is_not_taken_again():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    matrix = np.where(rng.random((600, 5)) < 0.75, y[:, None], 1 - y[:, None])
    matrix[:, 1] = np.where(rng.random(600) < 0.9, matrix[:, 0], matrix[:, 1])  # nearly a copy
    votes = epoxy.Votes(matrix, sources="abcde")
    linked = epoxy.Triplet(dependencies=[("a", "b")])
    epoxy.Triplet().fit(votes)

    found = linked.fit(votes).accuracy_

    again = epoxy.Votes(matrix, sources="abcde")
    fresh = epoxy.Triplet(dependencies=[("a", "b")]).fit(again).accuracy_
    np.testing.assert_array_equal(found, fresh)
    assert (fresh != epoxy.Triplet().fit(votes).accuracy_).any()
