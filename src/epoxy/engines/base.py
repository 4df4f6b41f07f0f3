"""What a session asks of a model: bring yourself in step with this workspace, and say what follows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ..diagnostics import Explanation, Report
from ..diagnostics.unheard import defended_by
from ..errors import NotIdentifiable
from ..extension import Setting
from ..votes import Votes
from ..workspace import Workspace


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a model makes of a workspace; `problem` says why where it makes nothing of it."""

    workspace: Workspace
    make: Callable[[], Any]  # the fitted model, made when it is asked for
    radii: np.ndarray  # (n_active,) how far each active source lends; NaN: not at all
    extended: tuple[Votes, ...]  # votes of the active sources after extension, on every split
    proba: tuple[np.ndarray, ...] = ()  # of every split, (n_rows, n_classes)
    labels: tuple[np.ndarray, ...] = ()  # by the model's own decision rule; (n_rows,) class indices
    held_out: np.ndarray | None = None
    """Probabilities of the labelled rows (in the order of `HandLabels.labels`) by models that did not
    learn from that row; rows of NaN where there is no such model."""
    held_out_labels: np.ndarray | None = None  # and their labels, by the model's own rule
    problem: str = ""
    unheard: Mapping[str, float] = field(default_factory=dict)
    """Active sources that the model does not hear, because vectors contradict them, with their support."""
    tuned: bool = False
    """Whether settings were chosen on labelled rows, which are not held out from that choice."""

    @classmethod
    def none(
        cls, workspace: Workspace, radii: np.ndarray, extended: tuple[Votes, ...], problem: str
    ) -> Outcome:
        """Of a workspace that a model can make nothing of; who asks for the model is told why."""

        def refuse() -> Any:
            raise NotIdentifiable(problem)

        return cls(workspace, refuse, radii, extended, problem=problem)

    def __repr__(self) -> str:
        return f"Outcome({self.problem or repr(self.workspace)})"

    @property
    def heard(self) -> list[int]:
        """Numbers of the active sources that the model hears."""
        return [at for at, name in enumerate(self.workspace.names) if name not in self.unheard]

    @cached_property
    def defended(self) -> dict[str, tuple[int, int]]:
        """Sources that are not heard and that hand labels prove right: right votes, and all on such rows."""
        labels, active = self.workspace.labels, self.workspace.active
        silent = [each for each in active if each.name in self.unheard]
        if not silent or not labels.count:
            return {}
        every = range(len(self.workspace.splits))
        votes = labels.gather_columns([[each.own[at] for each in silent] for at in every])
        return defended_by(votes, labels.labels, [each.name for each in silent])

    @cached_property
    def model(self) -> Any:
        """The fitted model, to predict on other rows and to save."""
        return self.make()

    @cached_property
    def decided(self) -> tuple[np.ndarray, ...]:
        """The labels of every split, with trusted hand labels in their place."""
        known = self.workspace.labels
        return tuple(known.settled(at, labels) for at, labels in enumerate(self.labels))


class Engine(Protocol):
    """A model in a session; it may keep what it likes from one `update` to the next."""

    name: str
    """What the model is called where it stands beside others."""
    metric: str
    """The distance it measures nearness by."""
    apart: bool
    """Whether rows without a direction are near nobody; where not, they are refused."""

    def settings(self, sources: Sequence[str]) -> list[Setting]:
        """The radius each source starts with."""

    def update(self, workspace: Workspace) -> Outcome:
        """What the model makes of a workspace; it equals what a new engine would make of it."""

    def explain(self, outcome: Outcome, at: int, row: int) -> Explanation:
        """Why a row of split `at` has its label; the probabilities are those of the outcome."""

    def report(self, outcome: Outcome, at: int, positive: str | None) -> Report:
        """What each source does on split `at`, and how good the labels are."""


class Updatable(ABC):
    """A model that brings its own engine, and so need not be refitted whole."""

    @abstractmethod
    def engine(self) -> Engine:
        """A new engine with this model's parameters."""


def most_probable(proba: np.ndarray) -> np.ndarray:
    """The class with the largest probability, the first of equals."""
    if proba.shape[1] == 2:  # many times as fast as argmax over pairs
        return np.asarray(proba[:, 1] > proba[:, 0]).view(np.int8)
    return np.asarray(proba.argmax(axis=1))
