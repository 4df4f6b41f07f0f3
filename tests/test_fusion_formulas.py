"""Fusion equals its formulas: the oracle is plain numpy, and computes each anew from all pairs of rows."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import epoxy
from epoxy import Fusion, Session, Split, Votes
from epoxy.fusion import around, correction, fitted, hand_labels, likest, unlabelled, view
from epoxy.session import Label, Several
from fusion_rows import bare, board, copied, draw, film, named, turned, voting, with_source
from oracles import fusion as formulas
from oracles.fusion import Oracle

DOUBLE = types.ModuleType("numpy in double precision")
vars(DOUBLE).update(vars(np), float32=np.float64)
EXACT, STEPS = 1e-9, 1e-8
"""How near probabilities are; Newton steps on labels end a little earlier."""


@pytest.fixture(autouse=True)
def _double(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model computes in float64 as the oracle does."""
    for module in (around, correction, fitted, hand_labels, likest, unlabelled, view):
        monkeypatch.setattr(module, "np", DOUBLE)
    monkeypatch.setattr(correction, "TOLERANCE", 1e-12)


def assert_follows(
    train: Split, hand: Split | None, other: Split, radius: Any = "auto", **options: Any
) -> tuple[Fusion, Oracle]:
    """Everything that was learned, and probabilities of train, other and held-out rows, are the oracle's."""
    model = Fusion(radius=radius, **options).fit(train, hand)
    names = train.votes.sources
    each = {**dict.fromkeys(names, "auto"), **radius} if isinstance(radius, dict) else None
    radii = [radius] * len(names) if each is None else [each[name] for name in names]
    oracle = Oracle(train, hand, radii=radii, **options)
    found = model.fitted_
    assert found.columns.tolist() == oracle.columns.tolist()
    assert found.heard.tolist() == oracle.heard.tolist()
    if oracle.support is not None:
        assert found.support == pytest.approx(oracle.support, abs=EXACT)
    assert found.radii == pytest.approx(oracle.radii, abs=1e-6, nan_ok=True)  # graphs are float32
    assert found.prior == pytest.approx(oracle.prior, abs=EXACT)
    assert found.lean == pytest.approx(oracle.lean, abs=1e-8)
    if found.sight is not None:
        slopes = [found.sight.line, found.sight.around]
        assert slopes == pytest.approx([oracle.line, oracle.around], abs=EXACT)
    within = EXACT if hand is None else STEPS
    for split in (train, other):
        np.testing.assert_allclose(model.predict_proba(split), oracle.proba(split), atol=within)
    np.testing.assert_allclose(model.held_out_, oracle.held, atol=within)
    return model, oracle


def three(n_labels: int = 20, n_classes: int = 2, n_sources: int = 8, **more: Any) -> Any:
    """Train, hand labels and other rows, of a size the oracle can bear."""
    train, hand, other = (
        draw(n, seed, n_sources, n_classes, **more)
        for n, seed in ((160, 1), (max(1, n_labels), 2), (50, 3))
    )
    return bare(train), (hand if n_labels else None), other


def sighted(*splits: Split | None, vectors: Any) -> Any:
    """The same rows with other vectors."""
    return tuple(
        None if each is None else Split(each.votes, vectors(each), each.y, chosen=each.chosen)
        for each in splits
    )


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_labels", [0, 1, 4, 9, 60])
def test_any_number_of_labels(n_labels: int, n_classes: int) -> None:
    assert_follows(*three(n_labels, n_classes))


