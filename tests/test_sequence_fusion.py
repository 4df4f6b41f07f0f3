"""Fusion on rows in order: the chain against enumeration, and what sessions and projects make of it."""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

import epoxy
from epoxy.cli.main import main
from epoxy.engines.refit import RefitEngine
from epoxy.errors import AlignmentError, ParameterError, StoreError
from epoxy.fusion.engine import FusionEngine
from epoxy.fusion.sequence import (
    LEARNED,
    LOOSE,
    LabelChain,
    Steps,
    balanced,
    class_shares,
    counted_pairs,
    held_out,
    smoothed,
    whole_sequences,
)
from epoxy.sequences.layout import Layout, layout_of
from epoxy.sequences.movement import staying_pairs

CLASSES = ("quiet", "event")


def chain_of(rng, n_classes, **given):
    share = rng.dirichlet(np.full(n_classes, 5.0))
    pairs = balanced(rng.random((n_classes, n_classes)) + 3 * np.eye(n_classes), share)
    return LabelChain(share, pairs[None], **{"trust": 0.7, **given})


def enumerate_rows(proba, chain, given):
    """Every labelling of one sequence weighed by hand: what each row is, its own label not heard."""
    length, n_classes = proba.shape
    odds = proba / chain.share
    found = np.zeros_like(proba)
    for row in range(length):
        for labels in itertools.product(range(n_classes), repeat=length):
            weight = chain.share[labels[0]]
            for one, two in itertools.pairwise(labels):
                weight *= chain.transitions[one, two]
            for at, label in enumerate(labels):
                if at == row:
                    weight *= odds[at, label]
                elif given[at] >= 0:
                    right = given[at] == label
                    weight *= 1 - chain.noise if right else chain.noise / (n_classes - 1)
                else:
                    weight *= odds[at, label] ** chain.trust
            found[row, labels[row]] += weight
    return found / found.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize(("n_classes", "lengths"), [(2, (6, 1, 4)), (3, (4, 3))])
def test_probabilities_are_those_of_every_labelling_added_up(n_classes, lengths, noise):
    rng = np.random.default_rng(n_classes)
    chain = chain_of(rng, n_classes, noise=noise)
    proba = rng.dirichlet(np.ones(n_classes), sum(lengths))
    given = np.full(len(proba), -1)
    given[[1, len(proba) - 2]] = 1
    starts = np.r_[0, np.cumsum(lengths)[:-1]]

    found = smoothed(proba, chain.added(proba, Layout(starts, np.array(lengths)), given))

    for start, length in zip(starts, lengths):
        part = slice(start, start + length)
        assert found[part] == pytest.approx(enumerate_rows(proba[part], chain, given[part]))


def test_independent_labels_add_nothing():
    rng = np.random.default_rng(0)
    share = rng.dirichlet(np.ones(3))
    chain = LabelChain(share, np.outer(share, share)[None], trust=0.4)
    proba = rng.dirichlet(np.ones(3), 50)
    given = np.where(rng.random(50) < 0.2, 1, -1)

    added = chain.added(proba, Layout(np.array([0, 20]), np.array([20, 30])), given)

    assert np.abs(added).max() < 1e-12
    assert smoothed(proba, added) == pytest.approx(proba)


def test_balanced_pairs_have_the_share_on_both_sides_and_keep_their_odds():
    rng = np.random.default_rng(1)
    share, pairs = rng.dirichlet(np.ones(3)), rng.random((4, 3, 3)) + 0.1

    found = balanced(pairs, share)

    assert found.sum(axis=2) == pytest.approx(np.tile(share, (4, 1)))
    assert found.sum(axis=1) == pytest.approx(np.tile(share, (4, 1)))

    def odds(table):
        return table[:, 0, 0] * table[:, 1, 2] / table[:, 0, 2] / table[:, 1, 0]

    assert odds(found) == pytest.approx(odds(pairs))


def test_labels_that_stay_are_as_likely_as_a_search_over_all_shares_finds():
    rng = np.random.default_rng(2)
    share = np.array([0.3, 0.7])
    tables = rng.dirichlet(np.ones(3), (4, 2)).transpose(0, 2, 1)  # (source, vote, class)
    counts = rng.integers(1, 50, (4, 3, 4, 3)).astype(float)

    found = staying_pairs(counts, tables, share)

    def likelihood(pairs):
        return sum(
            counts[i, v, j, w] * np.log(tables[i, v] @ pairs @ tables[j, w])
            for i, v, j, w in itertools.product(range(4), range(3), range(4), range(3))
            if i != j
        )

    stays = np.linspace(0, 1, 101)
    every = [likelihood((1 - s) * np.outer(share, share) + s * np.diag(share)) for s in stays]
    assert likelihood(found) >= max(every) - 1e-9


