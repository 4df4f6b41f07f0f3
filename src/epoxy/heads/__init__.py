"""End models: what is trained on the labels and then answers alone, without votes.

One protocol, `Head`: `fit(inputs, targets)`, `predict_proba(inputs)`, `save(folder)`. Targets are
labels, or one row of probabilities per row, which every head learns from with the soft-label
(noise-aware) loss. `LinearHead` and `NearestNeighbors` take vectors; `FineTuned` takes texts or
images and trains the network itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "Drift": "finetuned",
    "FineTuned": "finetuned",
    "Head": "base",
    "LinearHead": "linear",
    "NearestNeighbors": "nearest",
    "Training": "finetuned",
    "load": "store",
}

__all__ = [
    "Drift",
    "FineTuned",
    "Head",
    "LinearHead",
    "NearestNeighbors",
    "Training",
    "load",
]

if TYPE_CHECKING:
    from .base import Head
    from .finetuned import Drift, FineTuned, Training
    from .linear import LinearHead
    from .nearest import NearestNeighbors
    from .store import load


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
