"""The picture of the rows, its regions, and the page in a notebook."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest

import epoxy
from epoxy.studio import picture, projecting, widget
from epoxy.studio.notebook import Host
from epoxy.studio.picture import Pictures


def blobs(n_rows=200, seed=0) -> epoxy.Split:
    """Rows in four groups, each with its direction."""
    rng = np.random.default_rng(seed)
    group = rng.integers(4, size=n_rows)
    vectors = np.eye(4, 8)[group] + rng.normal(scale=0.1, size=(n_rows, 8))
    votes = np.where(rng.random((n_rows, 3)) < 0.5, (group % 2)[:, None], -1)
    return epoxy.Split(epoxy.Votes(votes, sources="abc"), vectors)


@pytest.fixture(scope="module")
def session():
    return epoxy.Session(blobs(), blobs(40, seed=1), epoxy.Epoxy(radius=0.1))


def test_the_first_picture_is_the_principal_components(session):
    found = Pictures(session).positions(session)[:200]

    vectors = session.split().vectors
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    _, _, axes = np.linalg.svd(unit - unit.mean(axis=0))
    for at in range(2):
        true = (unit - unit.mean(axis=0)) @ axes[at]
        inside = np.abs(found[:, at]) < 1
        assert abs(np.corrcoef(true[inside], found[inside, at])[0, 1]) > 0.999
    np.testing.assert_array_equal(found, Pictures(session).positions(session)[:200])
    assert np.abs(found).max() <= 1


def test_rows_that_come_later_stand_among_their_neighbours_and_nobody_moves():
    session = epoxy.Session(blobs(), model=epoxy.Epoxy(radius=0.1))
    pictures = Pictures(session)
    before = pictures.positions(session)

    more = blobs(20, seed=7)
    session.append(more)

    after = pictures.positions(session)
    np.testing.assert_array_equal(after[:200], before)
    nearest = session.state.workspace.near.graphs[0].neighbour[200:, 1:60]
    for new, near in zip(after[200:], nearest):
        old = after[near[near < 200][:15]]
        assert (new >= old.min(axis=0) - 1e-6).all()
        assert (new <= old.max(axis=0) + 1e-6).all()


class UMAP:
    """Stands in where compiling would take half a minute: every node stays where it starts."""

    def __init__(self, init, precomputed_knn, **options):
        assert (precomputed_knn[0][:, 0] == range(len(init))).all()
        self.init = init

    def fit_transform(self, points):
        return self.init


def stood_in(asked):
    sys.modules["umap"] = types.SimpleNamespace(UMAP=UMAP)
    return projecting.better(asked)


def refused(asked):
    raise OSError("no room left")


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_better_picture_comes_from_a_process_and_is_kept(session, tmp_path, monkeypatch, real):
    if real:
        pytest.importorskip("umap")
    else:
        monkeypatch.setattr(picture, "better", stood_in)
    texts = ["prize money" if at % 2 else "dinner home" for at in range(200)]
    ready, told = threading.Event(), []

    def made(first) -> None:
        told.append((first.told.kind, first.told.state))
        if first.told.state in ("ready", "failed"):
            ready.set()

    first = Pictures(session, lambda: made(first))
    first.start(texts, tmp_path)
    assert ready.wait(120)
    again_ready = threading.Event()
    again = Pictures(session, again_ready.set)
    again.start(texts, tmp_path)
    assert again_ready.wait(30)

    assert told[0][0] == "pca"
    assert first.told.state == "ready", first.told.note
    assert first.told.kind == "umap"
    assert len(list(tmp_path.glob("umap-*.npz"))) == 1
    assert again.told.note == "UMAP, kept from before"
    found = first.positions(session)
    np.testing.assert_array_equal(found, again.positions(session))
    assert np.abs(found).max() <= 1 + 1e-6
    group = session.split().vectors[:, :4].argmax(axis=1)
    near = np.linalg.norm(found[:200, None] - found[None, :200], axis=2).argsort(axis=1)[:, 1:6]
    assert (group[near] == group[:, None]).mean() > (0.9 if real else 0.5)
    first.close()
    again.close()


def test_very_many_rows_keep_the_first_picture(session, monkeypatch):
    monkeypatch.setattr(picture, "MOST", 150)
    made = Pictures(session)

    made.start(None, None)

    assert (made.told.kind, made.told.state) == ("pca", "off")
    assert "more than 150 rows" in made.told.note


NOBODY_WAITS = """
import os, time
from joblib.externals.loky import ProcessPoolExecutor
from epoxy.studio import projecting
pool = ProcessPoolExecutor(1, initializer=projecting.begin)
print(pool.submit(os.getpid).result(), flush=True)
pool.submit(time.sleep, 600).result()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc")
def test_a_picture_that_nobody_waits_for_ends():
    process = subprocess.Popen([sys.executable, "-c", NOBODY_WAITS], stdout=subprocess.PIPE)
    with process:
        worker = int(process.stdout.readline())
        process.kill()

    end = time.monotonic() + 60
    while alive(worker):
        assert time.monotonic() < end
        time.sleep(0.05)


def alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_picture_that_cannot_be_made_leaves_the_first_and_says_why(session, monkeypatch):
    ready = threading.Event()
    made = Pictures(session, lambda: ready.set() if made.told.state == "failed" else None)
    monkeypatch.setattr(picture, "better", refused)

    made.start(None, None)

    assert ready.wait(60)
    assert made.told.kind == "pca"
    assert made.told.note == "there is no UMAP (no room left); principal components stay"


def test_a_picture_is_turned_onto_the_other():
    rng = np.random.default_rng(0)
    onto = rng.normal(size=(50, 2))
    turn = np.array([[0.0, 1.0], [1.0, 0.0]])  # mirrored

    found = projecting.aligned(3 * onto @ turn + 5, onto)

    fitted = np.corrcoef(found.ravel(), (onto - onto.mean(axis=0)).ravel())[0, 1]
    assert fitted > 0.98
    assert np.abs(found).max() == pytest.approx(1)


def test_regions_are_named_by_the_words_that_set_them_apart():
    rng = np.random.default_rng(0)
    centres = np.array([[-0.8, -0.8], [0.8, 0.8]])
    part = np.repeat([0, 1], 70)
    points = (centres[part] + rng.normal(scale=0.05, size=(140, 2))).astype(np.float32)
    texts = [f"{('football', 'election')[each]} news today" for each in part]

    found = projecting.regions(points, texts, 1)

    assert {each.words.split(", ")[0] for each in found} == {"football", "election"}
    assert [each.rows for each in found] == [70, 70]
    assert projecting.regions(points, None, 1)[0].words == ""
    assert projecting.regions(points[:20], None, 1) == []


def test_a_notebook_speaks_the_same_messages(session):
    sent: list[tuple[dict, list]] = []
    arrived = threading.Condition()

    def send(head, buffers=()) -> None:
        with arrived:
            sent.append((head, list(buffers)))
            arrived.notify()

    def answer(number):
        with arrived:
            assert arrived.wait_for(lambda: any(h["id"] == number for h, _ in sent), 60)
        return next((head, data) for head, data in sent if head["id"] == number)

    host = Host(session, send)
    try:
        host.receive({"id": 1, "verb": "state", "body": {}})
        host.receive({"id": 2, "verb": "colour", "body": {"by": "label"}})
        host.receive({"id": 3, "verb": "select", "body": {"rows": [7, 2]}})
        host.receive({"id": 4, "verb": "nothing"})
        host.receive({"id": "x"})
        state, colour = answer(1)[0]["reply"], answer(2)
        assert state["rows"]["total"] == 240
        assert len(colour[1][0]) == 480
        answer(3)
        assert host.page.selection.tolist() == [2, 7]
        assert answer(4)[0]["error"]["kind"] == "UnknownName"
        assert answer(0)[0]["error"]["kind"] == "ParameterError"

        session.set_radius("a", 0.4)  # in the notebook itself
        with arrived:
            assert arrived.wait_for(lambda: any(h.get("type") == "change" for h, _ in sent), 60)
        change = next(head for head, _ in sent if head.get("type") == "change")
        assert change["change"]["what"] == "radius of a"
    finally:
        host.close()
        session.undo()


def test_the_widget_has_the_page_and_the_selection(session, tmp_path, monkeypatch):
    pytest.importorskip("anywidget")
    monkeypatch.setattr("epoxy.studio.notebook.files", lambda name: tmp_path)
    with pytest.raises(epoxy.errors.StoreError, match="the page is not built; run make web"):
        widget(session)
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "widget.js").write_text("export default {render() {}}")

    made = widget(session)

    assert "render" in made._esm
    assert made.selection.tolist() == []
    made.close()
