from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoxy import storage
from epoxy.errors import (
    AlignmentError,
    LabelError,
    NotFitted,
    NotIdentifiable,
    ParameterError,
    StoreError,
    UnknownName,
)
from epoxy.label_models import Triplet
from epoxy.model import Epoxy
from epoxy.sequences import (
    Chain,
    TaskGraph,
    Tasks,
    joint_balance,
    pair_balance,
    sequence_ids,
)
from epoxy.sequences.inference import ChainPrior, smooth, viterbi
from epoxy.sequences.layout import Layout
from epoxy.sequences.movement import rake
from epoxy.votes import Split, Votes

CYCLE = TaskGraph(4, [(0, 1), (1, 2), (2, 3), (3, 0)])


def film(
    n_rows: int = 3000, *, n_classes: int = 2, accuracy=(0.85, 0.75, 0.7), stay=0.9, seed=0
) -> tuple[Votes, np.ndarray]:
    """Labels that stay with probability `stay`, and one source per accuracy, coverage 0.8."""
    rng = np.random.default_rng(seed)
    moves = rng.integers(1, n_classes, n_rows) * (rng.random(n_rows) >= stay)
    label = np.cumsum(moves) % n_classes
    right = rng.random((n_rows, len(accuracy))) < accuracy
    wrong = (label[:, None] + rng.integers(1, n_classes, right.shape)) % n_classes
    matrix = np.where(right, label[:, None], wrong)
    matrix[rng.random(matrix.shape) > 0.8] = -1
    return Votes(matrix, classes=list("abcdef"[:n_classes])), label