def film(
    seed=0, n_films=20, length=60, *, stays=0.95, mistakes_stay=0.0, vectors=False, cast=0.5
) -> epoxy.Split:
    """Films whose label stays for a while, sources of 70 %, whose mistakes may stay too."""
    rng = np.random.default_rng(seed)
    n_rows = n_films * length
    first = np.arange(n_rows) % length == 0

    def held(values, share):
        kept = ~first & (rng.random(n_rows) < share)
        return values[np.maximum.accumulate(np.where(kept, 0, np.arange(n_rows)))]

    y = held(rng.integers(0, 2, n_rows), stays)
    right = np.stack([held(rng.random(n_rows), mistakes_stay) < 0.7 for _ in range(5)], axis=1)
    matrix = np.where(right, y[:, None], 1 - y[:, None])
    matrix[rng.random(matrix.shape) > cast] = -1
    looks = rng.normal(size=(2, 8))[y] + rng.normal(size=(n_rows, 8)) if vectors else None
    names = [f"film {at // length:02}" for at in range(n_rows)]
    return epoxy.Split(epoxy.Votes(matrix, classes=CLASSES, sequences=names), looks, y)


def accuracy(proba, split):
    return float((proba.argmax(axis=1) == split.y).mean())


@pytest.mark.parametrize("vectors", [False, True])
def test_the_order_lifts_accuracy_over_rows_on_their_own(vectors):
    train = film(vectors=vectors)
    alone = train.without_sequences()

    in_order = epoxy.Fusion().fit(train).predict_proba(train)
    row_by_row = epoxy.Fusion().fit(alone).predict_proba(alone)

    assert accuracy(in_order, train) > accuracy(row_by_row, train) + 0.05
    assert accuracy(in_order, train) > 0.93


def test_mistakes_that_stay_are_not_trusted_and_do_no_harm():
    fresh, stale = (film(mistakes_stay=each, cast=1.0) for each in (0.0, 0.9))
    models = [epoxy.Fusion().fit(each) for each in (fresh, stale)]
    alone = stale.without_sequences()

    assert models[0].chain_.trust > 0.5
    assert models[1].chain_.trust < 0.2
    row_by_row = epoxy.Fusion().fit(alone).predict_proba(alone)
    assert accuracy(models[1].predict_proba(stale), stale) >= accuracy(row_by_row, stale) - 0.01


def test_labels_in_no_order_are_found_to_be_so():
    train = film(stays=0.0)
    alone = train.without_sequences()

    model = epoxy.Fusion().fit(train)

    assert np.trace(model.chain_.pairs[0]) == pytest.approx(0.5, abs=0.06)
    row_by_row = epoxy.Fusion().fit(alone).predict_proba(alone)
    assert np.abs(model.predict_proba(train) - row_by_row).mean() < 0.03


def test_steps_are_those_of_the_votes_until_hand_labels_are_counted():
    train = film()
    proba = np.eye(2)[train.y] * 0.8 + 0.1
    steps = Steps.learn(train.votes, proba)
    share = class_shares(proba)
    none, some = np.zeros((2, 2)), np.array([[5.0, 1.0], [2.0, 4.0]])

    assert steps.with_counts(none, share) == pytest.approx(steps.pairs)
    mixed = (some + LEARNED * steps.pairs) / (12 + LEARNED)
    assert steps.with_counts(some, share) == pytest.approx(balanced(mixed, share))
    many = counted_pairs(train.y, layout_of(train.votes, None), 2).sum(axis=0) * 1000
    counted = steps.with_counts(many, share)
    assert np.trace(counted) == pytest.approx(np.trace(many) / many.sum(), abs=0.01)
    # without labels, one pair in ten is taken to be independent
    assert np.trace(steps.pairs) < 1 - LOOSE / 2 + 0.01


