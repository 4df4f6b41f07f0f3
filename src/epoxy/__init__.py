"""Interactive weak supervision with pre-trained embeddings.

Everything is a function from votes to votes (extension) or from votes to probabilities (label
models). Names are loaded when first used, so that `import epoxy` costs next to nothing and pulls in
neither scikit-learn nor torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "ABSTAIN": "votes",
    "Split": "votes",
    "Votes": "votes",
    "EpoxyError": "errors",
    "NotIdentifiable": "errors",
}

_MODULES = ("datasets", "errors")

__all__ = sorted([*_HOME, *_MODULES])

if TYPE_CHECKING:
    from . import datasets, errors
    from .errors import EpoxyError, NotIdentifiable
    from .votes import ABSTAIN, Split, Votes


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    elif name in _MODULES:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