def by_enumeration(model: Chain, rows: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """The paper's Pr_mu, its equation term by term over all K^T labellings of one sequence."""
    prior, (length, n_sources) = model.prior_, rows.shape
    n_classes = len(prior.first)
    total = np.zeros((length, n_classes))
    best: tuple[float, tuple[int, ...]] = (-1.0, ())
    for labels in itertools.product(range(n_classes), repeat=length):
        joint = 1.0
        for t, y in enumerate(labels):
            said = np.exp(model.by_place_[0, np.arange(n_sources), rows[t] + 1, y])
            share = prior.singles[0 if prior.stationary else t][y]
            joint *= np.prod(share * said)  # Π_i mu_{y,i}
            degree = n_sources + (t > 0) + (t < length - 1)
            joint /= share ** (degree - 1)
        for t in range(length - 1):
            pair = prior.pairs[0 if prior.stationary else t]
            joint *= pair[labels[t], labels[t + 1]]  # Π_C mu_{y,C}
        if joint > best[0] * (1 + 1e-12):
            best = (joint, labels)
        for t, y in enumerate(labels):
            total[t, y] += joint
    if length == 1:
        # a lone element has no clique over labels; its prior was counted in Π mu / mu^(m-1) once
        total = np.array([[prior.singles[0][y] for y in range(n_classes)]])
        said = np.exp(model.by_place_[0, np.arange(n_sources), rows[0] + 1]).prod(axis=0)
        total = total * said
        best = (0.0, (int(total[0].argmax()),))
    return total / total.sum(axis=1, keepdims=True), best[1]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_classes=st.integers(2, 3),
    length=st.integers(2, 4),
    joint=st.booleans(),
)
def test_probabilities_equal_enumeration_of_the_papers_model(seed, n_classes, length, joint):
    votes, _ = film(121, n_classes=n_classes, seed=seed)
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(n_classes**length)) if joint else None
    model = Chain(length, class_balance=shares).fit(votes)

    found = model.predict_proba(votes)

    for start in [0, length, 121 // length * length]:  # the last window is a shorter one
        expected, _ = by_enumeration(model, votes.matrix[start : start + length])
        rows = slice(start, start + length)
        assert found[rows] == pytest.approx(expected, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(lengths=st.lists(st.integers(1, 6), min_size=2, max_size=8), seed=st.integers(0, 1000))
def test_ragged_sequences_equal_enumeration(lengths, seed):
    fitted, _ = film(300, seed=seed)
    model = Chain(5, class_balance="learn").fit(fitted)
    n_rows = sum(lengths)
    ids = np.repeat(np.arange(len(lengths)), lengths)
    matrix = np.random.default_rng(seed).integers(-1, 2, (n_rows, 3))
    votes = Votes(matrix, classes=["a", "b"], sequences=ids)

    found, joint = model.predict_proba(votes), model.predict_joint(votes)

    for start, length in zip(np.cumsum([0, *lengths[:-1]]), lengths, strict=True):
        rows = slice(start, start + length)
        expected, best = by_enumeration(model, matrix[rows])
        assert found[rows] == pytest.approx(expected, abs=1e-9)
        likely = [model.classes_[label] for label in best]
        alike = _joint_probability(model, matrix[rows], joint[rows])
        assert alike == pytest.approx(_joint_probability(model, matrix[rows], likely), rel=1e-9)


def _joint_probability(model: Chain, rows: np.ndarray, names) -> float:
    labels = [model.classes_.index(name) for name in names]
    sources = np.arange(rows.shape[1])
    value = model.first_[labels[0]]
    for before, after in itertools.pairwise(labels):
        value *= model.transitions_[before, after]
    for row, label in zip(rows, labels, strict=True):
        value *= np.exp(model.by_place_[0, sources, row + 1, label].sum())
    return float(value)


def test_neighbours_correct_a_lone_mistake():
    fitted, _ = film(3000)
    model = Chain(5).fit(fitted)
    rows = [[0, 0, 0], [0, 0, 0], [1, -1, -1], [0, 0, 0], [0, 0, 0]]

    labels = model.predict(Votes(rows, classes=["a", "b"]))

    assert labels.tolist() == ["a", "a", "a", "a", "a"]
    assert Chain(1).fit(fitted).predict(Votes(rows, classes=["a", "b"]))[2] == "b"


@pytest.mark.parametrize("n_classes", [2, 4])
def test_accuracies_and_movement_are_recovered_from_votes_alone(n_classes):
    # 40,000 rows in windows of 4: a share of 10,000 rows has standard error below 0.005, triplets
    # divide by moments above 0.2, hence errors stay below 0.05
    accuracy = (0.85, 0.75, 0.7, 0.8)
    votes, _ = film(40_000, n_classes=n_classes, accuracy=accuracy, seed=3)

    model = Chain(4).fit(votes)

    assert model.accuracy_ == pytest.approx(accuracy, abs=0.05)
    stays = np.diagonal(model.transitions_)
    assert stays == pytest.approx(np.full(n_classes, 0.9), abs=0.05)


def test_two_sources_suffice_because_neighbouring_rows_are_partners():
    votes, label = film(40_000, accuracy=(0.85, 0.75), seed=4)

    model = Chain(8).fit(votes)

    # neighbours are alike with ρ = 0.8; 35,000 pairs of rows leave errors below 0.02
    assert model.accuracy_ == pytest.approx((0.85, 0.75), abs=0.03)
    right = (model.predict_proba(votes).argmax(axis=1) == label).mean()
    assert right > 0.9
    with pytest.raises(NotIdentifiable, match="3 sources"):
        Chain(1).fit(votes)


def test_sources_that_meet_too_few_on_their_rows_are_known_by_neighbouring_rows():
    accuracy = (0.85, 0.75, 0.8, 0.9, 0.7)
    votes, _ = film(40_000, accuracy=accuracy, seed=5)
    matrix, apart = votes.matrix.copy(), np.arange(40_000) % 2 == 0
    matrix[apart, :3], matrix[~apart, 3:] = -1, -1  # the last two never meet a third

    model = Chain(8).fit(votes.with_matrix(matrix))

    assert model.accuracy_ == pytest.approx(accuracy, abs=0.05)
    assert "['source_3', 'source_4']" in model.findings_[0]


def test_a_rare_class_is_learned_with_its_share():
    rng = np.random.default_rng(5)
    label = np.zeros(40_000, dtype=int)
    for row in range(1, len(label)):
        label[row] = rng.random() < (0.7 if label[row - 1] else 0.1)  # a share of 0.25
    right = rng.random((len(label), 4)) < (0.85, 0.8, 0.75, 0.7)
    votes = Votes(np.where(right, label[:, None], 1 - label[:, None]))

    model = Chain(20, class_balance="learn").fit(votes)

    assert model.class_balance_ == pytest.approx([0.75, 0.25], abs=0.03)
    assert model.transitions_ == pytest.approx(np.array([[0.9, 0.1], [0.3, 0.7]]), abs=0.04)


def test_maximum_likelihood_frees_accuracy_by_class_and_silence():
    rng = np.random.default_rng(60)
    votes, label = film(20_000, seed=6, accuracy=(0.85, 0.75, 0.7, 0.8))
    matrix = votes.matrix.copy()
    matrix[:, 3] = np.where(rng.random(20_000) < np.where(label == 1, 0.9, 0.2), label, -1)
    votes = votes.with_matrix(matrix)

    model = Chain(10, solve="em", class_balance="learn").fit(votes)

    speaks = 1 - np.exp(model.by_place_[0, 3, 0])
    assert speaks == pytest.approx([0.2, 0.9], abs=0.03)


def test_sources_that_name_one_class_are_read_class_by_class():
    rng = np.random.default_rng(70)
    _, label = film(6000, seed=7)
    matrix = np.full((6000, 6), -1)
    for source in range(6):
        named = source % 2
        fires = rng.random(6000) < np.where(label == named, 0.5, 0.08)
        matrix[fires, source] = named
    votes = Votes(matrix)

    chained, alone = (
        (Chain(length).fit(votes).predict_proba(votes).argmax(axis=1) == label).mean()
        for length in (10, 1)
    )

    assert chained > alone > 0.75


def test_a_chain_of_single_rows_is_the_plain_triplet_model():
    votes, _ = film(2000)

    model = Chain(1).fit(votes)

    expected = Triplet().fit(votes).predict_proba(votes)
    assert model.predict_proba(votes) == pytest.approx(expected, abs=1e-6)
    assert model.findings_ == ["every sequence has one row, so rows were read on their own"]


def test_a_reference_chain_of_single_rows_is_the_reference_triplet_model():
    votes, label = film(400)
    dev = Split(votes, y=label)
    shares = joint_balance(label, 1, n_classes=2)

    found = Chain(1, class_balance=dev, compat="flyingsquid").fit(votes).predict_proba(votes)

    expected = Triplet(shares, solve="mean", compat="flyingsquid").fit(votes).predict_proba(votes)
    assert found == pytest.approx(expected, abs=1e-9)


def test_a_thousand_rows_in_one_sequence_stay_exact():
    # impossible moves and evidence that underflows: scaling alone would lose the answer
    pairs = np.array([[[0.5, 0.0], [0.0, 0.5]]])
    evidence = np.zeros((1000, 2))
    evidence[:, 1] = -2.0
    evidence[500] = [-900.0, 0.0]
    layout = Layout(np.array([0]), np.array([1000]))

    found = smooth(evidence, layout, ChainPrior(np.array([0.5, 0.5]), pairs))

    # label 0 throughout: 900 + ln 2 against 999 rows of 2 nats for label 1
    assert found.marginals[:, 0] == pytest.approx(np.ones(1000))
    assert found.log_likelihood == pytest.approx(np.log(0.5) - 900)
    assert viterbi(evidence, layout, ChainPrior(np.array([0.5, 0.5]), pairs)).sum() == 0


def test_votes_impossible_under_the_prior_give_equal_shares():
    prior = ChainPrior(np.array([1.0, 0.0]), np.array([[[1.0, 0.0], [0.0, 0.0]]]))
    evidence = np.array([[-np.inf, 0.0], [0.0, 0.0]])

    found = smooth(evidence, Layout(np.array([0]), np.array([2])), prior)

    assert found.marginals.tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_trust_is_the_power_that_evidence_is_raised_to():
    votes, _ = film(500)
    whole, half = (Chain(1, trust=trust).fit(votes).predict_proba(votes) for trust in (1.0, 0.5))

    odds = [np.log(each[:, 1] / each[:, 0]) for each in (whole, half)]

    assert np.abs(odds[0]).max() > 0.5
    np.testing.assert_allclose(odds[1], odds[0] / 2, atol=1e-9)  # shares are equal: no prior


def test_an_explanation_counts_a_source_with_as_much_trust_as_the_labels_do():
    votes, _ = film(500)

    whole, half = (Chain(4, trust=each).fit(votes).contributions(votes) for each in (1.0, 0.5))

    assert np.abs(whole).max() > 0.3
    np.testing.assert_allclose(half, whole / 2, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        Chain(4, trust=0.7),
        Chain(4, dependencies=[("source_0", "source_1")]),
        Tasks(CYCLE, trust=0.7),
    ],
)
def test_contributions_and_context_add_up_to_the_log_probability(model):
    votes, _ = film(600, accuracy=(0.85, 0.75, 0.7, 0.8, 0.8))
    model.fit(votes)

    total = model.contributions(votes).sum(axis=1) + model.context(votes)

    share = np.exp(total) / np.exp(total).sum(axis=1, keepdims=True)
    assert share == pytest.approx(model.predict_proba(votes), abs=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        Chain(3),
        Chain(3, trust=np.float64(0.5)),
        Chain(2, class_balance=[0.4, 0.1, 0.2, 0.3], solve="overlap"),
        Chain(3, class_balance=np.array([0.3, 0.7]), dependencies=[("source_0", "source_1")]),
        Chain(3, compat="flyingsquid"),
        Tasks(CYCLE),
        Tasks(TaskGraph(4, [(0, 1)])),
        Tasks(
            TaskGraph.chain(4), class_balance=[0.4, 0.6], dependencies=[("source_0", "source_1")]
        ),
    ],
)
def test_a_saved_model_answers_as_before(tmp_path, model):
    votes, _ = film(300, accuracy=(0.85, 0.75, 0.7, 0.8, 0.8))
    model.fit(votes)

    again = storage.load(storage.save(model, tmp_path / "model"))

    assert (again.predict_proba(votes) == model.predict_proba(votes)).all()
    assert (again.predict_joint(votes) == model.predict_joint(votes)).all()
    assert again.findings_ == model.findings_
    assert again.get_params().keys() == model.get_params().keys()


