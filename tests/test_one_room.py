"""The central promise: whoever is asked about a project, and in whichever process, the answer is one.

The answers here come from four processes: what `epoxy label` writes, what `Session.open` holds, what
`epoxy watch` says, and what `epoxy report` and `epoxy explain` say.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import epoxy
from epoxy.cli.demo import write_project
from epoxy.errors import AlignmentError
from epoxy.project.create import new_project
from epoxy.session.export import label_tables

WORDS = {
    "ham": ["home", "dinner", "tomorrow", "love", "meeting", "sorry", "later", "class", "friend"],
    "spam": ["prize", "claim", "urgent", "cash", "award", "text", "offer", "winner", "mobile"],
}
LFS = """
import epoxy

prize = epoxy.keywords("spam", "prize", "winner", name="prize")
cash = epoxy.keywords("spam", "cash", "award", name="cash")
claim = epoxy.regex("spam", r"claim|urgent", name="claim")
home = epoxy.keywords("ham", "home", "dinner", name="home")
sorry = epoxy.keywords("ham", "sorry", "later", name="sorry")


@epoxy.labeling_function
def friendly(row):
    return "ham" if "friend" in row.text or "love" in row.text else None
"""


def write_messages(path: Path, n_rows: int = 160, labelled: int = 30) -> Path:
    """Short messages of words that mostly belong to one class."""
    rng = np.random.default_rng(5)
    lines = ["id,text,label"]
    for at in range(n_rows):
        label = ("ham", "spam")[int(rng.random() < 0.3)]
        other = ("spam", "ham")[label == "spam"]
        said = [*rng.choice(WORDS[label], 4), *rng.choice(WORDS[other], int(rng.random() < 0.3))]
        lines.append(
            f"m{at},{' '.join(said)} {at},{label if at % (n_rows // labelled) == 0 else ''}"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def digits(folder: Path) -> Path:
    return write_project(epoxy.datasets.load("digits"), folder / "project")


def messages(folder: Path) -> Path:
    rows = write_messages(folder / "rows.csv")
    new_project(folder / "project", rows, options={"positive": "spam"}, lfs=LFS)
    return folder / "project"


def unlabelled(folder: Path) -> Path:
    rows = write_messages(folder / "rows.csv")
    rows.write_text(re.sub(r",(ham|spam)$", ",", rows.read_text(), flags=re.MULTILINE))
    new_project(folder / "project", rows, classes=["ham", "spam"], lfs=LFS)
    return folder / "project"


def decide(folder: Path) -> None:
    """Labels that contradict the model, radii of every kind, and a source switched off."""
    session = epoxy.Session.open(folder)
    names, classes = session.sources, session.classes
    session.set_radius(names[0], 0.2)
    session.set_radius(names[1], None)
    session.switch(names[2], False)
    for row in (3, 4, 11):
        worst = classes[int(session.probabilities[row].argmin())]
        session.label(session.split().ids[row], worst, chosen="surprising")


def with_model(folder: Path, kind: str) -> None:
    path = folder / "epoxy.toml"
    path.write_text(path.read_text().replace('kind = "fusion"', f'kind = "{kind}"'))


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


OPENED = """
import json, sys
import numpy as np
import epoxy

session = epoxy.Session.open(sys.argv[1])
splits = [session.split(name) for name in session.names]
why = {}
for name, split in zip(session.names, splits):
    for row, each in enumerate(split.ids.tolist()):
        found = session.explain(each, name)
        why[str(found.row)] = [found.label, list(found.probabilities.values())]
own = np.concatenate([split.votes.cast.sum(axis=1) for split in splits])
after = np.concatenate([session.outcome.extended[at].cast.sum(axis=1) for at in range(len(splits))])
dev = len(splits) > 1
print(json.dumps({
    "ids": [str(each) for split in splits for each in split.ids.tolist()],
    "probabilities": [*session.probabilities.tolist(), *(session.dev_probabilities.tolist() if dev else [])],
    "labels": [*session.labels.tolist(), *(session.dev_labels.tolist() if dev else [])],
    "truth": np.concatenate([split.truth for split in splits]).tolist(),
    "lent": (after - own).tolist(),
    "scores": dict(session.scores),
    "covered": [float(splits[0].votes.covered.mean()), float(session.votes.covered.mean())],
    "why": why,
}))
"""


COMMANDS = """
import sys
from epoxy.cli import main

