"""Marginals equal to the reference implementation's: stored numbers, real data, and live where installed."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path

import numpy as np
import pytest

from epoxy.sequences import Chain, joint_balance
from epoxy.votes import Split, Votes

# Marginals Pr(+1) of FlyingSquid (with pgmpy 0.1.25) and their sum. Keys: elements, balance, solve on
# `signed_votes()`; or tennis, where the last two are the sums over dev and train.
STORED = {
    "2 even mean": """
    0.995614636 0.223055375 0.52474332 0.995736413 0.008234896 0.116491109 0.019568658
    0.103812668 119.37431
    """,
    "2 even median": """
    0.993172684 0.242856569 0.584583443 0.997439237 0.01176305 0.093788134 0.024685363
    0.084380656 119.721738
    """,
    "2 dev mean": """
    0.971991453 0.422599742 0.782274113 0.981742531 0.000995755 0.010913438 0.002390513
    0.010381761 106.964239
    """,
    "2 dev median": """
    0.959121543 0.421401142 0.828763223 0.988898196 0.001379119 0.008017199 0.002923462
    0.007803702 107.332021
    """,
    "3 even mean": """
    0.997713096 0.609622452 0.386191793 0.994694088 0.002803835 0.192970394 0.015300546
    0.036484061 119.340653
    """,
    "3 even median": """
    0.991308594 0.418214936 0.378790361 0.980534531 0.009178546 0.227138044 0.029962703
    0.105374048 118.732922
    """,
    "3 dev mean": """
    0.990744235 0.588804449 0.351847254 0.95039526 0.000221807 0.017308403 0.001994037
    3.9722e-05 103.781526
    """,
    "3 dev median": """
    0.969254685 0.51458301 0.315686699 0.870676153 0.0078085 0.025610578 0.004608541
    0.001536148 104.171788
    """,
    "5 even mean": """
    0.999089499 0.051148108 0.804373473 0.960411613 0.001839288 0.220176941 0.058746079
    0.051456542 117.418836
    """,
    "5 even median": """
    0.993785644 0.073158339 0.966176501 0.941325255 0.004652377 0.248198746 0.076424774
    0.06911751 117.624646
    """,
    "5 dev mean": """
    0.98039822 0.011909469 0.276111143 0.287905528 0.006346766 0.030865893 0.002238846
    0.000423144 102.461975
    """,
    "5 dev median": """
    0.937501153 0.099816385 0.224246536 0.225302259 0.014607476 0.037506254 0.003602886
    0.000768734 101.787942
    """,
    "3 dev padded": """
    0.999408968 0.999055711
    """,
    "tennis 3 uniform": """
    0.999951766 0.994012599 0.99999474 0.995923869 0.994012599 0.99999474 0.996823055
    0.999992082 0.999989944 0.985972093 290.496319668 2962.108861555
    """,
    "tennis 3 dev": """
    0.999984583 0.999982777 0.999999609 0.995064844 0.999962387 0.999999602 0.978012381
    0.99999876 0.999999361 0.984014352 278.029591831 2718.307728609
    """,
    "tennis 5 uniform": """
    0.999709114 0.998338621 0.999993523 0.998172152 0.999113714 0.999709114 0.998338621
    0.999993523 0.999944431 0.995773151 290.104935879 2966.409161667
    """,
    "tennis 5 dev": """
    0.999984551 0.999875476 0.99999953 0.999944634 0.999635659 0.999984551 0.999875476
    0.99999954 0.999999787 0.998672808 277.867873838 2748.958296075
    """,
}


def stored(key: str) -> np.ndarray:
    return np.array(STORED[key].split(), dtype=float)


def noise(count: int, seed: int) -> np.ndarray:
    """Uniform numbers from a linear congruential generator: the same on every machine."""
    state, out = seed, []
    for _ in range(count):
        state = (1103515245 * state + 12345) % 2**31
        out.append(state / 2**31)
    return np.array(out)


def signed_votes(n_rows: int = 240, n_sources: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Labels that stay for a while, and sources of different accuracy and coverage; 0 abstains."""
    stay = noise(n_rows, 1)
    label = np.ones(n_rows, dtype=int)
    for row in range(1, n_rows):
        label[row] = label[row - 1] if stay[row] < 0.85 else -label[row - 1]
    right = noise(n_rows * n_sources, 2).reshape(n_rows, n_sources) < [0.9, 0.8, 0.75, 0.7]
    votes = np.where(right, label[:, None], -label[:, None])
    cast = noise(n_rows * n_sources, 3).reshape(n_rows, n_sources) < [0.95, 0.8, 0.6, 0.9]
    return np.where(cast, votes, 0), label


def votes_of(signed: np.ndarray) -> Votes:
    return Votes.from_signed(signed)


