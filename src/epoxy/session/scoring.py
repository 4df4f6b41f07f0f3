"""Models side by side on the same rows, and the difference between two outcomes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from ..engines import Comparison, Outcome, Scores, majority_scores, scores_of
from ..votes import ABSTAIN
from ..workspace import TRAIN
from .edits import Edit
from .history import Moment
from .state import Change


def comparison(
    name: str, outcome: Outcome, beside: Outcome, own: Scores, positive: str | None
) -> Comparison:
    """Majority vote, the paper's pipeline (`beside`) and a model, scored on the same rows."""
    found = {"majority": majority_scores(outcome, positive)}
    if name != "epoxy":
        held = beside.held_out
        if held is not None and outcome.held_out is not None:
            missing = np.isnan(outcome.held_out).any(axis=1)
            beside = replace(beside, held_out=np.where(missing[:, None], np.nan, held))
        found["epoxy"] = scores_of(beside, positive)
    return Comparison(found | {name: own})


def change_between(old: Moment, new: Moment, edit: Edit, what: str, start: float) -> Change:
    """What an edit begun at `start` (by `time.perf_counter`) made different."""
    source = edit.about.source
    before, now = old.outcome, new.outcome
    edited = None if source is None else now.workspace.source(source)
    return Change(
        version=new.version,
        what=what,
        source=source,
        flipped=_flipped(before, now),
        before=old.scores,
        after=new.scores,
        coverage=None if source is None else (_coverage(before, source), _coverage(now, source)),
        searched=0.0 if edited is None else edited.loans[TRAIN].searched,
        problem=now.problem,
        edit=edit.to_json(),
        unheard=tuple(each for each in now.unheard if each == source or each not in before.unheard),
        heard=tuple(
            each
            for each in before.unheard
            if each in now.workspace.names and each not in now.unheard
        ),
        seconds=time.perf_counter() - start,
    )


def _flipped(before: Outcome, now: Outcome) -> np.ndarray:
    """Train rows whose label differs."""
    if not before.labels or not now.labels:
        rows = now.workspace.splits[TRAIN].n_rows if before.labels or now.labels else 0
        return np.arange(rows)
    old, new = before.decided[TRAIN], now.decided[TRAIN]
    shared = min(len(old), len(new))
    return np.flatnonzero(old[:shared] != new[:shared])


def _coverage(outcome: Outcome, source: str) -> float:
    """Share of train rows an active source votes on after extension."""
    names = outcome.workspace.names
    if source not in names:
        return 0.0
    column: Any = outcome.extended[TRAIN].columns[names.index(source)]
    return float(np.count_nonzero(column != ABSTAIN) / max(1, len(column)))