@pytest.mark.parametrize("n_labels", [0, 30])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_votes_without_vectors(n_labels: int, n_classes: int) -> None:
    _, oracle = assert_follows(*sighted(*three(n_labels, n_classes), vectors=lambda _: None))

    assert oracle.tables is not None


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("n_labels", [0, 30])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_sources_that_name_every_class(n_classes: int, n_labels: int, vectors: bool) -> None:
    rows = [voting(n, seed, n_classes) for n, seed in ((200, 1), (max(1, n_labels), 2), (50, 3))]
    train, hand, other = rows if vectors else sighted(*rows, vectors=lambda _: None)

    _, oracle = assert_follows(bare(train), hand if n_labels else None, other)

    assert np.abs(oracle.lean).max() > 1e-3


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_vectors_of_zeros_and_twins(metric: str) -> None:
    """Zeros have no direction under cosine: they are near nobody. Twins are one node, held out as one."""

    def vectors(split: Split) -> np.ndarray:
        found = split.vectors.copy()
        found[: len(found) // 6] = 0
        half = len(found) // 2
        found[half : half + 8] = found[half]
        found[-6:] = three(0)[0].vectors[100:106]
        return found

    model, _ = assert_follows(*sighted(*three(30), vectors=vectors), metric=metric)

    assert model.hand_ is not None


def test_columns_of_a_table() -> None:
    splits = [board(n, at) for at, n in enumerate((200, 60, 40))]

    assert_follows(bare(splits[0]), *splits[1:])


@pytest.mark.parametrize("kind", ["constant", "principal axes", "wide", "wider than long"])
def test_vectors_of_every_kind(kind: str) -> None:
    rng = np.random.default_rng(7)
    mix = rng.normal(size=(8, 400 if "than" in kind else 140))

    def vectors(split: Split) -> np.ndarray:
        own = split.vectors.astype(float)
        more = np.random.default_rng(len(own)).normal(size=(len(own), mix.shape[1]))
        return {
            "constant": np.hstack([own, np.full((len(own), 2), 3.0)]),
            "principal axes": own[:, [0, 1, *range(2, 8)]] * np.geomspace(1, 0.03, 8),
            "wide": own @ mix + 0.3 * more,
            "wider than long": own @ mix + 0.3 * more,
        }[kind]

    model, _ = assert_follows(*sighted(*three(20), vectors=vectors))

    waves = len(model.fitted_.sight.view.phase)
    assert (waves == 0) == kind.startswith("wide")


def test_vectors_of_noise() -> None:
    rng = np.random.default_rng(0)
    noise = {n: rng.normal(size=(n, 8)) for n in (160, 30, 50)}

    for n_labels in (0, 30):
        splits = three(n_labels)
        _, oracle = assert_follows(*sighted(*splits, vectors=lambda each: noise[each.n_rows]))
        assert oracle.blind


def test_labels_may_find_vectors_telling_that_votes_at_chance_do_not() -> None:
    splits = [named(n, seed) for n, seed in ((200, 1), (40, 2), (50, 3))]

    _, oracle = assert_follows(bare(splits[0]), *splits[1:])

    assert oracle.blind
    assert oracle.corrected["sighted"]


RADII = [
    pytest.param({"source_0": 0.1, "source_1": None, "source_2": 0.0, "source_3": 0.4}, id="some"),
    pytest.param(0.15, id="one for all"),
    pytest.param(None, id="none"),
]


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("n_labels", [0, 20])
def test_radii_of_sources(radius: Any, n_labels: int) -> None:
    splits = three(n_labels)

    model, _ = assert_follows(*splits, radius=radius)

    free = Fusion().fit(*splits[:2]).predict_proba(splits[2])
    assert np.abs(model.predict_proba(splits[2]) - free).max() > 0.005


def test_by_rule_some_sources_lend_and_some_do_not() -> None:
    model, _ = assert_follows(*three(0, n_sources=12))

    lends = np.isfinite(model.fitted_.radii)
    assert 0 < lends.sum() < 12


def test_a_source_that_votes_never_or_everywhere() -> None:
    splits = []
    for each in three():
        matrix = each.votes.matrix.copy()
        matrix[:, 3], matrix[:, 2] = -1, np.arange(len(matrix)) % 2 if len(matrix) == 160 else -1
        splits.append(Split(each.votes.with_matrix(matrix), each.vectors, each.y))

    assert_follows(*splits)


@pytest.mark.parametrize("n_labels", [0, 20])
def test_no_vote_at_all(n_labels: int) -> None:
    train, hand, other = three(n_labels)
    mute = [
        each
        and Split(each.votes.with_matrix(np.full_like(each.votes.matrix, -1)), each.vectors, each.y)
        for each in (train, hand, other)
    ]

    assert_follows(*mute)


def test_labels_of_one_class() -> None:
    train, hand, other = three(40)

    assert_follows(train, hand.rows(hand.y == 0), other)


def test_labels_that_the_likest_speak_against() -> None:
    """Labels are noise, and a row's likest lack its own label."""
    train, hand, other = three(60)
    wrong = Split(hand.votes, hand.vectors, np.random.default_rng(3).integers(0, 2, 60))

    _, oracle = assert_follows(train, wrong, other)

    assert not oracle.corrected["asks"]


def test_more_labels_than_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likest, "MOST", 25)
    monkeypatch.setattr(formulas, "MOST_ASKED", 25)

    assert_follows(*three(60))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"class_balance": [0.3, 0.7]}, id="balance told"),
        pytest.param({"noise": 0.3}, id="labels wrong at times"),
        pytest.param({"noise": 0.9}, id="labels mostly wrong"),
        pytest.param({"seed": 5}, id="other waves"),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_parameters(options: dict[str, Any], n_classes: int) -> None:
    if "class_balance" in options and n_classes == 3:
        options = {"class_balance": [0.2, 0.3, 0.5]}
    splits = three(20, n_classes)

    model, _ = assert_follows(*splits, **options)

    plain = Fusion().fit(*splits[:2]).predict_proba(splits[2])
    assert np.abs(model.predict_proba(splits[2]) - plain).max() > 1e-4