def test_pairs_are_counted_within_sequences_where_both_labels_are_known():
    layout = Layout(np.array([0, 4]), np.array([4, 3]))

    found = counted_pairs(np.array([0, 0, 1, -1, 1, 1, 0]), layout, 2)

    assert found.tolist() == [[[1, 1], [0, 0]], [[0, 0], [1, 1]]]


def labelled(split, rows) -> epoxy.Split:
    y = np.full(split.n_rows, -1)
    y[rows] = split.y[rows]
    return epoxy.Split(split.votes, split.vectors, y)


def session_of(split, rows, **options) -> epoxy.Session:
    return epoxy.Session(split, labels=labelled(split, rows), **options)


def test_groups_are_joined_until_no_sequence_is_in_two_of_them():
    groups = np.array([0, 0, 1, 2, 3, 4, 5, 6])
    films = np.array([9, 8, 8, 7, 7, 6, 5, 4])

    joined = whole_sequences(groups, films)

    same = joined[:, None] == joined
    assert same[0, :3].all()  # the first two are one group, the second and the third one film
    assert same[3, 4]
    assert len(np.unique(joined)) == 5
    assert whole_sequences(groups, np.arange(8)) is groups
    assert whole_sequences(groups, np.zeros(8)) is groups  # nothing would be left to learn from


def test_labelled_rows_of_one_sequence_are_one_group_across_a_session():
    train, dev = film(n_films=3), film(seed=1, n_films=2)
    session = epoxy.Session(train, dev, labels=labelled(train, [0, 1, 70]))

    found = session.state.workspace.label_groups

    films = [0] * 60 + [1] * 60 + [2, 2, 3]  # dev rows come first
    assert found.tolist() == films


def test_a_split_without_sequences_is_fused_as_before():
    train = film(vectors=True).without_sequences()
    session = epoxy.Session(train)

    plain = FusionEngine(epoxy.Fusion()).update(session.state.workspace)

    assert (session.probabilities == plain.proba[0]).all()
    assert session.model().chain_ is None
    assert "sequences" not in session.report().summary


@pytest.mark.parametrize("vectors", [False, True])
def test_a_session_after_edits_equals_a_fresh_fit(vectors):
    train = film(vectors=vectors)
    session = session_of(train, np.arange(0, 300, 7))
    session.label(15, "event")
    session.label(16, "event")
    session.switch("source_1", False)
    session.set_votes("source_2", train.y)

    fresh = session.refit()

    assert np.abs(session.probabilities - fresh.proba[0]).max() < 1e-6
    assert (session.labels == fresh.decided[0]).all()
    assert np.abs(session.outcome.held_out - fresh.held_out).max() < 1e-6
    model = session.model()
    assert np.abs(model.predict_proba(session.split()) - session.probabilities).max() < 1e-6
    assert (model.decide(session.probabilities) == session.outcome.labels[0]).all()


def test_an_estimator_and_a_session_say_the_same_of_train_and_dev():
    train, dev = film(seed=1), film(seed=2, n_films=3)
    session = epoxy.Session(train, dev)

    model = epoxy.Fusion().fit(train, dev)

    assert np.abs(model.predict_proba(train) - session.probabilities).max() < 1e-9
    assert np.abs(model.predict_proba(dev) - session.dev_probabilities).max() < 1e-9
    assert np.abs(model.held_out_ - session.outcome.held_out).max() < 1e-9
    assert accuracy(session.dev_probabilities, dev) > 0.9


def test_a_saved_model_reads_the_order_as_before(tmp_path):
    train, test = film(seed=1), film(seed=3, n_films=4)
    session = session_of(train, np.arange(0, 300, 7))

    session.model().save(tmp_path / "model")
    again = epoxy.load(tmp_path / "model")

    assert np.abs(again.predict_proba(train) - session.probabilities).max() < 1e-9
    assert (again.predict_proba(test) == session.model().predict_proba(test)).all()


def test_a_hand_label_is_heard_by_its_neighbours_and_leaves_its_own_probability_to_the_model():
    train = film(cast=0.2)
    session = epoxy.Session(train)
    row = int(np.abs(session.probabilities[5:50, 1] - 0.5).argmin()) + 5
    name = CLASSES[train.y[row]]
    before = session.probabilities[:, train.y[row]]

    session.label(row, name)

    after = session.probabilities[:, train.y[row]]
    assert (after[[row - 1, row + 1]] > before[[row - 1, row + 1]] + 0.1).all()
    assert after[row] < 0.99
    assert session.labels[row] == train.y[row]