def dev_of(label: np.ndarray, votes: Votes) -> Split:
    return Split(votes, y=(label + 1) // 2)


@pytest.mark.parametrize(
    ("length", "balance", "solve"),
    list(itertools.product((2, 3, 5), ("even", "dev"), ("mean", "median"))),
)
def test_chain_marginals_equal_the_stored_ones(length, balance, solve):
    signed, label = signed_votes()
    votes = votes_of(signed)
    given = None if balance == "even" else dev_of(label, votes)

    model = Chain(length, class_balance=given, solve=solve, compat="flyingsquid").fit(votes)

    found = model.predict_proba(votes)[:, 1]
    *expected, total = stored(f"{length} {balance} {solve}")
    assert found[:8] == pytest.approx(expected, abs=1e-8)
    assert found.sum() == pytest.approx(total, abs=2e-6)


def test_a_joint_balance_equals_the_dev_labels_it_was_counted_on():
    signed, label = signed_votes()
    votes = votes_of(signed)
    joint = joint_balance((label + 1) // 2, 3, n_classes=2)

    found = Chain(3, class_balance=joint, compat="flyingsquid").fit(votes).predict_proba(votes)

    assert found[:8, 1] == pytest.approx(stored("3 dev mean")[:8], abs=1e-8)


def test_a_remainder_is_not_learned_from_and_the_model_says_so():
    signed, _ = signed_votes()

    model = Chain(7, compat="flyingsquid").fit(votes_of(signed))

    assert model.findings_ == ["1 sequences not of length 7 were not learned from"]


def tennis(folder: Path) -> tuple[Votes, Split]:
    import pyarrow.parquet as parquet

    classes = ["no rally", "rally"]
    home = folder / "tennis_L"
    train = Votes(np.load(home / "votes-train.npy"), classes=classes)
    votes = Votes(np.load(home / "votes-dev.npy"), classes=classes)
    return train, Split(votes, y=parquet.read_table(home / "dev.parquet")["label"].to_pylist())


@pytest.mark.parametrize(("length", "balance"), list(itertools.product((3, 5), ("uniform", "dev"))))
def test_tennis_marginals_equal_the_stored_ones(shared_data, length, balance):
    train, dev = tennis(shared_data)
    given = None if balance == "uniform" else dev
    model = Chain(length, class_balance=given, compat="flyingsquid").fit(train)

    on_dev, on_train = (model.predict_proba(each)[:, 1] for each in (dev.votes, train))

    *first, dev_sum, train_sum = stored(f"tennis {length} {balance}")
    assert on_dev[:10] == pytest.approx(first, abs=1e-8)
    whole = [each[: len(each) // length * length].sum() for each in (on_dev, on_train)]
    assert whole == pytest.approx([dev_sum, train_sum], abs=1e-6)


def reference_marginals(
    signed: np.ndarray, length: int, balance: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Run the installed FlyingSquid on windows of `length`: marginals, and the joint argmax."""
    pytest.importorskip("flyingsquid", reason="FlyingSquid is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from flyingsquid.label_model import LabelModel

        per_element = signed.shape[1]
        windows = signed[: len(signed) // length * length].reshape(-1, length * per_element)
        columns = windows.shape[1]
        model = LabelModel(
            columns,
            v=length,
            y_edges=[(step, step + 1) for step in range(length - 1)],
            lambda_y_edges=[(column, column // per_element) for column in range(columns)],
        )
        model.fit(windows, class_balance=balance)
        return model.predict_proba_marginalized(windows), model.predict(windows)


@pytest.mark.parametrize(("length", "given"), list(itertools.product((2, 3, 4), (False, True))))
def test_chains_equal_the_installed_reference(length, given):
    signed, _ = signed_votes()
    balance = noise(2**length, 11) + 0.1 if given else None
    expected, joint = reference_marginals(signed, length, balance)
    shares = None if balance is None else balance / balance.sum()
    votes = votes_of(signed)

    model = Chain(length, class_balance=shares, compat="flyingsquid").fit(votes)

    assert model.predict_proba(votes)[:, 1] == pytest.approx(expected, abs=1e-9)
    labels = np.where(model.predict_joint(votes) == "positive", 1, -1)
    assert labels.tolist() == joint.ravel().tolist()


def test_a_shorter_last_window_equals_the_reference_padded_with_abstentions():
    signed, label = signed_votes()
    train, dev = votes_of(signed[:237]), dev_of(label[:237], votes_of(signed[:237]))
    model = Chain(3, class_balance=dev, compat="flyingsquid").fit(train)

    found = model.predict_proba(votes_of(signed[:239]))

    assert found.shape == (239, 2)
    assert found[-2:, 1] == pytest.approx(stored("3 dev padded"), abs=1e-8)