def test_copies_of_sources() -> None:
    """A copy counts once; of fewer than ten votes two may be alike by chance, and a third is none."""
    model, _ = assert_follows(*map(copied, three()))

    names = [model.train_.votes.sources[at] for at in model.fitted_.columns]
    assert not {"near copy", "the same", "rare 2", "ten 1"} & {*names}
    assert {"rare 0", "rare 1", "ten 0", "mute", "half a copy"} <= {*names}


@pytest.mark.parametrize("n_labels", [0, 20])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_source_that_its_surroundings_contradict(n_classes: int, n_labels: int) -> None:
    splits = [turned(each) if each else None for each in three(n_labels, n_classes)]

    _, oracle = assert_follows(*splits)

    assert oracle.heard.tolist() == [True] * 8 + [False]


def test_shares_that_are_nearly_none_or_all() -> None:
    """Hardly anybody names the first class, which is told to be rare."""

    def rare(split: Split) -> Split:
        matrix = split.votes.matrix.copy()
        matrix[(matrix == 0) & (np.arange(len(matrix)) % 20 > 0)[:, None]] = -1
        return Split(split.votes.with_matrix(matrix), split.vectors, split.y)

    splits = [rare(each) for each in three()]

    assert_follows(*splits, class_balance=[0.01, 0.99])


@pytest.mark.parametrize(("n_votes", "heard"), [(9, True), (10, False)])
def test_a_source_that_hardly_votes_is_not_asked(n_votes: int, heard: bool) -> None:
    split = draw(60, 1)
    rows = np.flatnonzero(split.votes.covered)[:n_votes]
    column = np.full(60, -1)
    column[rows] = 1 - split.y[rows]
    train = bare(with_source(split, column))

    _, oracle = assert_follows(train, None, train)

    assert oracle.heard[-1] == heard


@pytest.mark.parametrize(("share", "heard"), [(0.06, True), (0.1, False)])
def test_a_source_that_hardly_harms_the_others_is_heard(share: float, heard: bool) -> None:
    train = bare(turned(draw(160, 1, 8), share))

    _, oracle = assert_follows(train, None, train)

    assert oracle.support[-1] < 0
    assert oracle.heard[-1] == heard


def test_of_five_sources_that_are_contradicted_four_are_asked() -> None:
    """Each takes every class for another one than the others do."""
    train, rng = draw(200, 1, 24, 6), np.random.default_rng(0)
    for at in range(5):
        wrong = np.where(rng.random(200) < 0.4, (train.y + 1 + at) % 6, -1)
        train = with_source(train, wrong, f"bad {at}")

    _, oracle = assert_follows(bare(train), None, bare(train))

    assert (~oracle.heard).sum() == 4
    assert oracle.heard[:24].all()


@pytest.mark.parametrize(("noise", "blind"), [(2.2, False), (2.6, True)])
def test_vectors_that_tell_half_of_what_votes_say(noise: float, blind: bool) -> None:
    train, hand, other = three(20)
    off = {n: np.random.default_rng(160 - n).normal(size=(n, 8)) for n in (160, 20, 50)}
    splits = sighted(train, hand, other, vectors=lambda x: x.vectors + noise * off[x.n_rows])

    _, oracle = assert_follows(*splits)

    assert oracle.blind == blind