def test_a_row_explained_by_a_model_of_films_counts_its_neighbours():
    votes, _ = film(300)
    vectors = np.random.default_rng(1).normal(size=(300, 4))
    train = Split(votes, vectors)
    model = Epoxy(Chain(10), radius=0.01).fit(train)

    found = model.explain(train, 5)

    probability = found.probabilities[found.label]
    assert found.log_odds == pytest.approx(np.log(probability / (1 - probability)), abs=1e-6)
    said = "class balance and the rows it is read together with, before any source speaks"
    assert f"{found.start:+.2f}  {said}" in str(found)
    alone = Epoxy(Triplet(), radius=0.01).fit(train).explain(train, 5)
    assert f"{alone.start:+.2f}  class balance, before any source speaks" in str(alone)


def test_a_source_without_partners_is_not_heard_and_is_named():
    votes, _ = film(600, accuracy=(0.85, 0.75, 0.7, 0.8))
    matrix = votes.matrix.copy()
    matrix[:, 3] = -1
    matrix[::200, 3], matrix[::200, :3] = [0, 1, 0], -1
    lonely = votes.with_matrix(matrix)

    model = Chain(1).fit(lonely)

    assert "source_3" in model.findings_[1]
    assert np.abs(model.contributions(lonely)[:, 3]).max() == pytest.approx(0, abs=1e-9)


