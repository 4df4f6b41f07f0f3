"""Thousands of edits in one session: memory stays, edits do not slow down, and nothing drifts."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import epoxy
from epoxy.session import Edit, Label, Radii, Switch
from epoxy.session.edits import Several

WARM_UP = 50
HAND = 150
"""Rows that have a label most of the time, from the warm-up on: more labels are more work, not drift."""
RADII = (0.0, 0.1, 0.3, None, "auto")


@dataclass(frozen=True)
class Course:
    """What was measured while a session was edited."""

    edits: int
    start: float  # MB resident after the warm-up
    most: float  # MB resident at the most, after it
    early: float  # median CPU milliseconds of the first tenth of the edits
    late: float  # and of the last tenth

    @property
    def grown(self) -> float:
        """MB by which the session grew."""
        return self.most - self.start


def resident() -> float:
    """Memory this process holds, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def any_edit(session: epoxy.Session, rng: np.random.Generator) -> None:
    """A label, a radius, a switch, a function's votes, an undo or a redo; never the last source off."""
    name = str(rng.choice(session.sources))
    off = session.switched_off
    kind = rng.choice(["label"] * 4 + ["radius", "radius", "switch", "votes", "undo", "redo"])
    if kind == "label":  # of some rows, so that labels are also changed and taken back
        row = int(rng.integers(min(HAND, session.split().n_rows)))
        session.label(row, str(rng.choice(session.classes)) if rng.random() < 0.8 else None)
    elif kind == "radius":
        session.set_radius(name, RADII[rng.integers(len(RADII))])
    elif kind == "switch":
        few = len(off) >= len(session.sources) - 4
        session.switch(off[0] if few else name, few or name in off)
    elif kind == "votes":
        edit_votes(session, name, rng)
    else:
        with suppress(epoxy.errors.ParameterError):  # there is nothing to take back, or do again
            getattr(session, str(kind))()


def edit_votes(session: epoxy.Session, name: str, rng: np.random.Generator) -> None:
    """A function that was edited: some of its rows abstain, some others are voted on."""
    column = session.state.workspace.source(name).own[0].copy()
    rows = rng.integers(0, len(column), 20)
    said = column[column >= 0]
    column[rows] = np.where(rng.random(20) < 0.5, -1, said[0] if len(said) else 0)
    session.set_votes(name, column)


def course(session: epoxy.Session, edits: int, seed: int = 0) -> Course:
    """Edit a session so many times and measure."""
    rng = np.random.default_rng(seed)
    names, classes = session.state.names, session.classes
    given = (Label(*names.name((0, row)), classes[row % len(classes)]) for row in range(HAND))
    session.apply(Several(tuple(given), "labels"))
    for _ in range(WARM_UP):
        any_edit(session, rng)
    start = most = resident()
    took = np.empty(edits)
    for at in range(edits):
        before = time.process_time()
        any_edit(session, rng)
        took[at] = time.process_time() - before
        most = max(most, resident())
    tenth = max(1, edits // 10)
    early, late = np.median(took[:tenth]) * 1e3, np.median(took[-tenth:]) * 1e3
    return Course(edits, start, most, float(early), float(late))


def spouse(folder: Path) -> tuple[epoxy.Split, epoxy.Split]:
    """The train and dev splits of the data set of that size."""
    data = epoxy.datasets.read_folder(folder)
    return data.split("train"), data.split("dev")


def small(n_rows: int = 300, seed: int = 0) -> epoxy.Split:
    """A few rows of two classes, five sources and near vectors."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    right = rng.random((n_rows, 5)) < 0.75
    matrix = np.where(right, y[:, None], 1 - y[:, None])
    matrix = np.where(rng.random((n_rows, 5)) < 0.5, matrix, -1)
    vectors = rng.normal(size=(n_rows, 8)) + 1.5 * y[:, None]
    return epoxy.Split(epoxy.Votes(matrix, classes=["c0", "c1"]), vectors, y)


def distance_to_a_fit(session: epoxy.Session, template: Any) -> tuple[float, int]:
    """How far a session's probabilities are from a session that was told everything at once."""
    fresh = epoxy.Session(small_again(session), model=template)
    train, names = session.split(), fresh.state.names
    told: list[Edit] = [Radii(session.radii)]
    for row in np.flatnonzero(train.labelled).tolist():
        told.append(Label(*names.name((0, row)), session.classes[train.truth[row]]))
    told += [Switch(name, False) for name in session.switched_off]
    fresh.apply(Several(tuple(told)))
    found = fresh.refit()
    gap = float(np.abs(found.proba[0] - session.probabilities).max())
    return gap, int((found.decided[0] != session.labels).sum())


def small_again(session: epoxy.Session) -> epoxy.Split:
    """The rows of a session with the votes its sources have now, switched off or not."""
    workspace = session.state.workspace
    matrix = np.column_stack([each.own[0] for each in workspace.sources])
    names = [each.name for each in workspace.sources]
    return epoxy.Split(epoxy.Votes(matrix, names, session.classes), workspace.splits[0].vectors)