def test_a_label_by_one_who_may_err_is_not_taken_for_the_truth_by_its_neighbours():
    session = session_of(film(), [], reliability={"crowd": 0.8})

    session.label(7, "event", by="crowd")
    fallible = session.model().chain_
    session.label(8, "event")

    assert (fallible.given == -1).all()
    assert session.model().chain_.given[6:10].tolist() == [-1, -1, 1, -1]


def test_rows_picked_by_a_tool_do_not_count_as_labels_that_follow_each_other():
    session = epoxy.Session(film())

    for row in (5, 6):
        session.label(row, "event", chosen="unsure")
    assert session.model().chain_.counted == 0
    for row in (7, 8):
        session.label(row, "event", chosen="random")
    assert session.model().chain_.counted == 1


def test_scores_of_a_row_do_not_rest_on_labels_of_its_own_sequence():
    train = film()
    rows = np.r_[0:30, 60:90, 120:150]  # half of each of three films
    session = session_of(train, rows)
    workspace, held = session.state.workspace, session.outcome.held_out
    given = np.random.default_rng(0).dirichlet(np.ones(2), len(rows))
    bare = [np.random.default_rng(1).dirichlet(np.ones(2), train.n_rows)]
    steps = Steps.learn(train.votes, bare[0])
    layouts = [layout_of(train.votes, None)]

    def scored(y):
        counts = [counted_pairs(y, layouts[0], 2)]
        return held_out(workspace, given, bare, steps, counts, layouts)

    y = workspace.labels.y[0]
    first = scored(y)
    other = y.copy()
    other[:30] = np.arange(30) % 2  # the first film is labelled differently
    changed = scored(other)

    assert (changed[:30] == first[:30]).all()
    assert np.abs(changed[30:] - first[30:]).min() > 0
    assert np.isfinite(held).all()
    # with nothing else labelled, what is left is the chain of the votes
    alone = np.where(np.arange(train.n_rows) < 30, y, -1)
    free = LabelChain(steps.share, steps.pairs[None], steps.trust).added(bare[0], layouts[0])
    assert scored(alone)[:30] == pytest.approx(smoothed(given[:30], free[:, :30]))


def test_held_out_probabilities_are_near_those_of_a_model_without_the_sequence():
    both = film(n_films=60, length=6, vectors=True)
    hand, train = both.rows(np.arange(60)), both.rows(np.arange(60, 360))
    hidden = epoxy.Split(train.votes, train.vectors)
    model = epoxy.Fusion().fit(hidden, hand)

    exact = np.empty((60, 2))
    for at in range(10):
        own = np.arange(60) // 6 == at
        exact[own] = epoxy.Fusion().fit(hidden, hand.rows(~own)).predict_proba(hand.rows(own))

    assert np.abs(model.held_out_ - exact).mean() < 0.03


def test_an_explanation_names_what_the_sequence_adds():
    train = film()
    session = session_of(train, [3])

    why = session.explain(5)

    assert why.log_odds == pytest.approx(why.start + sum(voice.weight for voice in why.voices))
    assert why.log_odds == pytest.approx(why.start + sum(why.parts.values()))
    voices = [voice for voice in why.voices if voice.source == "sequence"]
    assert sum(voice.weight for voice in voices) == pytest.approx(why.parts["sequence"])
    name = CLASSES[train.y[3]]
    assert sorted(voice.detail for voice in voices) == [
        f"5 rows before it in its sequence, of which row 3 is hand-labelled {name!r}",
        "54 rows after it in its sequence",
    ]
    assert [v.source for v in session.explain(60).voices].count("sequence") == 1
    again = session.model().explain(session.split(), 5)
    assert again.parts["sequence"] == pytest.approx(why.parts["sequence"])
    assert again.log_odds == pytest.approx(why.log_odds)


def test_a_preview_leaves_the_explanation_of_what_is_there():
    session = session_of(film(), [3])
    before = session.explain(5)

    session.preview(epoxy.session.edits.Switch("source_0", False))

    assert session.explain(5) == before


def test_a_report_shows_how_labels_follow_each_other():
    session = session_of(film(), np.arange(12))

    report = session.report()

    assert report.summary["sequences"] == {"sequences": 20, "longest": 60}
    table = report.to_dict()["tables"][-1]
    assert table["title"] == "how labels follow each other"
    for row, moves in zip(table["rows"], session.model().chain_.transitions):
        assert [row["next quiet"], row["next event"]] == pytest.approx(moves.tolist())
        assert row[f"next {row['label']}"] > 0.8
    assert "votes and 11 neighbouring hand labels" in str(report)


