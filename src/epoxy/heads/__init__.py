"""End models: what is trained on the labels and then answers alone, without votes.

One class of their kind, `Head`: `fit(inputs, targets)`, `predict_proba(inputs)`, `save(folder)`. Targets are
labels, or one row of probabilities per row, which every head learns from with the soft-label
(noise-aware) loss. `LinearHead` and `NearestNeighbors` take vectors; `FineTuned` takes texts and
trains the network itself. `load` (`epoxy.load`) opens a saved one, whichever it is.
"""

from __future__ import annotations

from ..storage import load
from .finetuned import FineTuned, Training
from .head import Head
from .linear import LinearHead
from .nearest import NearestNeighbors

__all__ = ["FineTuned", "Head", "LinearHead", "NearestNeighbors", "Training", "load"]
