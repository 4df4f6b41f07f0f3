"""Two bytes a row for each way to colour the map, and the difference between two paintings.

The first byte is a class (255: none); what the second says depends on what is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..engines import Outcome
from ..session.edits import known
from ..votes import ABSTAIN

NONE = 255


@dataclass(frozen=True, eq=False)
class Scene:
    """What is painted: an outcome, the real one beside it while something is tried, and a draft."""

    outcome: Outcome
    real: Outcome
    source: str | None = None
    draft: tuple[np.ndarray, ...] | None = None  # votes of a function that is not saved, per split


def paint(by: str, scene: Scene) -> np.ndarray:
    """The marks of every row, train rows first; (n_rows, 2) uint8."""
    first, second = _WAYS[by](scene)
    made = np.empty((len(first), 2), dtype=np.uint8)
    made[:, 0], made[:, 1] = first, second
    return made


def difference(before: np.ndarray | None, now: np.ndarray) -> tuple[bool, int, bytes]:
    """Whether only some rows are sent, how many, and their bytes: whichever way is smaller."""
    if before is not None and before.shape == now.shape:
        rows = np.flatnonzero(before.view(np.uint16) != now.view(np.uint16))  # both bytes at once
        if 6 * len(rows) < now.nbytes:
            return True, len(rows), rows.astype("<u4").tobytes() + now[rows].tobytes()
    return False, len(now), now.tobytes()


Bytes = tuple[np.ndarray, np.ndarray]


def _label(scene: Scene) -> Bytes:
    label, sure = _labels(scene.outcome)
    return label, np.rint(255 * sure)


def _uncertain(scene: Scene) -> Bytes:
    label, sure = _labels(scene.outcome)
    least = 1 / max(2, len(scene.outcome.workspace.classes))
    doubt = np.clip((1 - sure) / (1 - least), 0, 1)
    return label, np.where(label == NONE, 255, np.rint(255 * doubt))


def _source(scene: Scene) -> Bytes:
    if scene.source is None:
        return _nobody(scene)
    own, now = _votes(scene.outcome, scene.source)
    before = now if scene.real is scene.outcome else _votes(scene.real, scene.source)[1]
    kind = np.zeros(len(own), dtype=np.uint8)
    kind[(now == ABSTAIN) & (before != ABSTAIN)] = 3
    kind[now != ABSTAIN] = 2
    kind[own != ABSTAIN] = 1
    return _class(np.where(kind == 3, before, now)), kind


def _hand(scene: Scene) -> Bytes:
    outcome = scene.outcome
    labels = outcome.workspace.labels
    given = _class(np.concatenate(labels.y))
    kind = np.where(given == NONE, 0, 3)
    held, said = outcome.held_out, outcome.held_out_labels
    if held is not None and said is not None and labels.count:
        right = np.where(said == labels.labels, 1, 2)
        known_rows = np.isfinite(held).all(axis=1)
        kind[labelled_rows(outcome)] = np.where(known_rows, right, 3)
    return given, kind


def _novote(scene: Scene) -> Bytes:
    outcome = scene.outcome
    kinds = [voted(outcome, at) for at in range(len(outcome.extended))]
    return _labels(outcome)[0], np.concatenate(kinds)


def voted(outcome: Outcome, at: int) -> np.ndarray:
    """Of each row of a split 2 where a source votes itself, 1 where one lends, 0 where nobody says."""
    columns = outcome.extended[at]
    own, both = np.zeros((2, columns.n_rows), dtype=bool)
    for source, column in zip(outcome.workspace.active, columns.columns):
        own |= source.loans[at].own != ABSTAIN
        both |= column != ABSTAIN
    return np.where(own, 2, np.where(both, 1, 0))


def _draft(scene: Scene) -> Bytes:
    if scene.draft is None:
        return _nobody(scene)
    vote = _class(np.concatenate(scene.draft))
    flips = _labels(scene.outcome)[0] != _labels(scene.real)[0]
    return vote, np.where(flips, 2, np.where(vote == NONE, 0, 1))


def _nobody(scene: Scene) -> Bytes:
    n_rows = sum(split.n_rows for split in scene.outcome.workspace.splits)
    return np.full(n_rows, NONE), np.zeros(n_rows)


_WAYS: dict[str, Callable[[Scene], Bytes]] = {
    "label": _label,
    "source": _source,
    "uncertain": _uncertain,
    "hand": _hand,
    "novote": _novote,
    "draft": _draft,
}


def labelled_rows(outcome: Outcome) -> np.ndarray:
    """The numbers of the rows labelled by hand, in the order of `HandLabels.labels`."""
    splits, labels = outcome.workspace.splits, outcome.workspace.labels
    start = np.cumsum([0, *(split.n_rows for split in splits)])
    return np.concatenate([start[at] + labels.rows[at] for at in labels.order])


def _labels(outcome: Outcome) -> Bytes:
    """Label and its probability of every row; without labels none, and nothing is sure."""
    if not outcome.labels:
        n_rows = sum(split.n_rows for split in outcome.workspace.splits)
        return np.full(n_rows, NONE), np.zeros(n_rows)
    label = np.concatenate(outcome.decided)
    sure = [
        np.take_along_axis(proba, each[:, None].astype(np.intp), axis=1)[:, 0]
        for proba, each in zip(outcome.proba, outcome.decided)
    ]
    return label, np.nan_to_num(np.concatenate(sure))


def _votes(outcome: Outcome, name: str) -> Bytes:
    """A source's own votes and those after extension, on every row; one switched off lends nothing."""
    workspace = outcome.workspace
    source = workspace.source(name) or known(workspace, name)
    own = np.concatenate(source.own)
    if not source.is_on:
        return own, own
    at = workspace.names.index(name)
    return own, np.concatenate([each.columns[at] for each in outcome.extended])


def _class(votes: np.ndarray | Sequence[int]) -> np.ndarray:
    return np.where(np.asarray(votes) == ABSTAIN, NONE, votes)
