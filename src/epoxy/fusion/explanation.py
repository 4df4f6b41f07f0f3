"""Why one row got its label: every expert's part, and the votes, rows and hand labels behind it."""

from __future__ import annotations
from typing import Any
from ..diagnostics import Explanation as FusionExplanation


def explain_row(*a: Any) -> Any: ...