def test_more_dimensions_than_axes() -> None:
    rng = np.random.default_rng(0)
    train, other = draw(400, 1, 4), draw(40, 3, 4)
    mix = rng.normal(size=(8, 390))

    def vectors(split: Split) -> np.ndarray:
        own = split.vectors @ mix
        return own + rng.normal(size=own.shape)

    train, other = sighted(bare(train), other, vectors=vectors)

    assert_follows(train, None, other)


def test_sources_that_are_asked_in_vain() -> None:
    """Votes at chance: some are contradicted, and the others are not better off without them."""
    splits = [named(n, seed, n_sources=9) for n, seed in ((160, 1), (20, 2), (50, 3))]

    assert_follows(bare(splits[0]), *splits[1:])


@pytest.mark.parametrize("vectors", [True, False])
def test_sequences(vectors: bool) -> None:
    train, other = film(8, 1, vectors=vectors), film(3, 2, vectors=vectors)

    model, oracle = assert_follows(bare(train), None, other)

    assert np.abs(model.predict_proba(other) - oracle.alone(other)).max() > 0.1


def test_labels_of_one_sequence_are_held_out_together() -> None:
    """Groups are joined by sequences; what these add to held-out rows is tested where chains are."""
    train, hand, other = three(40)
    films = np.repeat(np.arange(10), 4)
    votes = Votes(hand.votes.matrix, hand.votes.sources, hand.classes, sequences=films)

    assert_follows(train, Split(votes, hand.vectors, hand.y), other)


LABELLERS = {"ann": 0.8, "bob": 0.65}


@pytest.mark.parametrize("n_trusted", [0, 12])
@pytest.mark.parametrize(("n_classes", "balance"), [(2, None), (3, None), (2, [0.4, 0.6])])
def test_several_labellers_who_may_err(n_classes: int, n_trusted: int, balance: Any) -> None:
    train, _, _ = three(0, n_classes)
    y, rng = draw(160, 1, 8, n_classes).y, np.random.default_rng(0)
    session = Session(train, model=Fusion(class_balance=balance), reliability=LABELLERS)
    said = [("ann", row, 0.8) for row in range(40)]
    said += [("bob", row, 0.65) for row in range(30, 60)] + [
        (None, 70 + at, 1) for at in range(n_trusted)
    ]
    labels_ = []
    for by, row, right in said:
        label = y[row] if rng.random() < right else (y[row] + 1) % n_classes
        labels_.append(Label("train", str(row), train.classes[label], by))

    session.apply(Several(tuple(labels_), "labels"))
    known = session.state.workspace.labels
    rows = known.rows[0]
    hand = Split(train.votes.rows(rows), train.vectors[rows], known.labels)
    oracle = Oracle(train, hand, doubted=known.noise, class_balance=balance)

    assert (known.noise > 0).sum() == len(rows) - n_trusted
    np.testing.assert_allclose(session.probabilities, oracle.proba(train), atol=STEPS)
    np.testing.assert_allclose(session.outcome.held_out, oracle.held, atol=STEPS)


def test_without_functions() -> None:
    """Hand labels and vectors alone."""
    split = draw(160, 1)
    train = Split(Votes(np.empty((160, 0), int), [], split.classes), split.vectors)
    session = Session(train)
    for row in range(24):
        session.label(row, split.classes[split.y[row]])
    rows = np.arange(24)
    hand = Split(train.votes.rows(rows), train.vectors[rows], split.y[rows])

    oracle = Oracle(train, hand)

    np.testing.assert_allclose(session.probabilities, oracle.proba(train), atol=STEPS)
    np.testing.assert_allclose(session.outcome.held_out, oracle.held, atol=STEPS)


def test_in_single_precision_probabilities_differ_by_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it runs: features are float32, and likenesses nearer than 1e-5 are one."""
    monkeypatch.undo()
    splits = three(60, 3)

    model, oracle = Fusion().fit(*splits[:2]), Oracle(*splits[:2])

    np.testing.assert_allclose(model.predict_proba(splits[2]), oracle.proba(splits[2]), atol=3e-5)
    again = epoxy.Session(*splits[:2])
    np.testing.assert_allclose(again.probabilities, oracle.proba(splits[0]), atol=3e-5)
