"""From functions to columns: voting on the rows of a project, with what was voted before kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import EpoxyError, ParameterError
from ..functions.apply import Failure, apply
from ..functions.declare import Like
from ..functions.define import as_labeling_function
from ..loans import Neighbourhood
from ..neighbors import store as arrays
from ..progress import Progress, silent
from ..running import Loaded, Runner
from .edits import SetVotes
from .nearness import like_votes
from .project import Project
from .reading import ProjectRows
from .state import RowNames, State


def votes_of(lf: Any, rows: Any, state: State) -> SetVotes:
    """The edit that adds a function's votes on a session's rows (one frame, or one for each split)."""
    classes = state.workspace.classes
    if isinstance(lf, Like):
        return SetVotes(lf.name, like_votes(lf, state.names, state.workspace.near, classes))
    if rows is None:
        raise ParameterError(
            "add votes on rows, and this session was given none; "
            "give them: Session(train, dev, rows=(train_frame, dev_frame)), or add(lf, rows=…)"
        )
    frames = rows if isinstance(rows, tuple) else (rows,)
    columns = tuple(apply([lf], each, classes=classes).matrix[:, 0] for each in frames)
    return SetVotes(as_labeling_function(lf).name, columns)


def voting(runner: Runner, rows: ProjectRows) -> str:
    """What voting is called while it goes on, with the seconds after which a function is ended."""
    most = runner.limits.seconds_for(max(table.num_rows for table in rows.tables))
    return f"voting, each function {most:g} s at most"


def vote(
    project: Project,
    rows: ProjectRows,
    runner: Runner,
    loaded: Loaded,
    names: Sequence[str],
    near: Callable[[], Neighbourhood],
    progress: Progress = silent,
) -> tuple[dict[str, tuple[np.ndarray, ...]], list[Failure]]:
    """Columns of functions on every split; those whose function is unchanged are read back.

    A function that failed whole on any split has no columns. Functions of example rows are answered
    here, where the vectors are, at every opening: it takes milliseconds, and another encoder gives
    other votes.
    """
    likes = {name: each for name, each in loaded.likes.items() if name in names}
    asked = [name for name in names if name not in likes]
    voted, failures = _run(project, rows, runner, loaded, asked, progress)
    for name, like in likes.items():
        try:
            where = RowNames(rows.files, rows.ids)
            voted[name] = like_votes(like, where, near(), project.classes)
        except EpoxyError as error:
            failures.append(Failure(name, (), str(error), kind="wrong"))
    return {name: voted[name] for name in names if name in voted}, failures


def _run(
    project: Project,
    rows: ProjectRows,
    runner: Runner,
    loaded: Loaded,
    names: Sequence[str],
    progress: Progress,
) -> tuple[dict[str, tuple[np.ndarray, ...]], list[Failure]]:
    found: dict[str, list[np.ndarray | None]] = {name: [] for name in names}
    failures: dict[str, Failure] = {}
    for table, key, ids in zip(rows.tables, rows.keys, rows.ids):
        places = {name: _place(project, loaded.fingerprints[name], key) for name in names}
        kept = {name: _kept(place, table.num_rows) for name, place in places.items()}
        lost = {name for name, columns in found.items() if any(c is None for c in columns)}
        missing = [name for name in names if kept[name] is None and name not in lost]
        if missing:
            done = runner.vote(missing, table, project.classes, progress, partial(_keep, places))
            for failure in done.failures:
                told = failure.named(None if project.id is None else ids)
                failures.setdefault(failure.name, told)
            kept |= done.columns
        for name in names:
            found[name].append(kept[name])
    whole = {
        name: tuple(each for each in columns if each is not None)
        for name, columns in found.items()
        if all(each is not None for each in columns)
    }
    return whole, list(failures.values())


def _place(project: Project, meaning: str | None, key: str) -> Path | None:
    """Where a column is kept; None for a function whose meaning cannot be hashed."""
    if meaning is None:
        return None
    parts = "\n".join([meaning, key, *project.classes])
    name = hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()
    return project.cache / "votes" / f"{name}.npz"


def _keep(places: Mapping[str, Path | None], name: str, column: np.ndarray) -> None:
    """Write one function's votes at once: what was interrupted goes on after it."""
    place = places[name]
    if place is not None:
        arrays.save(place, {"votes": column})


def _kept(place: Path | None, n_rows: int) -> np.ndarray | None:
    found = None if place is None else arrays.load(place, ("votes",))
    if found is None or found["votes"].shape != (n_rows,):
        return None
    return found["votes"]