def test_gaps_may_cut_a_sequence_but_duplicates_may_not():
    assert sequence_ids(["a"] * 4, [0, 1, 5, 6], gaps="split").tolist() == [0, 0, 1, 1]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), n_classes=st.integers(2, 5))
def test_raked_tables_have_the_sums_asked_for_even_when_nearly_empty(seed, n_classes):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(n_classes**2, 0.02)).reshape(n_classes, n_classes)
    rows, columns = rng.dirichlet(np.ones(n_classes), 2)

    found = rake(table, rows, columns)

    assert (found >= 0).all()
    assert found.sum(axis=1) == pytest.approx(rows, abs=1e-14)
    assert found.sum(axis=0) == pytest.approx(columns, abs=1e-14)


def test_given_pairs_are_the_movement_used():
    votes, _ = film(300)
    pairs = np.array([[0.675, 0.075], [0.075, 0.175]])

    model = Chain(5, class_balance=pairs).fit(votes)

    assert model.transitions_ == pytest.approx(np.array([[0.9, 0.1], [0.3, 0.7]]))
    assert model.class_balance_ == pytest.approx([0.75, 0.25])


def test_on_tennis_the_chain_beats_the_same_model_without_it(shared_data):
    pq = pytest.importorskip("pyarrow.parquet")
    home, classes = shared_data / "tennis_L", ["no rally", "rally"]
    train = Votes(np.load(home / "votes-train.npy"), classes=classes)
    votes = Votes(np.load(home / "votes-dev.npy"), classes=classes)
    label = np.array(pq.read_table(home / "dev.parquet")["label"].to_pylist()) == "rally"

    def f1(length: int) -> float:
        found = Chain(length).fit(train).predict(votes) == "rally"
        return float(2 * (found & label).sum() / (found.sum() + label.sum()))

    assert f1(14) > f1(1) + 0.005


FILM = film(60)[0]
NAMED = Votes(FILM.matrix, classes=FILM.classes, sequences=np.repeat([0, 1], 30))


def fitted(length=3, votes=FILM, **options):
    return Chain(length, **options).fit(votes)


def squid(**options):
    return fitted(compat="flyingsquid", **options)


