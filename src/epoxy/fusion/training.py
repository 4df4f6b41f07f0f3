"""How the experts are taught: out of fold on dev, one after the other, then once on everything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from . import decision, folds, pool
from .experts import Expert, Lesson, Speaker
from .geometry import WAVES, Smoother
from .pool import Pool
from .rows import Rows

__all__ = ["Material", "Taught", "hear", "teach"]

TYPICAL = {
    "majority": 0.3,
    "reach": 0.25,
    "head": 0.25,
    "neighbours": 0.15,
    "pupil": 0.2,
    "echo": 0.45,
}
"""Weights the pool starts from, and keeps where no dev row can tell."""

UNKNOWN = 0.25
FEWEST = 10
"""With fewer hand labels the experts learn from all of them, and the weights stay typical."""
ALONE = 1.7
"""Without hand labels to judge by, experts are this much louder than with them."""


@dataclass(frozen=True, eq=False)
class Material:
    """All there is to learn from."""

    train: Rows
    dev: Rows | None  # labelled rows only
    y: np.ndarray | None  # (n_dev,)
    prior: np.ndarray  # (n_classes,)
    smoother: Smoother | None
    groups: np.ndarray | None  # (n_dev,) dev rows that must not be separated; None for no such
    seed: int

    @property
    def judges(self) -> bool:
        """Whether there are enough hand labels to hold some out and judge the experts by them."""
        return self.y is not None and len(self.y) >= FEWEST


@dataclass(frozen=True, eq=False)
class Taught:
    """What fitting leaves behind."""

    speakers: dict[str, Speaker]
    pool: Pool
    dev_proba: np.ndarray | None  # (n_dev, n_classes), out of fold


@dataclass(eq=False)
class _Class:
    """One set of dev rows to learn from, and those held out of it."""

    lesson: Lesson
    held: np.ndarray  # indices of held-out dev rows; empty for the class of all
    speakers: dict[str, Speaker | None]


def teach(experts: Sequence[Expert], material: Material) -> Taught:
    """Fit every expert on every fold and on all dev rows; pool what they say out of fold."""
    classes = _classes(material)
    whole = classes[-1]
    heard: dict[str, np.ndarray] = {}
    for expert in experts:
        if getattr(expert, "is_taught", False):
            _discuss(experts, classes, heard, material)
        found = expert.fit([each.lesson for each in classes])
        for each, speaker in zip(classes, found, strict=True):
            each.speakers[expert.name] = speaker
        if whole.speakers[expert.name] is not None:
            heard[expert.name] = _out_of_fold(classes, expert.name, material)
    agreed = _pool(heard, material)
    speakers = {name: whole.speakers[name] for name in heard}
    proba = agreed.probabilities(_stack(heard, material)) if material.judges else None
    return Taught({k: v for k, v in speakers.items() if v is not None}, agreed, proba)


def _classes(material: Material) -> list[_Class]:
    nobody = np.empty(0, dtype=np.intp)
    whole = Lesson(material.train, material.prior, material.dev, material.y, material.smoother)
    if material.dev is None or not material.judges:
        return [_Class(whole, nobody, {})]
    assert material.y is not None
    found = []
    fold = _folds(material)
    for each in np.unique(fold):
        kept = np.flatnonzero(fold != each)
        y = material.y[kept]
        prior = decision.counted(y, len(material.prior))
        lesson = replace(whole, prior=prior, dev=material.dev.take(kept), y=y)
        found.append(_Class(lesson, np.flatnonzero(fold == each), {}))
    return [*found, _Class(whole, nobody, {})]


def _folds(material: Material) -> np.ndarray:
    dev = material.dev
    assert dev is not None  # asked only where there are dev rows
    assert material.y is not None
    draw = np.random.default_rng(material.seed)
    # chance comes from the content of a row, never from its place or from the order of the sources
    content = np.stack([(dev.votes == k).sum(axis=1) for k in range(len(material.prior))], axis=1)
    order = content @ draw.normal(size=content.shape[1])
    if dev.features is not None:  # the waves only: principal axes are unique only up to their signs
        order = order + dev.features[:, -WAVES:].astype(np.float64) @ draw.normal(size=WAVES)
    groups = np.arange(len(dev)) if material.groups is None else material.groups
    return folds.assign(groups, material.y, order)


def _discuss(
    experts: Sequence[Expert],
    classes: list[_Class],
    heard: dict[str, np.ndarray],
    material: Material,
) -> None:
    """Let those heard so far agree about the train rows, within each fold."""
    able = {e.name for e in experts if getattr(e, "teaches", True)}
    before = {name: said for name, said in heard.items() if name in able}
    agreed = _pool(before, material)
    said = hear(
        [e.speakers[name] for e in classes for name in before], material.train, len(agreed.prior)
    )
    for at, each in enumerate(classes):
        evidence = said[at * len(before) : (at + 1) * len(before)]
        each.lesson = replace(each.lesson, taught=agreed.probabilities(evidence))


def hear(speakers: Sequence[Speaker | None], rows: Rows, n_classes: int) -> np.ndarray:
    """What all speakers say about the rows; (n_speakers, n_rows, n_classes)."""
    found = np.zeros((len(speakers), len(rows), n_classes))
    for at, (speaker, read) in enumerate(zip(speakers, _read_at_once(speakers, rows), strict=True)):
        if speaker is not None:  # a fold may hold nothing an expert can learn from: silence
            found[at] = speaker.evidence(rows) if read is None else speaker.evidence(rows, read)
    return found


def _read_at_once(speakers: Sequence[Speaker | None], rows: Rows) -> Iterator[np.ndarray | None]:
    """The products of all linear readouts with the features, which are then read only one time."""
    readouts = [getattr(speaker, "readout", None) for speaker in speakers]
    given = [readout for readout in readouts if readout is not None]
    if rows.features is None or not given:
        yield from [None] * len(readouts)
        return
    parts = iter(np.split(rows.features @ np.hstack(given), len(given), axis=1))
    yield from (None if readout is None else next(parts) for readout in readouts)


def _out_of_fold(classes: list[_Class], name: str, material: Material) -> np.ndarray:
    n_rows = 0 if material.y is None else len(material.y)
    found = np.zeros((n_rows, len(material.prior)))
    for each in classes:
        if material.dev is not None and len(each.held):
            rows = material.dev.take(each.held)
            found[each.held] = hear([each.speakers[name]], rows, len(material.prior))[0]
    return found


def _pool(heard: dict[str, np.ndarray], material: Material) -> Pool:
    typical = np.array([TYPICAL.get(name, UNKNOWN) for name in heard])
    if material.y is None or not material.judges:
        return Pool(ALONE * typical, np.zeros(len(material.prior)), material.prior)
    groups = np.arange(len(material.y)) if material.groups is None else material.groups
    share = len(np.unique(groups)) / len(groups)
    return pool.fit(_stack(heard, material), material.y, material.prior, typical, independent=share)


def _stack(heard: dict[str, np.ndarray], material: Material) -> np.ndarray:
    n_rows = 0 if material.y is None else len(material.y)
    if not heard:
        return np.zeros((0, n_rows, len(material.prior)))
    return np.stack(list(heard.values()))
