"""The loop end to end: edit → extended votes → label model → probabilities → dev scores.

Part of `speed.py`. Radii go from tight to loose: those at which 10, 50 and 90 % of a source's abstaining
rows get a vote. Half of the edits change 5 % of a source's votes, half of them 30 %.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import epoxy
from speed_data import edited

EDITS = 24  # per radius
RADII = {"tight": 0.1, "medium": 0.5, "loose": 0.9}


def measure(vectors: np.ndarray, votes: np.ndarray) -> dict[str, Any]:
    """Open a session, then move radii and edit votes at each radius."""
    train, dev = splits(vectors, votes)
    model = epoxy.Epoxy(epoxy.Triplet(), 0.0)
    opened, session = timed(lambda: epoxy.Session(train, dev, model))
    found: dict[str, Any] = {"open_seconds": opened}
    # a fresh session knows every distance; later ones forget what lies beyond their radius
    sources = session.state.workspace.sources
    radii = {
        name: {each.name: _radius(each, share) for each in sources} for name, share in RADII.items()
    }
    for name in RADII:
        found[name] = loop(session, radii[name])
    return found


def splits(vectors: np.ndarray, votes: np.ndarray) -> tuple[epoxy.Split, epoxy.Split]:
    """The rows as train, and up to 2,811 of them again as dev with made-up truth."""
    named = epoxy.Votes(np.where(votes < 0, -1, votes % 2), classes=["no", "yes"])
    n = len(vectors)
    some = np.random.default_rng(1).permutation(n)[: min(2811, n // 2)]
    y = np.random.default_rng(2).integers(0, 2, len(some))
    return epoxy.Split(named, vectors), epoxy.Split(named.rows(some), vectors[some], y=y)


def loop(session: epoxy.Session, radii: dict[str, float]) -> dict[str, Any]:
    """Radius moves and edits of every source in turn, around these radii."""
    rng = np.random.default_rng(3)
    now = {source.name: source for source in session.state.workspace.sources}
    session.set_radii(radii)
    moves, edits = [], []

    def read() -> None:
        session.probabilities, session.dev_probabilities, session.scores  # noqa: B018

    names = [name for name in session.sources if (now[name].own[0] != -1).any()]
    for number in range(EDITS):
        name = names[number % len(names)]
        radius = radii[name] * float(rng.uniform(0.7, 1.0))
        moves.append(timed(lambda n=name, r=radius: (session.set_radius(n, r), read()))[0])
    session.set_radii(radii)
    for number in range(EDITS):
        name = names[number % len(names)]
        column = _edited(session.state.workspace.source(name), 0.3 if number % 2 else 0.05, rng)
        seconds, _ = timed(lambda n=name, c=column: (session.set_votes(n, c), read()))
        edits.append(seconds)
    return {
        "radius_ms": summary(moves),
        "edit_ms": summary(edits),
    }


def _radius(source: Any, share: float) -> float:
    distance = source.loans[0].distance
    far = distance[(source.own[0] == -1) & np.isfinite(distance)]
    return float(np.quantile(far, share)) if len(far) else 0.0


def _edited(source: Any, share: float, rng: np.random.Generator) -> np.ndarray:
    own = source.own[0]
    support = edited(own != -1, source.loans[0].distance, share, rng)
    said = own[own != -1][0] if (own != -1).any() else 0
    return np.where(support, np.where(own != -1, own, said), -1).astype(np.int8)


def label_model(votes: np.ndarray) -> dict[str, float]:
    """Fit and predict of our label model, p50 of twenty; the same votes as new values each time."""
    fit, predict = [], []
    for _ in range(21):
        named = epoxy.Votes(np.where(votes < 0, -1, votes % 2), classes=["no", "yes"])
        seconds, model = timed(lambda v=named: epoxy.Triplet().fit(v))
        fit.append(seconds)
        predict.append(timed(lambda m=model, v=named: m.predict_proba(v))[0])
    return {
        "fit_seconds": float(np.median(fit[1:])),
        "predict_seconds": float(np.median(predict[1:])),
    }


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def summary(seconds: list[float]) -> dict[str, float]:
    return {"p50": 1e3 * float(np.median(seconds)), "worst": 1e3 * max(seconds), "n": len(seconds)}