@pytest.mark.parametrize(
    ("make", "error", "named"),
    [
        (lambda: fitted(0), ParameterError, "length=0"),
        (lambda: fitted(True), ParameterError, "length=True"),
        (lambda: fitted(2.5), ParameterError, "length=2.5"),
        (lambda: fitted(class_balance=[0.2] * 5), ParameterError, "(5,)"),
        (lambda: fitted(class_balance=np.full(16, 1 / 16)), ParameterError, "2^3"),
        (lambda: fitted(None, class_balance=np.full(8, 1 / 8)), ParameterError, "(8,)"),
        (lambda: fitted(class_balance=[0.5, 0.9]), ParameterError, "1.4"),
        (lambda: fitted(class_balance=[1.5, -0.5]), ParameterError, "negative"),
        (lambda: fitted(class_balance=[[0.9, 0.1], [0.2, 0.8]]), ParameterError, "transition"),
        (lambda: fitted(class_balance=b"ham"), ParameterError, "ham"),
        (lambda: fitted(class_balance={1, 2}), ParameterError, "Split"),
        (lambda: fitted(class_balance="lern"), UnknownName, "'lern'"),
        (lambda: fitted(class_balance=Split(FILM)), LabelError, "true labels"),
        (lambda: fitted(votes=NAMED, class_balance=np.full(8, 1 / 8)), ParameterError, "30 rows"),
        (lambda: fitted(compat="flyingsquid").predict_proba(NAMED), NotIdentifiable, "3 positions"),
        (lambda: fitted(compat="flyingsquid").contributions(NAMED), NotIdentifiable, "30 rows"),
        (lambda: fitted(votes=FILM.only(["source_0"])), NotIdentifiable, "'source_0'"),
        (lambda: fitted().predict_proba(FILM.only(["source_0"])), AlignmentError, "3 sources"),
        (lambda: fitted(solve="best"), UnknownName, "'best'"),
        (lambda: fitted(trust=0), ParameterError, "trust=0"),
        (lambda: fitted(dependencies="all"), UnknownName, "'all'"),
        (lambda: fitted(dependencies=[("source_0", "x")]), UnknownName, "'x'"),
        (lambda: fitted(dependencies=[("source_0", "source_0")]), ParameterError, "source_0"),
        (lambda: fitted(compat="snorkel"), UnknownName, "'snorkel'"),
        (lambda: squid(solve="em"), UnknownName, "'em'"),
        (lambda: squid(dependencies="learn"), ParameterError, "dependencies"),
        (lambda: squid(class_balance="learn"), ParameterError, "class balance"),
        (lambda: squid(class_balance=Split(FILM)), LabelError, "true labels"),
        (lambda: squid(length=61), NotIdentifiable, "61 rows"),
        (lambda: Chain(3).predict_proba(FILM), NotFitted, "Chain"),
        (lambda: Chain(3).to_state(), NotFitted, "Chain"),
        (
            lambda: Chain.from_state(storage.State(fitted().to_state().values, {})),
            StoreError,
            "",
        ),
        (lambda: joint_balance([0, 1], 3, n_classes=2), LabelError, "3 rows"),
        (lambda: sequence_ids(["a"] * 3, [0, 1, 3]), AlignmentError, "missing"),
        (lambda: sequence_ids(["a"] * 3, [0, 1, 1]), AlignmentError, "twice"),
        (lambda: sequence_ids(["a"] * 3, [0, 0, 1], gaps="split"), AlignmentError, "twice"),
        (lambda: sequence_ids(["a"] * 3, [1, 0, 2]), AlignmentError, "out of order"),
        (lambda: sequence_ids(list("aba"), [0, 0, 1]), AlignmentError, "'a'"),
        (lambda: sequence_ids(["a"] * 2, [0, 1, 2]), AlignmentError, "(3,)"),
        (lambda: sequence_ids(["a"] * 2, [0.0, 1.0]), AlignmentError, "float64"),
        (lambda: sequence_ids(["a"], [0], gaps="fill"), ParameterError, "'fill'"),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, named):
    with pytest.raises(error) as caught:
        make()

    assert named in str(caught.value)


def test_named_sequences_may_be_longer_than_a_window():
    votes, _ = film(100)
    named = Votes(votes.matrix, votes.sources, votes.classes, sequences=np.repeat([0, 1], 50))

    found = Chain(3).fit(named).predict_proba(named)

    assert found == pytest.approx(Chain(50).fit(votes).predict_proba(votes), abs=1e-12)


def test_balances_count_true_labels():
    label = [0, 0, 1, -1, 1, 1, 1]

    assert pair_balance(label, n_classes=2) == pytest.approx(np.array([[2, 2], [1, 3]]) / 8)
    assert joint_balance(label, 2, n_classes=2) == pytest.approx([0.5, 0, 0, 0.5])
    split = joint_balance([0, 1, 1, 1, 0], 2, n_classes=2, sequences=[0, 1, 1, 1, 1])
    assert split == pytest.approx([0, 0, 0.5, 0.5])
