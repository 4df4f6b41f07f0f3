"""The paper's formulas: by hand, against worlds whose truth is known, and as laws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoxy import Split, Votes, theory
from epoxy.errors import AlignmentError, NotIdentifiable, ParameterError, VoteError
from epoxy.extension import reach
from epoxy.theory import Scan, bounds
from epoxy.theory.bounds import Constants, Others

EUCLID = Scan(metric="euclidean")
share = st.floats(0.01, 0.99)
better = st.floats(0.5, 1.0)


def test_minimum_overlap_by_eye():
    votes = Votes([[0, 0, -1], [1, -1, 1], [1, 1, -1], [-1, 0, -1]])

    # pairs: 01 on rows 0 and 2, 02 on row 1, 12 nowhere; source 2's best is 1/4
    assert bounds.minimum_overlap(votes) == 0.25


def test_proposition_1_by_hand():
    assert bounds.extended_accuracy(0.9, 0.01, 0.5, 0.2, 0.5) == pytest.approx(
        0.9 - 0.8 * 0.01 / (0.25 * 1.1)
    )
    assert bounds.new_accuracy(0.9, 0.01, 0.5, 0.2, 0.5) == pytest.approx(
        0.9 - 0.8 * 0.01 / (0.25 * 1.1) * (1 + 1 / 0.1)
    )


def test_theorem_1_estimation_error_by_hand():
    constants = Constants(rarest=0.1, weakest=0.5, agreement=0.4)

    error = bounds.estimation_error(constants, n_rows=10**6, n_sources=3, overlap=0.2)

    slack = math.sqrt(math.log(40) / 2e6)
    learning = 81 * math.sqrt(math.pi) / (2 * 0.5 * 0.16) * 3 / math.sqrt(10**6 * 0.2)
    assert error == pytest.approx((learning + slack * 0.5) / (0.1 - slack))


def test_theorem_2_by_hand():
    risk = bounds.epoxy_risk([0.1, 0.2], [0.5, 0.3], uncovered=0.2, balance=0.6)

    assert risk == pytest.approx(2 * 1.5 * (0.05 + 0.06) + 2 * 0.2 * 0.24)


@given(st.floats(0.5, 0.99), st.floats(0.05, 0.95), st.floats(0, 1))
def test_theorem_2_is_never_tighter_than_the_line_it_relaxes(accuracy, balance, uncovered):
    exact = bounds.disjoint_risk([accuracy], [1 - uncovered], uncovered, balance)
    printed = bounds.epoxy_risk([1 - accuracy], [1 - uncovered], uncovered, balance)

    assert exact <= printed + 1e-12


def test_the_unrelaxed_line_is_the_risk_of_votes_left_to_one_source_each():
    rng = np.random.default_rng(0)
    y = (rng.random(200_000) < 0.3).astype(int)
    owner, right = rng.choice(3, len(y), p=[0.5, 0.3, 0.2]), rng.random(len(y))
    matrix = np.full((len(y), 2), -1)
    for source, accuracy in enumerate((0.8, 0.65)):
        matrix[:, source] = np.where(
            owner == source, np.where(right < accuracy, y, 1 - y), matrix[:, source]
        )
    votes = Votes(matrix, classes=["no", "yes"])
    given = bounds.posterior(votes, [0.8, 0.65], 0.3)[np.arange(len(y)), y]

    bound = bounds.disjoint_risk([0.8, 0.65], [0.5, 0.3], 0.2, 0.3)

    assert 1 - given.mean() == pytest.approx(bound, abs=0.005)


def test_extended_source_risk_is_one_minus_proposition_1():
    smooth = bounds.inherited_smoothness(0.01, 0.02)

    risk = bounds.extended_source_risk(0.9, smooth, 0.6, 0.2 * 0.5)

    assert smooth == pytest.approx(0.05)
    assert risk == pytest.approx(1 - bounds.extended_accuracy(0.9, 0.05, 0.6, 0.2, 0.5))


def test_proposition_2_needs_errors_to_ignore_density():
    """A dense cluster the model errs on: near pairs all lie there, and plain risk is too small."""
    dense, sparse = np.zeros((10, 1)), np.arange(1, 91)[:, None] * 10.0
    points = np.concatenate([dense, sparse])
    labels = np.concatenate([np.tile([0, 1], 5), np.zeros(90, int)])
    constant = np.zeros(100, int)  # the model says 0 everywhere: 5 errors of 100

    rough = theory.smoothness(labels, points, [1.0], EUCLID).value[0]
    risk_of_near_pairs = 0.5  # each near row is in the cluster, where half are wrong

    plain = bounds.inherited_smoothness(0.0, float((constant != labels).mean()))
    assert rough > plain
    assert rough <= bounds.inherited_smoothness(0.0, risk_of_near_pairs)


@settings(max_examples=60, deadline=None)
@given(better, share, share, share, share)
def test_rougher_labels_never_promise_more(accuracy, rough, support, crossing, near):
    args = (support, crossing, near)

    for bound in (bounds.extended_accuracy, bounds.new_accuracy):
        assert bound(accuracy, rough, *args) <= bound(accuracy, rough / 2, *args) + 1e-9
    for tight in (bounds.extended_accuracy_tight, bounds.new_accuracy_tight):
        assert tight(accuracy, rough, crossing) <= tight(accuracy, rough / 2, crossing) + 1e-9


@settings(max_examples=60, deadline=None)
@given(better, share, share, share, share)
def test_measured_denominators_are_never_looser_than_the_printed_ones(a, rough, p, crossing, near):
    """Under independence Pr(X' ∈ supp | near) = p ≥ p² (1 + L p_d), since B_r fits beside supp."""
    growth = min(crossing * near, (1 - p) / p)  # p (1 + L p_d) is a coverage, at most 1

    printed = a - (2 * a - 1) * rough / (p**2 * (1 + growth))

    assert bounds.extended_accuracy_tight(a, rough, p) >= printed - 1e-9


@settings(max_examples=60, deadline=None)
@given(st.floats(-5, 1), st.floats(-5, 1), st.floats(0, 1), st.floats(0, 1))
def test_the_agreement_floor_holds_for_any_accuracies_above_the_bounds(low_ext, low_new, s, t):
    extended = max(low_ext, 0) + s * (1 - max(low_ext, 0))
    new = max(low_new, 0) + t * (1 - max(low_new, 0))

    true = new * extended + (1 - new) * (1 - extended)

    assert bounds.agreement_floor(low_ext, low_new) <= true + 1e-9


@settings(max_examples=60, deadline=None)
@given(st.lists(share, min_size=1, max_size=3), better, share)
def test_theorem_1_never_exceeds_the_exact_lift(others, accuracy, reached):
    """With true ã = ā (no dilution) and p(X) from others that always vote."""
    extended = new = accuracy
    strong = [max(each, 1 - each) for each in others]
    p = np.array(
        [
            math.prod(a if s > 0 else 1 - a for s, a in zip(signs, strong, strict=True))
            for signs in itertools.product((1, -1), repeat=len(strong))
        ]
    )
    q = p / (p + p[::-1])  # Pr(Y = 1 | votes); reversed signs are the other class's
    mass = (p + p[::-1]) / 2
    rows = np.repeat(q, np.maximum(1, np.round(mass * 2000)).astype(int))

    found = Others.without(rows)
    exact = reached * bounds.single_lift(rows, extended, new).mean()

    printed = bounds.lift_bound(extended, new, reached=reached, others=Others(found.performance))
    kept = bounds.lift_bound(extended, new, reached=reached, others=found)
    assert printed <= exact + 1e-9
    assert kept <= exact + 1e-9
    assert printed <= kept + 1e-9


def world(seed, n_rows=800, accuracy=0.9, support=0.5):
    """Scattered support on a 3 × 3 board: where it votes is independent of where labels change."""
    generator = np.random.default_rng(seed)
    points = generator.random((n_rows, 2))
    y = theory_board(points)
    cast = generator.random(n_rows) < support
    right = generator.random(n_rows) < accuracy
    matrix = np.where(cast, np.where(right, y, 1 - y), -1)
    return Split(Votes(matrix[:, None], classes=["a", "b"]), points, y)


def theory_board(points):
    from epoxy.theory.synthetics import checkerboard

    return checkerboard(points, 3)


def test_coverage_lemma_and_proposition_1_hold_on_random_draws():
    """In expectation they always hold; a draw may miss by its sampling error, 3 s.e. of a share."""
    held = 0
    for seed in range(20):
        split, radius = world(seed), 0.02
        place = theory.neighbourhoods(split, [radius], EUCLID)["source_0"]
        rough = theory.smoothness(split, radii=[radius], scan=EUCLID).value
        votes = reach(split, metric="euclidean").extend(radius)
        fresh = votes.cast[:, 0] & ~split.votes.cast[:, 0]
        right = votes.matrix[:, 0] == split.y

        gain = bounds.coverage_gain(place.crossing, place.near)
        printed = bounds.coverage_gain(place.crossing, place.near, place.support)
        whole = bounds.extended_accuracy_tight(0.9, rough, place.support_near)
        new = bounds.new_accuracy_tight(0.9, rough, place.crossing)

        assert printed[0] <= gain[0] <= fresh.mean()  # the event implies B_r, on any draw
        slack = 3 * np.sqrt(0.25 / fresh.sum())
        held += (
            right[fresh].mean() >= new[0] - slack
            and right[votes.cast[:, 0]].mean() >= whole[0] - slack
        )

    assert held == 20


def test_overlap_lemma_holds_for_independent_supports():
    generator = np.random.default_rng(0)
    points = generator.random((3000, 2))
    votes = Votes(np.where(generator.random((3000, 2)) < 0.3, 1, -1))
    split, radius = Split(votes, points), 0.02
    places = theory.neighbourhoods(split, [radius], EUCLID)
    least = min(place.crossing[0] for place in places.values())
    near = places["source_0"].near[0]

    after = bounds.minimum_overlap(reach(split, metric="euclidean").extend(radius))

    before = bounds.minimum_overlap(votes)
    assert after >= bounds.overlap_growth(least, near) * before
    assert after > before


def test_theorem_1_bounds_the_error_actually_made():
    """Three sources, Algorithm 2 on 2,000 rows: |R(f) − R(f̂)| in every one of 20 draws."""
    from epoxy.theory.synthetics import algorithm_2

    truth, n_rows, worst, allowed = np.array([0.85, 0.8, 0.75]), 2000, 0.0, []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        y = generator.integers(0, 2, n_rows)
        matrix = np.where(generator.random((n_rows, 3)) < truth, y[:, None], 1 - y[:, None])
        votes = Votes(matrix)
        rows = np.arange(n_rows)
        risk = [1 - bounds.posterior(votes, a)[rows, y].mean() for a in (truth, algorithm_2(votes))]
        worst = max(worst, abs(risk[0] - risk[1]))
        constants = Constants.of(votes, truth)
        allowed.append(bounds.estimation_error(constants, n_rows=n_rows, n_sources=3, overlap=1.0))

    assert worst <= min(allowed)


def test_posterior_by_hand_for_three_classes():
    votes = Votes([[0, -1], [0, 2], [-1, -1]], classes=["a", "b", "c"])

    found = bounds.posterior(votes, [0.8, 0.6])

    np.testing.assert_allclose(found[0], [0.8, 0.1, 0.1])
    both = np.array([0.8 * 0.2, 0.1 * 0.2, 0.1 * 0.6])
    np.testing.assert_allclose(found[1], both / both.sum())
    np.testing.assert_allclose(found[2], [1 / 3] * 3)


@pytest.mark.parametrize("balance", [0.5, 0.3])
def test_the_lift_of_one_extended_source_is_the_sum_over_all_votes(balance):
    """Only source 1 extended, every state of three sources and both classes by Bayes' rule."""
    a, whole, new, others = 0.8, 0.75, 0.7, (0.7, 0.6)
    p, weight, total = [], [], 0.0
    for signs in itertools.product((1, -1), repeat=2):
        up, down = (
            math.prod(acc if s == y else 1 - acc for s, acc in zip(signs, others, strict=True))
            for y in (1, -1)
        )
        up, down = up * balance, down * (1 - balance)
        p.append(up / (up + down))
        weight.append(up + down)
        for vote in (1, -1):
            odds = [up, down]
            odds[0] *= whole if vote == 1 else 1 - whole
            odds[1] *= 1 - whole if vote == 1 else whole
            after = odds[0] / sum(odds)
            chance = [up * (new if vote == 1 else 1 - new), down * (1 - new if vote == 1 else new)]
            total += chance[0] * (after - p[-1]) + chance[1] * (p[-1] - after)

    single = np.dot(weight, bounds.single_lift(np.array(p), whole, new))

    assert single == pytest.approx(total, abs=1e-12)
    assert a > whole


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda: bounds.minimum_overlap(Votes([[0]])), NotIdentifiable, "got 1"),
        (lambda: bounds.epoxy_risk([0.1], [0.5], 0.1), ParameterError, "0.6000"),
        (lambda: bounds.epoxy_risk([0.1], [1.0], 0, balance=1), ParameterError, "got 1"),
        (lambda: Constants.of(Votes([[2]]), [0.9]), VoteError, "2 classes"),
        (lambda: Constants.of(Votes([[0, -1], [-1, 1]]), [0.9, 0.9]), NotIdentifiable, "no two"),
        (
            lambda: bounds.estimation_error(
                Constants(0.1, 0.5, 0.5), n_rows=0, n_sources=3, overlap=0.1
            ),
            ParameterError,
            "n_rows=0",
        ),
        (lambda: bounds.posterior(Votes([[0]]), [0.9, 0.9]), AlignmentError, "2 accuracies"),
        (lambda: bounds.posterior(Votes([[0]]), [np.nan]), ParameterError, "NaN"),
        (lambda: bounds.posterior(Votes([[0]]), [0.9], [1, 1]), ParameterError, "class_balance"),
    ],
)
def test_numbers_the_formulas_cannot_use_are_refused(call, error, named):
    with pytest.raises(error) as caught:
        call()

    assert named in str(caught.value)
