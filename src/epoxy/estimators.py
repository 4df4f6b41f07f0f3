"""What scikit-learn asks of an estimator, without importing scikit-learn.

Importing scikit-learn takes over a second of CPU (it imports SciPy's statistics, and pandas where there
is one), more than everything else `epoxy label` imports, and all a model needs of it are parameters by
name. So models have these few methods of their own, and scikit-learn's own checks run over them in the
tests; heads, which scikit-learn fits and scores, are its classes. As a base they also have types, which
scikit-learn's do not: a class whose base is unknown to a type checker passes for any type at all.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from inspect import signature
from typing import Any, ClassVar, Self

from .errors import UnknownName


class Estimator:
    """Parameters by name, as scikit-learn reads and sets them: those of the constructor."""

    _defaults: ClassVar[Mapping[str, Any]] = {}
    """The constructor's parameters with their defaults; reading a signature takes its time."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._defaults = {name: each.default for name, each in signature(cls).parameters.items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters; with `deep` also those of parameters, as `outer__inner`."""
        found: dict[str, Any] = {}
        for name in self._defaults:
            value = found[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                inner = value.get_params().items()
                found.update((f"{name}__{key}", each) for key, each in inner)
        return found

    def set_params(self, **params: Any) -> Self:
        """Change parameters, also those of parameters (`outer__inner`); returns the model."""
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, inside, inner = key.partition("__")
            if name not in self._defaults:
                raise UnknownName.of("parameter", name, self._defaults)
            if inside:
                nested.setdefault(name, {})[inner] = value
            else:
                setattr(self, name, value)
        for name, inner_params in nested.items():
            getattr(self, name).set_params(**inner_params)
        return self

    def __repr__(self) -> str:
        changed = (
            f"{name}={getattr(self, name)!r}"
            for name, default in self._defaults.items()
            if not _equal(getattr(self, name), default)
        )
        return f"{type(self).__name__}({', '.join(changed)})"


def clone(model: Any) -> Any:
    """The same model with the same parameters, not fitted; a copy of what has no parameters."""
    if not isinstance(model, Estimator):
        if not hasattr(model, "get_params"):
            return copy.deepcopy(model)
        from sklearn import base

        return base.clone(model, safe=False)
    params = model.get_params(deep=False)
    return type(model)(**{name: clone(value) for name, value in params.items()})


def _equal(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and repr(value) == repr(default))
