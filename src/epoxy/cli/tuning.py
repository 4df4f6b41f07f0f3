"""`epoxy tune`: what a model can choose on dev rows. Fusion: weights and threshold; Epoxy: radii."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from ..errors import ParameterError
from .output import say, write_json
from .project import folder_argument, need_dev, open_project

__all__ = ["arguments", "run"]

MODELS = ("fusion", "epoxy")
ABOUT_RADII = ("shared", "simplest", "balance")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `epoxy tune`."""
    folder_argument(parser)
    parser.add_argument("--model", choices=MODELS, help="default: as epoxy.toml says")
    parser.add_argument(
        "--metric", default=None, help="accuracy or f1; for radii also log_loss or a scorer's name"
    )
    parser.add_argument("--shared", action="store_true", help="radii: one for all functions")
    parser.add_argument(
        "--simplest", action="store_true", help="radii: the smallest within one error"
    )
    parser.add_argument("--balance", action="store_true", help="radii: tune class balance too")


def run(options: argparse.Namespace) -> None:
    """Let the project's model choose on dev rows, and say what it chose and what that is worth."""
    session = open_project(options)
    need_dev(session, "tune")
    chosen = options.model or session.project.model
    metric = options.metric or ("f1" if session.positive else "accuracy")
    if chosen == "epoxy":
        found = _radii(session, metric, options)
    else:
        _refuse_radii(options)
        found = _weights(session, metric)
    write_json(found, options.json)


def _refuse_radii(options: argparse.Namespace) -> None:
    for name in ABOUT_RADII:
        if getattr(options, name):
            raise ParameterError(
                f"--{name} is about radii, and Fusion has none; add --model epoxy to tune radii"
            )


def _weights(session: Any, metric: str) -> dict[str, Any]:
    """Fit the experts and their weights; score dev rows by models that did not learn from them."""
    from ..fusion import Fusion

    train, dev = session.split("train"), session.split("dev")
    start = time.perf_counter()
    model = Fusion(metric=metric, positive=session.positive).fit(train, dev)
    seconds = time.perf_counter() - start
    plain = Fusion(metric=metric, positive=session.positive)
    plain.fit(train, geometry=model.geometry_)
    known = dev.labelled
    held_out = None if model.dev_proba_ is None else model.decide(model.dev_proba_[known])
    without = plain.decide(plain.predict_proba(dev)[known])
    found = {
        "model": "Fusion",
        "metric": metric,
        "score": None if held_out is None else _score(session, metric, held_out),
        "without_hand_labels": _score(session, metric, without),
        "hand_labels": int(known.sum()),
        "weights": model.weights_,
        "threshold": model.threshold_,
        "class_balance": dict(zip(train.classes, model.pool_.prior.tolist(), strict=True)),
        "seconds": seconds,
    }
    _say_weights(found, session)
    return found


def _score(session: Any, metric: str, guess: np.ndarray) -> float:
    dev = session.split("dev")
    truth = dev.y[dev.labelled]
    if metric == "accuracy":
        return float((guess == truth).mean())
    positive = session.positive or dev.classes[-1]
    named = list(dev.classes).index(positive)
    both = int(((guess == named) & (truth == named)).sum())
    return 2 * both / max(1, int((guess == named).sum() + (truth == named).sum()))


def _say_weights(found: dict[str, Any], session: Any) -> None:
    without = f"{found['without_hand_labels']:.3f} without hand labels ({found['seconds']:.1f} s)"
    if found["score"] is None:
        say(
            f"{found['hand_labels']} hand labels are too few to hold some out: weights stay typical; "
            f"label 10 rows or more; {found['metric']} {without}"
        )
    else:
        say(
            f"{found['metric']} {found['score']:.3f} on {found['hand_labels']} dev rows held out, "
            f"{without}"
        )
    for name, weight in found["weights"].items():
        say(f"  {name}: weight {weight:.2f}")
    shares = ", ".join(f"{name} {share:.2f}" for name, share in found["class_balance"].items())
    say(f"  class balance: {shares}")
    if found["threshold"] is not None:
        positive = session.positive or session.classes[-1]
        say(f"  {positive} from a probability of {found['threshold']:.3f} on, for the best F1")
    say("epoxy label learns the same weights by itself; --model epoxy tunes radii instead")


def _radii(session: Any, metric: str, options: argparse.Namespace) -> dict[str, Any]:
    """Choose radii, and keep them in the project."""
    from ..progress import bar
    from ..tuning import tune as search

    start = time.perf_counter()
    model = search(
        session.split("train"),
        session.split("dev"),
        metric,
        session.label_model,
        positive=session.positive,
        class_balance="tune" if options.balance else None,
        shared=options.shared,
        simplest=options.simplest,
        distance=session.metric,
        weighting=session.weighting,
        progress=bar("tuning"),
    )
    seconds = time.perf_counter() - start
    names = session.split("train").votes.sources
    session.set_radii(dict(zip(names, model.radius_.tolist(), strict=True)), "tune")
    found = model.search_
    say(f"{found} ({seconds:.1f} s)")
    for name, radius in session.radii.items():
        say(f"  {name}: {'not extended' if radius is None else f'{radius:.4g}'}")
    return {
        "model": "Epoxy",
        "metric": found.metric,
        "score": found.best.score,
        "expected": found.expected,
        "spread": found.spread,
        "without_extension": found.without,
        "settings": len(found.trials),
        "radii": session.radii,
        "class_balance": found.best.balance,
        "seconds": seconds,
    }
