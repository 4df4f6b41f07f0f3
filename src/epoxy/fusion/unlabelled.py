"""The model without hand labels: learned anew at every edit, from votes and what is known of vectors.

copies → who is heard → π → T → a line (one product with a kept inverse) and the rows around (one sum over
lists) → how far vectors tell of votes → who lends how far → what is said of every row
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..extension import AUTO, far
from ..label_models.moments import moments_of
from ..shares import checked_shares
from ..votes import Votes
from ..workspace import TRAIN, Workspace
from .around import Thought, Vectors
from .constants import TELLS
from .fitted import Fitted, SeenRows, Sight
from .lenders import Supports, judged
from .tally import Balance, agreement, counted, distinct, lean, taught
from .view import each_block, spaced

if TYPE_CHECKING:
    from .fusion import Fusion

Said = Mapping[str, np.ndarray]
"""What each part says of rows; (n_rows, n_classes)."""


def learn(
    model: Fusion, workspace: Workspace, vectors: Vectors | None
) -> tuple[Fitted, list[SeenRows], list[Said]]:
    """The model, the rows of every split as it sees them, and what its parts say of them."""
    active, classes = workspace.active, workspace.classes
    n_train = workspace.splits[TRAIN].n_rows
    every = [source.own[TRAIN] for source in active]
    columns = np.arange(0)
    if every:
        columns = distinct(moments_of(every, n_train, workspace.names, classes))
    own = [
        _stacked([active[at].own[split] for at in columns], workspace.splits[split].n_rows)
        for split in range(len(workspace.splits))
    ]
    names = tuple(workspace.names[at] for at in columns)
    balance = _balances(model, own[TRAIN], names, classes)
    heard, support = np.ones(len(columns), dtype=bool), None
    supports = None
    if vectors is not None and len(columns):
        supports, support = judged(own[TRAIN], balance(heard).shares, vectors)
        heard = supports.heard
    prior = balance(heard)
    if supports is not None and not heard.all():  # as if the others had been alone from the start
        supports = Supports.of(own[TRAIN], heard, prior.shares, supports.vectors)
    counts = counted(own[TRAIN][heard], len(classes))
    sight = None if vectors is None else _sight(vectors, counts, prior.shares)
    likelihood, blind = None, sight is None or not _tells(sight)
    if sight is not None and blind:
        sight = replace(sight, line=0.0, around=0.0)
    if blind and counts.any():
        likelihood = agreement(_votes(own[TRAIN], names, classes, heard), prior.shares)
    settings = [active[at].radius for at in columns]
    by_rule = np.array([each == AUTO for each in settings], dtype=bool)
    radii = np.array([np.nan if each == AUTO else far(each) for each in settings])
    if supports is not None and not blind:
        for at in np.flatnonzero(by_rule & heard):
            radii[at] = supports.radius(int(at), active[columns[at]].loans[TRAIN])
    radii[~heard] = np.nan
    if vectors is None:
        radii[:] = np.nan
    level = np.zeros(len(classes))
    base = Fitted(prior, columns, heard, support, radii, by_rule, sight, likelihood, level)
    rows = []
    for split, each in enumerate(own):
        seen = (None, None) if vectors is None else (vectors.features[split], vectors.lists[split])
        rows.append(base.rows(each, [active[at].loans[split] for at in columns], *seen))
    said: list[Said] = [base.before(each) for each in rows]
    return _leaning(base, rows[TRAIN], said[TRAIN]), rows, said


def tells(base: Fitted) -> bool:
    """Whether vectors are believed to tell anything; of rows nobody votes on nobody knows."""
    return base.sight is not None and (not base.heard.any() or _tells(base.sight))


def _tells(sight: Sight) -> bool:
    return max(sight.line, sight.around) >= TELLS or not sight.thought.count.any()


def _sight(vectors: Vectors, counts: np.ndarray, prior: np.ndarray) -> Sight:
    """What votes teach about vectors: the line, the nodes, and how far both may be believed."""
    teach, voted = taught(counts, prior), counts.sum(axis=1) > 0
    base = teach.mean(axis=0)
    off = (teach - base).astype(np.float32)
    right = _transposed_times(vectors.features[TRAIN], off)
    weights = np.asarray(vectors.inverse @ right, np.float32)
    rows, few, leverage = vectors.some
    real = teach[rows] - base
    out = real - (real - few @ weights) / np.maximum(1 - leverage, 1e-9)[:, None]
    lists = vectors.lists[TRAIN]
    thought = Thought.of(lists.at, vectors.n_nodes, teach, voted)
    seen = rows[voted[rows] & (lists.at[rows] >= 0)]
    around = lists.mean(thought, lists.at[seen])
    return Sight(
        vectors.view,
        weights,
        base,
        thought,
        _slope(real, out),
        _slope(teach[seen] - thought.base, around),
    )


def _slope(real: np.ndarray, out: np.ndarray) -> float:
    """How far targets rise with predictions that did not see them, within 0 and 1."""
    return float(np.clip((real * out).sum() / max(float((out * out).sum()), 1e-12), 0, 1))


def _transposed_times(features: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Φᵀ target, summed in float64 over blocks."""
    first = int(target.shape[1] == 2)  # of two classes the other column is its opposite
    parts: dict[int, np.ndarray] = {}

    def multiply(part: slice) -> None:
        parts[part.start] = (features[part].T @ target[part, first:]).astype(np.float64)

    each_block(len(target), multiply)
    total = sum(parts[at] for at in sorted(parts)) if parts else np.zeros((features.shape[1], 1))
    return np.hstack([-total, total]) if first else np.asarray(total)


def _balances(
    model: Fusion, own: np.ndarray, names: tuple[str, ...], classes: tuple[str, ...]
) -> Callable[[np.ndarray], Balance]:
    """The class shares by those sources that are heard."""
    told = model.class_balance

    def balance(heard: np.ndarray) -> Balance:
        if told is not None:
            return Balance.told(checked_shares(told, classes, "Fusion"))
        counts = counted(own[heard], len(classes))
        return Balance.guessed(_votes(own, names, classes, heard), counts)

    return balance


def _votes(
    own: np.ndarray, names: tuple[str, ...], classes: tuple[str, ...], heard: np.ndarray
) -> Votes:
    some = tuple(name for name, is_heard in zip(names, heard, strict=True) if is_heard)
    return Votes.of_checked(np.asfortranarray(own[heard].T), some, classes)


def _stacked(columns: list[np.ndarray], n_rows: int) -> np.ndarray:
    return np.stack(columns) if columns else np.empty((0, n_rows), np.int8)


def _leaning(base: Fitted, train: SeenRows, said: Said) -> Fitted:
    """With a lean, where rows together are to be called as π says."""
    if not base.balance.kept or not len(train):
        return base
    rows = spaced(len(train))
    some = {name: each[rows] for name, each in said.items()}
    few = train.take(rows)
    known = base.known(few, some)
    logits = np.log(base.prior) + sum(some.values())
    return replace(base, lean=lean(logits[known], base.scale(few)[known], base.prior))
