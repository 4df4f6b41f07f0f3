from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.stats import binomtest

import epoxy
from epoxy.datasets import SyntheticSource, read_folder, synthetic
from epoxy.diagnostics.doctor import diagnose
from epoxy.diagnostics.examination import compare
from epoxy.errors import NotFitted, UnknownName

HEALTHY = [SyntheticSource(0.85, 0.4)] * 6
NOTHING = dict[str, float]()


def fitted(train, label_model=None, radius=0.02):
    return epoxy.Epoxy(label_model, radius=radius).fit(train)


def without_truth(split):
    return epoxy.Split(split.votes, split.vectors)


def about(findings, kind):
    """The findings of one kind."""
    return [each for each in findings if each.kind == kind]


def edited(split, change):
    """The split with its vote matrix changed."""
    matrix = np.array(split.votes.matrix)
    change(matrix)
    return split.with_votes(split.votes.with_matrix(matrix))


def voters(rng, y, accuracies, coverage=1.0):
    """Independent voters of two classes; (n_rows, n_sources)."""
    right = rng.random((len(y), len(accuracies))) < accuracies
    matrix = np.where(right, y[:, None], 1 - y[:, None])
    return np.where(rng.random(matrix.shape) < coverage, matrix, -1)


def world(seed, make, n_train=2000, n_dev=400, balance=0.5):
    """Train and dev splits of two classes; `make(rng, y)` gives the votes, vectors know the class."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n_train + n_dev) < balance).astype(int)
    matrix = make(rng, y)
    vectors = np.eye(2)[y] + 0.1 * rng.standard_normal((len(y), 2))
    votes = epoxy.Votes(matrix, classes=["ham", "spam"])
    train = epoxy.Split(votes.rows(slice(0, n_train)), vectors[:n_train])
    dev = epoxy.Split(votes.rows(slice(n_train, None)), vectors[n_train:], y[n_train:])
    return train, dev


# a healthy set


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("sources", "balance"),
    [
        (HEALTHY, (0.5, 0.5)),
        ([SyntheticSource(0.9, 0.3)] * 4 + [SyntheticSource(0.7, 0.6)] * 4, (0.4, 0.6)),
        (HEALTHY, (0.3, 0.3, 0.4)),
    ],
    ids=["two classes", "uneven", "three classes"],
)
def test_the_doctor_finds_nothing_in_a_healthy_set(seed, sources, balance):
    data = synthetic(1500, sources=sources, balance=balance, seed=seed)
    model = fitted(data.train, epoxy.Triplet(balance))

    assert diagnose(model, data.dev) == ()
    assert diagnose(model, data.dev, positive="class_1") == ()
    assert diagnose(model, without_truth(data.dev)) == ()


def test_the_doctor_finds_nothing_without_vectors():
    data = synthetic(1500, sources=HEALTHY, seed=3)
    train = epoxy.Split(data.train.votes)
    dev = epoxy.Split(data.dev.votes, y=data.dev.y)

    assert diagnose(fitted(train, radius=NOTHING), dev) == ()


@pytest.mark.parametrize("name", ["spam", "sms", "openi"])
@pytest.mark.parametrize("known", [True, False], ids=["truth", "no truth"])
def test_real_sets_are_diagnosed_in_finite_numbers(shared_data, name, known):
    data = read_folder(shared_data / name)
    model = epoxy.Epoxy(epoxy.Triplet(class_balance=data.dev)).fit(data.train)

    found = diagnose(model, data.dev if known else without_truth(data.dev))

    text = " ".join(map(str, found))
    assert "dependent-pairs" in {each.kind for each in found}
    assert not re.search(r"\b(nan|inf)\b", text)
    assert not {"misaligned", "uninformative-vectors", "class-balance"} & {e.kind for e in found}


def test_shuffled_vectors_of_a_real_set_are_noticed(shared_data):
    data = read_folder(shared_data / "spam")
    order = np.random.default_rng(0).permutation(data.train.n_rows)
    train = epoxy.Split(data.train.votes, data.train.vectors[order])

    found = about(diagnose(fitted(train, radius=0.1), data.dev), "misaligned")

    assert [str(each).startswith("On train, nearest neighbours agree") for each in found] == [True]


# 1. worse than random


def test_a_source_worse_than_random_is_named_with_its_numbers():
    data = synthetic(1500, sources=[*HEALTHY, SyntheticSource(0.25, 0.5)], seed=1)

    (found,) = about(diagnose(fitted(data.train), data.dev), "worse-than-random")

    assert (found.sources, found.severity) == (("source_6",), "warning")
    numbers = re.search(r"right on (\d+) of the (\d+) labelled rows", found.text)
    column, y = data.dev.votes.column("source_6"), data.dev.y
    assert numbers is not None
    assert [int(each) for each in numbers.groups()] == [(column == y).sum(), (column >= 0).sum()]
    assert "swap the labels" in found.cure


def test_a_one_sided_source_is_compared_with_the_share_of_its_class():
    def make(rng, y):
        detector = np.where(rng.random(len(y)) < np.where(y == 1, 0.5, 0.2), 1, -1)
        return np.column_stack([voters(rng, y, [0.9] * 4, 0.6), detector])

    train, dev = world(0, make, balance=0.15)

    found = diagnose(fitted(train, epoxy.Triplet(dev)), dev)

    right = (dev.votes.column("source_4") == dev.y).sum() / dev.votes.cast[:, 4].sum()
    assert 0.15 < right < 0.5  # wrong more often than right, and still better than chance
    assert not about(found, "worse-than-random")


def test_a_few_wrong_votes_do_not_make_a_source_worse_than_random():
    data = synthetic(1500, sources=[*HEALTHY, SyntheticSource(0.25, 0.5)], seed=1)
    voted = np.flatnonzero(data.dev.votes.cast[:, 6])[:5]

    found = diagnose(fitted(data.train), data.dev.rows(voted))

    assert not about(found, "worse-than-random")


def test_without_truth_a_flipped_source_is_found_from_the_votes():
    data = synthetic(1500, sources=[*HEALTHY, SyntheticSource(0.2, 0.5)], seed=1)

    (found,) = about(diagnose(fitted(data.train), without_truth(data.dev)), "reversed")

    assert found.sources == ("source_6",)
    assert re.search(r"votes count reversed \(learned accuracy \d+%\)", found.text)


def test_a_good_source_that_the_model_reverses_is_defended():
    def make(rng, y):
        liar = np.where(rng.random(len(y)) < 0.3, y, 1 - y)
        return np.column_stack([voters(rng, liar, [0.9] * 4), voters(rng, y, [0.8])])

    train, dev = world(0, make)

    found = diagnose(fitted(train, radius=NOTHING), dev)

    (defended,) = about(found, "reversed")
    assert defended.sources == ("source_4",)
    assert re.search(r"although it is right on 3\d\d of 400 labelled rows", defended.text)
    assert [each.sources for each in about(found, "worse-than-random")] == [
        (f"source_{index}",) for index in range(4)
    ]


# 2. near-duplicates and 3. dependent pairs


def test_near_duplicates_are_named_together_and_not_again_as_dependent():
    def copy(matrix):
        matrix[:, 4] = matrix[:, 5] = matrix[:, 3]
        matrix[:3, 5] = -1

    data = synthetic(1500, sources=[SyntheticSource(0.85, 0.4)] * 10, seed=2)
    train = edited(data.train, copy)

    found = diagnose(fitted(train), data.dev)

    (twins,) = about(found, "near-duplicates")
    assert twins.sources == ("source_3", "source_4", "source_5")
    both = int(train.votes.cast[:, 3].sum())
    assert f"share {both} of the {both} rows either votes on and vote alike on {both}" in twins.text
    assert not about(found, "dependent-pairs")


def test_two_detectors_of_one_class_are_no_duplicates_because_they_agree():
    detectors = [SyntheticSource(0.9, 0.15, label=1)] * 2
    data = synthetic(1500, sources=[*HEALTHY, *detectors], smoothness=0.2, seed=2)

    assert not about(diagnose(fitted(data.train), data.dev), "near-duplicates")


def half_copied(rng, y):
    matrix = voters(rng, y, [0.75] * 7)
    copied = rng.random(len(y)) < 0.6
    matrix[copied, 5] = matrix[copied, 4]
    return matrix


def test_pairs_that_err_together_are_named_with_their_excess():
    train, dev = world(1, half_copied)

    (found,) = about(diagnose(fitted(train, radius=NOTHING), dev), "dependent-pairs")

    assert (found.sources, found.severity) == (("source_4", "source_5"), "note")
    assert re.search(r"1 pair .* 'source_4' and 'source_5' \(0\.[3-6]\d\)", found.text)
    assert "Triplet(dependencies=[('source_4', 'source_5')" in found.cure


def test_dependencies_the_model_was_told_of_are_not_reported():
    train, dev = world(1, half_copied)
    model = epoxy.Triplet(dependencies=[("source_5", "source_4")])

    assert not about(diagnose(fitted(train, model, radius=NOTHING), dev), "dependent-pairs")


@pytest.mark.parametrize("dependencies", [[("source_5", "source_4")], "learn"])
def test_a_loaded_model_remembers_the_dependencies_it_knew_of(tmp_path, dependencies):
    train, dev = world(1, half_copied)
    made = fitted(train, epoxy.Triplet(dependencies=dependencies), radius=NOTHING)

    again = epoxy.load(made.save(tmp_path / "model"))

    assert not about(diagnose(again, dev), "dependent-pairs")


# 4. one-sided sets


def only_spam(rng, y):
    return np.where(rng.random((len(y), 3)) < 0.3, 1, -1)


def test_a_set_that_only_ever_says_one_class_is_noticed():
    train, dev = world(0, only_spam)

    found = diagnose(fitted(train, epoxy.MajorityVote(), radius=NOTHING), dev)

    (one_sided,) = about(found, "one-sided-set")
    cast = int(train.votes.cast.sum())
    assert f"Every one of the {cast} votes names 'spam'" in one_sided.text
    assert one_sided.cure == "Write a labeling function for 'ham'."


def third_class(split, y=None):
    votes = epoxy.Votes(split.votes.matrix, classes=["ham", "spam", "other"])
    return epoxy.Split(votes, split.vectors, split.y if y is None else y)


def test_a_class_nobody_names_is_named():
    train, dev = world(0, lambda rng, y: voters(rng, y, [0.85] * 6, 0.4))
    y = np.where(np.arange(dev.n_rows) % 5 == 0, 2, dev.y)

    found = diagnose(fitted(third_class(train)), third_class(dev, y))

    (unnamed,) = about(found, "unnamed-class")
    assert re.search(r"No source ever names 'other' on \d+ covered rows; 20% of rows", unnamed.text)


# 5. too few overlaps


def one_apart(rng, y):
    matrix = voters(rng, y, [0.85] * 4, 0.6)
    alone = rng.random(len(y)) < 0.2
    matrix[alone] = -1
    return np.column_stack([matrix, np.where(alone, y, -1), np.full(len(y), -1)])


def test_a_source_that_meets_no_other_is_said_to_carry_no_weight():
    train, dev = world(0, one_apart)

    found = diagnose(fitted(train, radius=NOTHING), dev)

    (few,) = about(found, "few-overlaps")
    assert (few.sources, few.severity) == (("source_4",), "warning")
    assert few.text.startswith("40% of all pairs of sources share no row")
    assert "1 of 6 sources meet too few others" in few.text
    assert [each.sources for each in about(found, "never-votes")] == [("source_5",)]


# 6. class balance


def test_a_class_balance_unlike_the_truth_is_noticed():
    data = synthetic(1500, sources=HEALTHY, balance=(0.85, 0.15), seed=0)

    (found,) = about(diagnose(fitted(data.train), data.dev), "class-balance")

    share = np.mean(data.dev.y == 0)
    rows = int((data.dev.y == 0).sum())
    assert f"says 50% 'class_0', the true labels say {share:.0%} ({rows} of 300," in found.text
    assert found.severity == "warning"


def test_eight_rows_do_not_refute_a_class_balance():
    data = synthetic(1500, sources=HEALTHY, balance=(0.85, 0.15), seed=0)

    assert not about(diagnose(fitted(data.train), data.dev.rows(slice(8))), "class-balance")


# 7. broad sources


def drowned(rng, y, accuracy=0.55):
    """Four narrow, good sources and a loud one that votes everywhere."""
    narrow = voters(rng, y, [0.95] * 4, 0.12)
    return np.column_stack([narrow, voters(rng, y, [accuracy])])


class Loud(epoxy.Triplet):
    """A label model that trusts the last source beyond reason."""

    def fit(self, votes):
        super().fit(votes)
        self.log_likelihood_[-1, 1:] = np.log([[0.999, 0.001], [0.001, 0.999]])
        return self


def test_a_broad_source_that_misleads_is_named_with_what_it_costs():
    train, dev = world(0, drowned)

    (found,) = about(diagnose(fitted(train, Loud(), radius=NOTHING), dev), "broad-source")

    assert (found.sources, found.severity) == (("source_4",), "warning")
    assert re.search(r"votes on 100% of rows .*others 12%\) and drowns them", found.text)
    assert re.search(
        r"right on \d+ of 400 labelled rows, and without it accuracy on the \d+ where", found.text
    )


def test_a_broad_source_that_is_right_is_welcome():
    train, dev = world(0, lambda rng, y: drowned(rng, y, accuracy=0.9))

    assert not about(diagnose(fitted(train, Loud(), radius=NOTHING), dev), "broad-source")


# 8. extension


def test_extension_over_vectors_that_know_nothing_is_said_to_hurt():
    sources = [SyntheticSource(0.95, 0.4)] * 5
    data = synthetic(1500, sources=sources, smoothness=0.0, seed=0)

    found = diagnose(fitted(data.train, radius=2.0), data.dev)

    (lent,) = about(found, "lent-votes")
    assert lent.severity == "warning"
    assert lent.sources == tuple(sorted(lent.sources, key=lent.text.index))
    assert "less accurate than own ones and no better than chance" in lent.text
    assert "'source_0': None" in lent.cure
    (hurts,) = about(found, "extension-hurts")
    assert re.search(r"lowers accuracy on 300 labelled rows from 9\d\.\d% to", hurts.text)


def test_a_radius_that_held_up_is_suggested():
    rng = np.random.default_rng(0)
    n = 1200
    y = rng.integers(0, 2, n)
    votes = voters(rng, y, [0.95] * 4, 0.7)
    votes[:, 0] = -1
    angle = np.where(y == 1, 0.0, np.pi) + 0.05 * rng.standard_normal(n)
    votes[y == 1, 0] = np.where(rng.random((y == 1).sum()) < 0.5, 1, -1)
    split = epoxy.Split(
        epoxy.Votes(votes, classes=["ham", "spam"]), np.c_[np.cos(angle), np.sin(angle)], y
    )
    train, dev = epoxy.Split(split.votes, split.vectors).rows(slice(800)), split.rows(slice(800, n))

    (found,) = about(diagnose(fitted(train, radius={"source_0": 2.0}), dev), "lent-votes")

    radius = re.search(r"\{'source_0': ([\d.e-]+)\}", found.cure)
    assert radius is not None
    assert 0 < float(radius.group(1)) < 1  # the own class, not the other pole
    assert not about(
        diagnose(fitted(train, radius={"source_0": float(radius.group(1))}), dev), "lent-votes"
    )


# 9. losing to majority vote


def test_a_model_that_loses_to_majority_vote_is_told_what_to_use():
    data = synthetic(1500, sources=[SyntheticSource(0.75, 0.3)] * 5, seed=0)
    model = fitted(data.train, epoxy.Triplet([0.995, 0.005]))

    (found,) = about(diagnose(model, data.dev), "loses-to-majority")

    assert re.match(
        r"Triplet reaches accuracy \d\d\.\d% on 300 labelled rows, majority vote over the same "
        r"votes \d\d\.\d% \(p = \de-\d+\)\.",
        found.text,
    )
    assert found.cure.startswith("Use label_model=MajorityVote()")


# 10. rows and vectors


def shifted(split):
    return epoxy.Split(split.votes, np.roll(split.vectors, 7, axis=0), split.y)


def test_vectors_shifted_against_their_rows_are_noticed_in_train():
    data = synthetic(1500, sources=HEALTHY, seed=0)

    found = about(diagnose(fitted(shifted(data.train)), data.dev), "misaligned")

    assert [each.severity for each in found] == ["warning"]
    assert re.match(
        r"On train, nearest neighbours agree on \d\d% of majority votes and shuffled ones on \d\d% "
        r"\(500 rows asked\)",
        found[0].text,
    )


@pytest.mark.parametrize("known", [True, False], ids=["by labels", "by votes"])
def test_vectors_shifted_against_their_rows_are_noticed_in_dev(known):
    data = synthetic(3000, sources=HEALTHY, seed=0)
    dev = shifted(data.dev)

    found = about(diagnose(fitted(data.train), dev if known else without_truth(dev)), "misaligned")

    what = "true labels" if known else "majority votes"
    assert [what in each.text and each.text.startswith("On this split") for each in found] == [True]


def test_vectors_that_know_the_votes_and_not_the_label_are_not_misaligned():
    data = synthetic(3000, sources=HEALTHY, seed=0)
    y = np.random.default_rng(0).integers(0, 2, data.dev.n_rows)
    dev = epoxy.Split(data.dev.votes, data.dev.vectors, y)

    found = diagnose(fitted(data.train), dev)

    assert not about(found, "misaligned")
    (vectors,) = about(found, "uninformative-vectors")
    assert (vectors.severity, "try another encoder" in vectors.cure) == ("note", True)


def test_a_crowd_that_votes_on_rows_handed_out_at_random_is_not_misaligned():
    train, dev = world(0, lambda rng, y: voters(rng, y, [0.8] * 40, 0.1))

    assert not about(diagnose(fitted(train), without_truth(dev)), "misaligned")


def test_twenty_rows_are_too_few_to_call_vectors_misaligned():
    data = synthetic(1500, sources=HEALTHY, seed=0)

    assert not about(diagnose(fitted(data.train), shifted(data.dev).rows(slice(20))), "misaligned")


# the value, the border, the tests


def test_warnings_come_before_notes():
    train, dev = world(1, half_copied, balance=0.85)

    severities = [each.severity for each in diagnose(fitted(train, radius=NOTHING), dev)]

    assert severities == ["warning"] * severities.count("warning") + ["note"] * severities.count(
        "note"
    )
    assert len(set(severities)) == 2


def test_the_border_refuses_what_is_not_fitted_or_known():
    data = synthetic(100, seed=0)

    with pytest.raises(NotFitted, match="Epoxy is not fitted yet; call fit first"):
        diagnose(epoxy.Epoxy(), data.dev)
    with pytest.raises(UnknownName, match="no class named 'class_9'"):
        diagnose(fitted(data.train), data.dev, positive="class_9")


def test_labelings_are_compared_by_an_exact_paired_test():
    y = np.zeros(50, dtype=int)
    first, second = np.ones(50, dtype=int), np.zeros(50, dtype=int)
    first[:30] = 0
    second[:4] = 1  # 20 rows gained, 4 lost

    found = compare(first, second, y)

    expected = binomtest(20, 24, alternative="greater").pvalue
    assert (found.first, found.second, found.scoring) == (0.6, 0.92, "accuracy")
    assert found.p_value == pytest.approx(expected)
    assert found.second_wins()
    assert not compare(second, first, y).second_wins()


def test_f1_is_compared_with_the_spread_a_bootstrap_finds():
    rng = np.random.default_rng(0)
    y = (rng.random(2000) < 0.2).astype(int)
    first, second = (np.where(rng.random(2000) < a, y, 1 - y) for a in (0.88, 0.9))

    found = compare(first, second, y, positive=1)

    def f1(guess, truth):
        return 2 * (guess & truth).sum() / (guess.sum() + truth.sum())

    draws = [rng.integers(0, 2000, 2000) for _ in range(2000)]
    lost = [f1(first[draw], y[draw]) >= f1(second[draw], y[draw]) for draw in draws]
    assert found.first == pytest.approx(f1(first, y))
    # the share of 2,000 draws has a standard error of at most 0.011; the delta method adds its own
    assert found.p_value == pytest.approx(np.mean(lost), abs=0.04)


def test_dependent_pairs_are_found_among_very_many_sources():
    def make(rng, y):
        matrix = voters(rng, y, [0.75] * 130, 0.3)
        matrix[:, 129] = np.where(rng.random(len(y)) < 0.8, matrix[:, 0], matrix[:, 129])
        return matrix

    train, dev = world(1, make, n_train=1500, n_dev=100)

    found = about(diagnose(fitted(train, radius=NOTHING), dev), "dependent-pairs")

    assert [each.sources for each in found] == [("source_0", "source_129")]


def test_a_broad_source_is_judged_under_majority_vote_too():
    def make(rng, y):
        loud = np.where(rng.random(len(y)) < 0.2, y, 1 - y)
        return np.column_stack([voters(rng, y, [0.95] * 4, 0.12), loud])

    train, dev = world(0, make)

    found = diagnose(fitted(train, epoxy.MajorityVote(), radius=NOTHING), dev)

    assert [each.sources for each in about(found, "broad-source")] == [("source_4",)]