def test_appended_rows_go_on_with_the_last_sequence_or_begin_another():
    whole = film(n_films=6, vectors=True)

    def part(rows):
        return whole.rows(rows)

    session = epoxy.Session(part(np.arange(330)))
    session.append(part(np.arange(330, 360)))
    later = epoxy.Session(part(np.arange(300)))
    later.append(part(np.arange(300, 360)))

    fresh = epoxy.Session(part(np.arange(360)))
    for each in (session, later):
        assert each.split().votes.sequences.tolist() == whole.votes.sequences.tolist()
        assert np.abs(each.probabilities - fresh.probabilities).max() < 1e-6
    again = part(np.arange(120, 130))
    again = epoxy.Split(again.votes, again.vectors, ids=np.arange(400, 410))
    with pytest.raises(AlignmentError, match="rows of sequence 'film 02' are not adjacent; sort"):
        session.append(again)


def test_models_that_are_refitted_hold_out_whole_sequences():
    train = film(n_films=10, length=6)
    session = session_of(train, np.arange(60))
    seen = []

    class Watching(epoxy.MajorityVote):
        def fit(self, train, dev=None):
            seen.append(dev.ids.tolist())
            return super().fit(train.votes)

        def predict_proba(self, split):
            return super().predict_proba(split.votes)

    RefitEngine(Watching()).update(session.state.workspace)

    for learned in seen[1:]:
        films = [row // 6 for row in learned]
        assert all(films.count(each) == 6 for each in films)
        assert len(learned) == 48


# projects


def write_rows(path, *, swap=None, skip=(), clip=None) -> np.ndarray:
    """A file of six clips, the last of which is labelled; what each of three people saw of a frame."""
    rng = np.random.default_rng(0)
    y = np.repeat(rng.integers(0, 2, 60), 6)
    lines = []
    for at, truth in enumerate(y):
        said = ["yes" if (truth if rng.random() < 0.7 else 1 - truth) else "no" for _ in range(3)]
        label = ("no", "yes")[truth] if at >= 300 else ""
        name = at // 60 if clip is None else clip[at]
        lines.append(f"r{at},{name},{at % 60},{','.join(said)},{label}")
    if swap is not None:
        one, two = swap
        lines[one], lines[two] = lines[two], lines[one]
    kept = [line for at, line in enumerate(lines) if at not in skip]
    path.write_text("\n".join(["id,clip,frame,a,b,c,label", *kept]) + "\n")
    return y


def project(tmp_path, *more, position=True, **rows):
    y = write_rows(tmp_path / "rows.csv", **rows)
    folder = tmp_path / "video"
    order = ["--sequence", "clip", *(["--position", "frame"] if position else [])]
    assert main(["new", str(folder), "--rows", str(tmp_path / "rows.csv"), *order]) == 0
    config = folder / "epoxy.toml"
    text = config.read_text().replace('encoder = "auto"', 'encoder = "none"')
    for old, new in more:
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)
    functions = "".join(f"{name} = epoxy.from_column('{name}')\n" for name in "abc")
    (folder / "lfs.py").write_text("import epoxy\n" + functions)
    return folder, y


def test_a_project_of_sequences_says_that_labels_use_the_order(tmp_path, capsys):
    folder, y = project(tmp_path)

    assert "labels will use the order of rows within each clip" in capsys.readouterr().out
    assert "labels use what comes before and after" in (folder / "epoxy.toml").read_text()
    assert main(["label", str(folder), "--json", str(tmp_path / "out.json")]) == 0
    assert "rows are read in order, in 6 sequences" in capsys.readouterr().out
    assert json.loads((tmp_path / "out.json").read_text())["sequences"] == 6
    table = pq.read_table(folder / "labels" / "labels.parquet")
    assert table.column("id").to_pylist() == [f"r{at}" for at in range(360)]
    guess = np.array(table.column("label").to_pylist()) == "yes"
    session = epoxy.Session.open(folder)
    alone = session.split().without_sequences()
    row_by_row = epoxy.Fusion().fit(alone, alone.rows(np.arange(300, 360))).predict_proba(alone)
    assert (guess == y)[:300].mean() > (row_by_row.argmax(axis=1) == y)[:300].mean() + 0.03