folder, out, *rows = sys.argv[1:]
assert main(["report", folder, "--json", f"{out}/report.json"]) == 0
for row in rows:
    assert main(["explain", folder, row, "--json", f"{out}/{row}.json"]) == 0
"""


def opened(folder: Path, kind: str = "graph") -> dict:
    out = run("-c", OPENED, str(folder), "-", kind)
    return json.loads(out)


def label_table(session: epoxy.Session) -> pa.Table:
    return pa.concat_tables(label_tables(session))


def watched(folder: Path) -> str:
    """The first line about scores that `epoxy watch` prints."""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "epoxy", "watch", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "functions" in line:
                process.send_signal(signal.SIGINT)
                return line.strip()
    raise AssertionError("watch said nothing")


def written(folder: Path) -> dict[str, list]:
    run("-m", "epoxy", "label", str(folder))
    return pq.read_table(folder / "labels" / "labels.parquet").to_pydict()


CASES = [
    pytest.param(messages, "fusion", True, id="messages, fusion, decided"),
    pytest.param(messages, "epoxy", True, id="messages, epoxy, decided", marks=pytest.mark.slow),
    *(
        pytest.param(make, kind, decided, marks=pytest.mark.slow)
        for make, kind, decided in [
            (messages, "fusion", False),
            (messages, "epoxy", False),
            (unlabelled, "fusion", False),
            (unlabelled, "epoxy", False),
            (unlabelled, "fusion", True),
            (digits, "fusion", True),
            (digits, "epoxy", True),
        ]
    ),
]


@pytest.mark.parametrize(("make", "kind", "decided"), CASES)
def test_every_process_gives_one_answer(make, kind, decided, tmp_path):
    folder = make(tmp_path)
    with_model(folder, kind)
    if decided:
        decide(folder)

    table, session = written(folder), opened(folder)

    classes = [name.removeprefix("p_") for name in table if name.startswith("p_")]
    at = {name: row for row, name in enumerate(session["ids"])}
    places = [at[name] for name in table["id"]]
    assert sorted(places) == list(range(len(at)))
    for number, name in enumerate(classes):
        mine = [session["probabilities"][place][number] for place in places]
        assert table[f"p_{name}"] == mine  # to the last bit
    assert table["label"] == [classes[session["labels"][place]] for place in places]
    for row, name in enumerate(table["id"]):
        label, probabilities = session["why"][name]
        assert label == table["label"][row], name
        assert probabilities == [table[f"p_{each}"][row] for each in classes], name
    assert table["lent_votes"] == [session["lent"][place] for place in places]
    truth = [None if session["truth"][p] < 0 else classes[session["truth"][p]] for p in places]
    assert table["truth"] == truth
    assert table["hand_labelled"] == [each is not None for each in truth]
    assert all(mine in (None, label) for mine, label in zip(truth, table["label"]))
    assert sum(each is not None for each in truth) > 0 or not decided
    own, after = session["covered"]
    line = watched(folder)
    assert f"{after:.1%} with lent ones" in line
    assert own <= after
    scored = [
        f"{n} {session['scores'][n]:.3f}" for n in ("accuracy", "f1") if n in session["scores"]
    ]
    assert line.endswith(f"held-out {', '.join(scored)}") or not scored
    asked = (table["id"][3], table["id"][-1])
    found = run("-c", COMMANDS, str(folder), str(tmp_path), *asked)
    said = json.loads((tmp_path / "report.json").read_text())
    assert said["summary"].get("scores", {}) == session["scores"]
    for name in asked:
        why = json.loads((tmp_path / f"{name}.json").read_text())
        assert f"\n{name} → {why['label']}" in found
        assert [why["label"], list(why["probabilities"].values())] == session["why"][name]


@pytest.mark.parametrize("kind", ["fusion", "epoxy"])
def test_sources_that_may_not_lend_lend_nothing(kind, tmp_path):
    folder = messages(tmp_path)
    with_model(folder, kind)
    session = epoxy.Session.open(folder)
    before = label_table(session)

    session.set_radius(None, None)

    after = label_table(epoxy.Session.open(folder))
    assert sum(before.column("lent_votes").to_pylist()) > 0
    assert set(after.column("lent_votes").to_pylist()) == {0}
    assert after.column("votes") == before.column("votes")


@pytest.mark.parametrize("kind", ["fusion", "epoxy"])
def test_what_is_exported_is_worked_out_from_nothing(kind, tmp_path, monkeypatch):
    folder = messages(tmp_path)
    with_model(folder, kind)
    session = epoxy.Session.open(folder)
    session.label("m1", "spam")
    live = session.outcome
    spoilt = tuple(each[:, ::-1] for each in live.proba)

    now = replace(session._now, outcome=replace(live, proba=spoilt))
    monkeypatch.setattr(session, "_now", now)
    table = label_table(session)

    fresh = epoxy.Session.open(folder)
    assert session.probabilities.tolist() == live.proba[0][:, ::-1].tolist()
    assert table.equals(label_table(fresh))


@pytest.mark.parametrize("kind", ["fusion", "epoxy"])
def test_a_session_that_follows_another_says_what_a_fresh_one_says(kind, tmp_path):
    folder = messages(tmp_path)
    with_model(folder, kind)
    follows = epoxy.Session.open(folder)
    before = follows.scores
    other = epoxy.Session.open(folder)
    for row in (1, 2, 3, 4, 6):
        worst = other.classes[int(other.probabilities[row].argmin())]
        other.label(other.split().ids[row], worst, chosen="random")
    other.switch("prize", False)

    told = follows.catch_up()

    fresh = epoxy.Session.open(folder)
    assert len(told) == 6
    assert follows.scores != before
    assert follows.scores == pytest.approx(fresh.scores)
    assert follows.comparison()["majority"] == fresh.comparison()["majority"]
    assert (follows.labels == fresh.labels).all()
    np.testing.assert_allclose(follows.probabilities, fresh.probabilities, rtol=0, atol=1e-9)
    assert label_table(follows).equals(label_table(fresh))


def test_appended_rows_stand_at_the_end_wherever_rows_come_as_in_their_file(tmp_path):
    session = epoxy.Session.open(messages(tmp_path))
    in_file = pq.read_table(session.export(tmp_path / "before.parquet")).column("id").to_pylist()
    train = session.split(every=True)
    new = [f"new-{at}" for at in range(3)]

    session.append(epoxy.Split(train.votes.rows([0, 1, 2]), train.vectors[:3], ids=new))

    written = pq.read_table(session.export(tmp_path / "after.parquet")).column("id").to_pylist()
    found = session.browse(epoxy.suggest.RowQuery(sort="file")).rows.tolist()
    assert in_file == [f"m{at}" for at in range(160)]
    assert written == [*in_file, *new]
    assert [session.state.names.name(session.place(row))[1] for row in found] == written


def test_in_a_project_no_row_is_appended_under_the_id_of_another(tmp_path):
    folder = messages(tmp_path)
    session = epoxy.Session.open(folder)
    session.switch("cash", False)
    train = session.split(every=True)
    known = [session.split(name).id_of(0) for name in ("train", "dev")]
    log = (folder / ".epoxy" / "decisions.jsonl").read_bytes()

    for name in known:
        with pytest.raises(AlignmentError, match=f"a row that is there: \\['{name}'\\]"):
            session.append(epoxy.Split(train.votes.rows([0]), train.vectors[:1], ids=[name]))

    assert (folder / ".epoxy" / "decisions.jsonl").read_bytes() == log


def test_rows_appended_to_a_project_without_ids_count_on_after_all_rows_of_the_file(tmp_path):
    folder = messages(tmp_path)
    settings = (folder / "epoxy.toml").read_text()
    (folder / "epoxy.toml").write_text(settings.replace('id = "id"\n', ""))
    session = epoxy.Session.open(folder)
    train = session.split(every=True)

    session.append(epoxy.Split(train.votes.rows([0, 1]), train.vectors[:2]))

    assert session.split().ids.tolist()[-2:] == [160, 161]


@pytest.mark.parametrize("kind", ["fusion", "epoxy"])
def test_an_edited_session_and_a_fresh_one_agree_with_what_is_exported(kind, tmp_path):
    folder = messages(tmp_path)
    with_model(folder, kind)
    session = epoxy.Session.open(folder)
    session.set_radius("prize", 0.4)
    session.label("m1", "spam")
    session.switch("cash", False)
    session.undo()
    session.label("m2", "ham")

    fresh = epoxy.Session.open(folder)

    # an engine may start from its last fit; what is exported never does
    assert (session.refit().proba[0] == fresh.probabilities).all()
    assert (session.refit().decided[0] == fresh.labels).all()
    np.testing.assert_allclose(session.probabilities, fresh.probabilities, rtol=0, atol=1e-9)
    assert kind == "fusion" or (session.probabilities == fresh.probabilities).all()
    assert (session.labels == fresh.labels).all()
    assert session.scores == pytest.approx(fresh.scores)
