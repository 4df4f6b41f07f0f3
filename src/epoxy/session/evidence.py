"""What is known of every row when functions are suggested, and which half of the rows may be used for what.

Functions are found on one half of the rows and judged on the other. Halves are told apart by a hash of
what a row says, so they stay the same from call to call, and rows that say the same are in one half: a
copy of a row is no witness for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..engines import Outcome
from ..errors import FrameError
from ..votes import ABSTAIN
from ..workspace import HandLabels, Workspace

if TYPE_CHECKING:
    from .verbs import SessionVerbs

HALVES = b"epoxy: halves of rows"


@dataclass(frozen=True, eq=False)
class Evidence:
    """Probabilities and hand labels of all rows, train rows first; both halves."""

    find: np.ndarray  # (n_rows,) bool: functions are found here, and judged on the others
    belief: (
        np.ndarray
    )  # (n_rows, n_classes): a trusted hand label, else the model; NaN: nobody knows
    held: (
        np.ndarray
    )  # (n_rows, n_classes): the model, without what it learned from that row's label
    hand: np.ndarray  # (n_rows,) trusted hand labels, −1 where there is none
    fair: np.ndarray  # (n_rows,) bool: labelled, and not because of what the row looked like

    @property
    def known(self) -> np.ndarray:
        """Rows of which something is believed; (n_rows,) bool."""
        return np.asarray(np.isfinite(self.belief[:, 0]))


def gather(outcome: Outcome, find: np.ndarray) -> Evidence:
    """What a model and hand labels say now."""
    labels, n_classes = outcome.workspace.labels, len(outcome.workspace.classes)
    usable = outcome.proba and not outcome.problem and _anybody(outcome.workspace)
    held = (
        np.concatenate(outcome.proba).astype(float)
        if usable
        else np.full((len(find), n_classes), np.nan)
    )
    numbers = _numbers(labels)
    left_out = np.full((labels.count, n_classes), np.nan)
    if outcome.held_out is not None and usable:
        left_out = outcome.held_out
    held[numbers] = left_out
    trusted = labels.noise == 0
    hand = np.full(len(find), ABSTAIN)
    hand[numbers[trusted]] = labels.labels[trusted]
    fair = np.zeros(len(find), dtype=bool)
    fair[numbers] = trusted & labels.representative
    belief = held.copy()
    belief[hand != ABSTAIN] = np.eye(n_classes)[hand[hand != ABSTAIN]]
    return Evidence(find, belief, held, hand, fair)


def _anybody(workspace: Workspace) -> bool:
    """Whether anybody says anything that a model could rest on."""
    own = (column for each in workspace.active for column in each.own)
    return workspace.labels.count > 0 or any((each != ABSTAIN).any() for each in own)


def _numbers(labels: HandLabels) -> np.ndarray:
    """Row numbers of labelled rows, in the order in which their labels are listed."""
    starts = np.concatenate([[0], np.cumsum([len(each) for each in labels.y])])
    parts = [labels.rows[at] + starts[at] for at in labels.order]
    return np.concatenate(parts).astype(np.intp)


def digests_of(session: SessionVerbs) -> np.ndarray:
    """A number for every row, read off what it says: its text, else its vector, else its name."""
    workspace = session.state.workspace
    said = _texts(session)
    parts = []
    for at, split in enumerate(workspace.splits):
        texts = [] if said is None or at >= len(said) else said[at][: split.n_rows]
        rest = list(_content(session, workspace, at))[len(texts) :]
        parts.append(_hashed([*(each.encode("utf-8", "surrogatepass") for each in texts), *rest]))
    return np.concatenate(parts)


def _texts(session: SessionVerbs) -> list[list[str]] | None:
    try:
        return None if session.texts is None else session.texts.column_texts()
    except FrameError:  # not a column of texts
        return None


def _content(session: SessionVerbs, workspace: Workspace, at: int) -> Iterable[bytes]:
    vectors = workspace.splits[at].vectors
    if vectors is not None:
        return (row.tobytes() for row in np.ascontiguousarray(vectors, dtype=np.float32))
    names = session.state.names
    n_rows = workspace.splits[at].n_rows
    return (
        "\n".join(names.name((at, row))).encode("utf-8", "surrogatepass") for row in range(n_rows)
    )


def _hashed(said: Iterable[bytes]) -> np.ndarray:
    raw = b"".join(hashlib.blake2b(each, digest_size=8, key=HALVES).digest() for each in said)
    return np.frombuffer(raw, dtype="<u8")