READ = """
import hashlib, json, sys, epoxy
session = epoxy.Session.open(sys.argv[1])
why = session.explain("r17")
print(hashlib.sha256(session.probabilities.tobytes()).hexdigest(), json.dumps(why.to_dict()))
"""


def test_label_session_and_explanation_agree_bit_for_bit_in_fresh_processes(tmp_path):
    folder, _ = project(tmp_path)
    session = epoxy.Session.open(folder)
    for row, name in (("r16", "yes"), ("r100", "no"), ("r101", "no"), ("r18", "no")):
        session.label(row, name)
    session.undo()

    def run(*command):
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, check=True, timeout=120
        )
        return done.stdout

    digest, _, why = run("-c", READ, str(folder)).partition(" ")
    run("-m", "epoxy", "label", str(folder))
    table = pq.read_table(folder / "labels" / "labels.parquet")
    written = np.stack([table.column(f"p_{name}").to_numpy() for name in ("no", "yes")], axis=1)
    again = epoxy.Session.open(folder)
    assert (again.probabilities == written).all()
    assert hashlib.sha256(again.probabilities.tobytes()).hexdigest() == digest
    assert json.loads(json.dumps(again.explain("r17").to_dict())) == json.loads(why)
    assert list(again.explain("r17").probabilities.values()) == written[17].tolist()
    assert np.abs(session.probabilities - written).max() < 1e-6
    assert table.column("hand_labelled").to_numpy().sum() == 63


def test_the_papers_pipeline_uses_its_chain_on_sequences(tmp_path, capsys):
    folder, _ = project(tmp_path, ('kind = "fusion"', 'kind = "epoxy"'))

    assert main(["label", str(folder)]) == 0

    assert "with Epoxy" in (said := capsys.readouterr().out)
    assert "in 6 sequences" in said
    session = epoxy.Session.open(folder)
    assert type(session.model().label_model_).__name__ == "Chain"
    text = (folder / "epoxy.toml").read_text()
    (folder / "epoxy.toml").write_text(
        text.replace('kind = "epoxy"', 'kind = "epoxy"\nlabel_model = "triplet"')
    )
    assert main(["label", str(folder)]) == 0
    assert "sequences" not in capsys.readouterr().out


@pytest.mark.parametrize(("key", "value"), [("length", "3"), ("solve", '"mean"')])
def test_settings_of_a_chain_are_refused_where_fusion_does_not_read_them(tmp_path, key, value):
    folder, _ = project(tmp_path)
    text = (folder / "epoxy.toml").read_text()
    (folder / "epoxy.toml").write_text(f"{text}{key} = {value}\n")

    with pytest.raises(ParameterError, match=f"sets {key}, which fusion does not read"):
        epoxy.Session.open(folder)


def test_positions_without_sequences_are_refused(tmp_path):
    folder, _ = project(tmp_path)
    lines = (folder / "epoxy.toml").read_text().splitlines()
    kept = [line for line in lines if not line.startswith("sequence")]
    (folder / "epoxy.toml").write_text("\n".join(kept))

    with pytest.raises(StoreError, match="names positions and no sequences they are in; add"):
        epoxy.Session.open(folder)


@pytest.mark.parametrize(
    ("rows", "position", "message"),
    [
        ({"swap": (5, 6)}, True, "sequence '0' has position 5 on row 6 after 6; rows are out of"),
        ({"swap": (5, 100)}, False, "rows of sequence '0' are not adjacent; sort the rows by"),
        ({"clip": ["x"] * 359 + [""]}, False, "row 359 has no sequence in the column 'clip'; name"),
    ],
)
def test_rows_out_of_order_are_refused(tmp_path, rows, position, message):
    folder, _ = project(tmp_path, position=position)
    write_rows(tmp_path / "rows.csv", **rows)

    with pytest.raises(AlignmentError, match=message):
        epoxy.Session.open(folder)


def test_a_sequence_is_cut_where_rows_are_missing(tmp_path):
    folder, _ = project(tmp_path, skip=(100, 101))

    named = epoxy.Session.open(folder).split().votes.sequences

    assert named[[0, 99, 100, 117, 118]].tolist() == ["0", "1", "1 (part 2)", "1 (part 2)", "2"]
