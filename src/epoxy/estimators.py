"""scikit-learn's base classes, with the types that scikit-learn itself does not give.

A class whose base is unknown to a type checker passes for any type at all: `x: int = Fusion().fit(s)`
would be no error for a user. At run time these are scikit-learn's own classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

__all__ = ["BaseEstimator", "ClassifierMixin"]

if TYPE_CHECKING:

    class BaseEstimator:
        """Parameters by name, as scikit-learn reads and sets them."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """The constructor's parameters."""

        def set_params(self, **params: Any) -> Self:
            """Other parameters."""

    class ClassifierMixin:
        """A classifier's score: its accuracy."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            """The share of rows that are right."""

else:
    from sklearn.base import BaseEstimator, ClassifierMixin
