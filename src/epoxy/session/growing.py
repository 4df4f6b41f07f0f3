"""Edits that change which rows there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

import numpy as np

from ..engines import Engine
from ..errors import AlignmentError
from ..votes import Split
from ..workspace import SPLITS, TRAIN, column_of
from .edits import About, Edit, known
from .state import RowNames, State


@dataclass(frozen=True, eq=False)
class Append(Edit):
    """Add train rows, with a vote of every source (switched off ones too) and a vector each."""

    rows: Split

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Memory it holds."""
        vectors = self.rows.vectors
        return self.rows.votes.matrix.nbytes + (0 if vectors is None else vectors.nbytes)

    @property
    def about(self) -> About:
        """The rows."""
        return About(f"append {self.rows.n_rows} rows", frozenset([("rows",)]))

    def apply(self, state: State, engine: Engine) -> tuple[State, Edit]:
        """Grow train, the neighbourhood and every column."""
        workspace = state.workspace
        before = workspace.split(TRAIN, every=True)
        if self.rows.votes.sources != before.votes.sources:
            raise AlignmentError(
                f"appended rows need votes of the sources {list(before.votes.sources)[:8]}, "
                f"got {list(self.rows.votes.sources)[:8]}"
            )
        rows = with_own_names(state, self.rows)
        grown = before.followed_by(replace_labels(rows))
        near = workspace.near.append(rows, grown, apart=engine.apart)
        sources = tuple(
            replace(
                source, loans=near.lend_more((column_of(grown, at), *source.own[1:]), source.loans)
            )
            for at, source in enumerate(workspace.sources)
        )
        records = state.records.resized(grown.n_rows)
        splits = (grown, *workspace.splits[1:])
        made = replace(workspace, splits=splits, sources=sources, labels=records.labels, near=near)
        names = RowNames.of(splits, state.names.files)
        return State.of(made, records, names), _Back(state)

    def to_json(self) -> dict[str, Any]:
        """How many rows; the rows themselves are in a file."""
        return {"kind": "append", "rows": self.rows.n_rows}


@dataclass(frozen=True, eq=False)
class _Back(Edit):
    """Other rows again, with the votes they had then, and all that was decided since."""

    state: State

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Memory it holds; the lists of neighbours are those of the state that follows."""
        return sum(17 * len(each.own[0]) for each in self.state.workspace.sources)

    @property
    def about(self) -> About:
        """The rows."""
        return About("rows taken off again", frozenset([("rows",)]))

    def apply(self, state: State, engine: Engine) -> tuple[State, Edit]:
        """Go back; a radius, a switch, a label or a balance that another session gave since stays."""
        now, then = state.workspace, self.state.workspace
        sources = []
        for each in now.sources:
            far = engine.certain(each.tuned, then.near)
            loans = then.near.reaching(known(then, each.name).loans, far)
            sources.append(replace(each, loans=loans))
        records = state.records.resized(self.state.n_train)
        made = replace(then, sources=tuple(sources), balance=now.balance)
        return State.of(made, records, self.state.names), _Back(state)

    def to_json(self) -> dict[str, Any]:
        """That rows were taken off."""
        return {"kind": "rows", "rows": self.state.n_train}


def replace_labels(split: Split) -> Split:
    """The same rows without their true labels: those of train rows are never read."""
    return Split.of_checked(split.votes, split.vectors, None, split.ids)


def with_own_names(state: State, rows: Split) -> Split:
    """The rows under ids that no row has yet; those that only count from 0 count on where they must.

    Whether somebody wrote such numbers or a `Split` did for want of ids cannot be told, and is all one:
    they say where a row stands among those given with it.
    """
    names = _names_of(rows)
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise AlignmentError(
            f"{len(twice)} ids name two of the {rows.n_rows} appended rows or more: {twice[:5]}; "
            "give every row an id of its own"
        )
    splits = state.workspace.splits
    every = [_names_of(split) for split in splits]
    for at in range(len(splits)):
        if at != TRAIN and _are_numbered_apart(state, every, at):
            every[at] = []
    new = set(names)
    both = [[name for name in each if name in new] for each in every]
    if any(both) and _only_counts(rows):
        taken = {name for each in every for name in each}
        free = (each for each in count(splits[TRAIN].n_rows) if str(each) not in taken)
        ids = np.array(list(islice(free, rows.n_rows)))
        return Split.of_checked(rows.votes, rows.vectors, rows.y, ids, rows.chosen)
    for at, found in enumerate(both):
        if found:
            raise AlignmentError(
                f"{len(found)} of the {rows.n_rows} appended rows have the id of a {SPLITS[at]} row: "
                f"{found[:5]}; leave out rows that are there, and give others an id of their own"
            )
    return rows


def _names_of(split: Split) -> list[str]:
    return list(map(str, np.asarray(split.ids).tolist()))


def _only_counts(split: Split) -> bool:
    """Whether ids are the positions of rows, as they are where none were given."""
    return np.array_equal(np.asarray(split.ids), np.arange(split.n_rows))


def _are_numbered_apart(state: State, names: list[list[str]], at: int) -> bool:
    """Whether a split of another file names its rows without regard to train: an id may be in both."""
    if state.names.files[at] == state.names.files[TRAIN]:
        return False
    return _only_counts(state.workspace.splits[at]) or not set(names[at]).isdisjoint(names[TRAIN])
