"""Liger: sources differ from place to place, so each region of the space gets its own label model.

Regions are k-means cells of the train vectors. Number of regions, shared extension and each region's
class balance are chosen on dev. A region in which too few sources speak is answered by the model of
the whole space.

Chen et al., "Shoring Up the Foundations: Fusing Model Embeddings and Weak Supervision" (UAI 2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import EpoxyError
from ..label_models import LabelModel, Triplet
from ..numerics import unit_rows
from ..votes import Votes
from .context import Context, Prediction
from .label_columns import Reaches, fresh, reaches, triplet_choice

_REGIONS = (1, 2, 3, 5, 8)
_EXTENDED = (0.0, 0.02, 0.1, 0.3, 0.6)
_LEAST_ROWS = 20  # train rows a region needs for a model of its own
_SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Shares of the second class tried in a region, besides the global one."""


@dataclass(frozen=True, eq=False)
class _Places:
    """The region of each row, by split."""

    train: np.ndarray
    dev: np.ndarray
    test: np.ndarray
    count: int


def liger(context: Context) -> Prediction:
    """One label model per region, everything chosen on dev."""
    found = reaches(context)
    places = {count: _regions(context, count) for count in _REGIONS if _fits(context, count)}
    with context.clock("tuning"):
        answers: dict[tuple[int, float], tuple[np.ndarray, np.ndarray]] = {}
        for share in _EXTENDED:
            votes = _extended(found, share)
            for count, place in places.items():
                answers[count, share] = _fit(context, votes, place)
        chosen = context.best({key: _known(dev) for key, (dev, _) in answers.items()})
    with context.clock("training"):
        votes = _extended(found, chosen[1])
        dev, test = _fit(context, votes, places[chosen[0]])
    return Prediction(test, dev, {"regions": chosen[0], "extended": chosen[1]})


def _fits(context: Context, count: int) -> bool:
    return count == 1 or context.task.train.n_rows >= count * _LEAST_ROWS


def _known(values: np.ndarray) -> Any:
    return lambda: values


def _extended(found: Reaches, share: float) -> dict[str, Votes]:
    """The votes within the radius that fills a share of the abstentions; as they are for share 0."""
    distance = found["train"].distance[~found["train"].votes.cast]
    distance = distance[np.isfinite(distance)]
    if share == 0 or not len(distance):
        return {name: each.votes for name, each in found.items()}
    radius = float(np.quantile(distance, share))
    return {name: each.extend(radius) for name, each in found.items()}


def _regions(context: Context, count: int) -> _Places:
    from sklearn.cluster import KMeans

    task = context.task
    train = unit_rows(context.vectors(task.train))
    with context.clock("tuning"):
        cells = KMeans(count, n_init=3, random_state=context.seed).fit(train)
        dev = cells.predict(unit_rows(context.vectors(context.dev)))
        return _Places(
            cells.labels_, dev, cells.predict(unit_rows(context.vectors(task.test))), count
        )


def _fit(
    context: Context, votes: dict[str, Votes], places: _Places
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of dev and test, region by region."""
    model, _ = triplet_choice(context)
    whole = fresh(model).fit(votes["train"])
    dev, test = whole.predict_proba(votes["dev"]), whole.predict_proba(votes["test"])
    for region in range(places.count):
        rows = places.train == region
        here, there = places.dev == region, places.test == region
        if rows.sum() < _LEAST_ROWS:
            continue
        local = _choose(context, _shifted(model), votes["train"].rows(rows), (votes["dev"], here))
        if local is None:
            continue
        if here.any():
            dev[here] = local.predict_proba(votes["dev"].rows(here))
        if there.any():
            test[there] = local.predict_proba(votes["test"].rows(there))
    return dev, test


def _choose(
    context: Context, models: list[Any], train: Votes, dev: tuple[Votes, np.ndarray]
) -> Any:
    """The region's label model, its class balance the one that does best on the dev rows there."""
    votes, here = dev
    best, best_value = None, -np.inf
    for model in models:
        try:
            fitted = model.fit(train)
            answer = fitted.predict_proba(votes.rows(here)) if here.any() else None
        except EpoxyError:  # too few sources speak here; the whole space answers
            continue
        value = 0.0
        if answer is not None:
            value = context.task.scoring.value(answer, context.truth[here])
        if value > best_value:
            best, best_value = fitted, value
    return best


def _shifted(model: LabelModel) -> list[Any]:
    """The model with other shares of the second class; as it is where there are more classes."""
    balance = np.asarray(getattr(model, "class_balance", ()), dtype=float)
    if not isinstance(model, Triplet) or len(balance) != 2:
        return [fresh(model)]
    return [
        Triplet([1 - share, share], solve=model.solve, compat=model.compat)
        for share in (float(balance[1]), *_SHARES)
    ]
