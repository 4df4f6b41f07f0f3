"""Interactive weak supervision with pre-trained embeddings.

Everything is a function from votes to votes (extension) or from votes to probabilities (label
models). Names are loaded when first used, so that `import epoxy` costs next to nothing and pulls in
neither scikit-learn nor torch. `__init__.pyi` has the list of them, for type checkers and for us.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_LIST = Path(__file__).with_suffix(".pyi").read_text("utf-8")
_HOME = {name: home for home, name in re.findall(r"from \.(\S*) import (\w+) as", _LIST)}
"""The module of each public name; of a module it is empty."""
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = importlib.import_module(f".{home or name}", __name__)
    if home:
        value = getattr(value, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
