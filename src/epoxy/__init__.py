"""Interactive weak supervision with pre-trained embeddings.

Everything is a function from votes to votes (extension) or from votes to probabilities (label
models). Names are loaded when first used, so that `import epoxy` costs next to nothing and pulls in
neither scikit-learn nor torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOME = {
    "ABSTAIN": "votes",
    "Chain": "sequences",
    "Fusion": "fusion",
    "TaskGraph": "sequences",
    "Tasks": "sequences",
    "learn_dependencies": "sequences",
    "LabelingWarning": "functions.apply",
    "Session": "session",
    "apply": "functions.apply",
    "ask": "asking",
    "apply_report": "functions.apply",
    "from_column": "functions.declare",
    "from_model": "functions.declare",
    "keywords": "functions.declare",
    "labeling_function": "functions.define",
    "like": "functions.declare",
    "regex": "functions.declare",
    "tune": "tuning",
    "DawidSkene": "label_models",
    "Epoxy": "model",
    "EpoxyError": "errors",
    "MajorityVote": "label_models",
    "NotIdentifiable": "errors",
    "Reach": "extension",
    "Report": "diagnostics",
    "Snorkel": "label_models",
    "Split": "votes",
    "Triplet": "label_models",
    "Votes": "votes",
    "load": "storage",
    "reach": "extension",
}

_MODULES = (
    "asking",
    "bench",
    "cluster",
    "datasets",
    "diagnostics",
    "encoders",
    "errors",
    "heads",
    "label_models",
    "neighbors",
    "sequences",
    "blocks",
    "studio",
    "theory",
    "weighting",
)

__all__ = sorted([*_HOME, *_MODULES])

if TYPE_CHECKING:
    from . import asking as asking
    from . import bench as bench
    from . import blocks as blocks
    from . import cluster as cluster
    from . import datasets as datasets
    from . import diagnostics as diagnostics
    from . import encoders as encoders
    from . import errors as errors
    from . import heads as heads
    from . import label_models as label_models
    from . import neighbors as neighbors
    from . import sequences as sequences
    from . import studio as studio
    from . import theory as theory
    from . import weighting as weighting
    from .asking import ask as ask
    from .diagnostics import Report as Report
    from .errors import EpoxyError as EpoxyError
    from .errors import NotIdentifiable as NotIdentifiable
    from .extension import Reach as Reach
    from .extension import reach as reach
    from .functions.apply import LabelingWarning as LabelingWarning
    from .functions.apply import apply as apply
    from .functions.apply import apply_report as apply_report
    from .functions.declare import from_column as from_column
    from .functions.declare import from_model as from_model
    from .functions.declare import keywords as keywords
    from .functions.declare import like as like
    from .functions.declare import regex as regex
    from .functions.define import labeling_function as labeling_function
    from .fusion import Fusion as Fusion
    from .label_models import DawidSkene as DawidSkene
    from .label_models import MajorityVote as MajorityVote
    from .label_models import Snorkel as Snorkel
    from .label_models import Triplet as Triplet
    from .model import Epoxy as Epoxy
    from .sequences import Chain as Chain
    from .sequences import TaskGraph as TaskGraph
    from .sequences import Tasks as Tasks
    from .sequences import learn_dependencies as learn_dependencies
    from .session import Session as Session
    from .storage import load as load
    from .tuning import tune as tune
    from .votes import ABSTAIN as ABSTAIN
    from .votes import Split as Split
    from .votes import Votes as Votes


if not TYPE_CHECKING:  # a checker knows every name from the imports above, and no other

    def __getattr__(name):
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
