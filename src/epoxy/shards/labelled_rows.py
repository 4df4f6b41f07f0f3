"""The rows that people labelled, brought to the driver: what a session would hold of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..engines import Engine
from ..errors import ParameterError
from ..loans import Neighbourhood
from ..project.project import Folder
from ..project.read import DEV_FILE, ROWS_FILE, ProjectRows, labels_in, named_rows
from ..project.settings import Project
from ..session.edits import Label, edit_from_json, simple_edits
from ..session.labels import Records, random_digest
from ..session.log import Log
from ..session.state import RowNames, State
from ..votes import Split, Votes
from ..workspace import Workspace
from . import scanning, voting
from .joining import Joined
from .lending import Answers
from .run import Run
from .runner import Summary
from .scanning import Scanned
from .shard import Kept, Shard


def labelled_in(store: Log) -> list[str]:
    """Names of rows that the log labels, in the rows file or in one that was not named."""
    found: dict[str, None] = {}
    for record in store.records():
        for edit in simple_edits(edit_from_json(record.edit)):
            if isinstance(edit, Label) and edit.file != DEV_FILE:
                found[edit.row] = None
    return list(found)


def few_rows(project: Project, scanned: Scanned, apart: Any, schema: Any) -> ProjectRows:
    """The labelled rows with their names: of train those the log labels, and dev."""
    hand, dev = scanned.tables
    tables, places = [schema.empty_table() if hand is None else hand], [scanned.hand]
    files, truth = [ROWS_FILE], list[Any]([None])
    if apart is not None:
        tables, places = [*tables, apart], [*places, np.arange(apart.num_rows)]
        files, truth = [*files, DEV_FILE], [None, labels_in(apart, project, Path(str(project.dev)))]
    elif dev is not None:
        tables, places = [*tables, dev], [*places, scanned.dev]
        files, truth = [*files, ROWS_FILE], [None, labels_in(dev, project, project.rows)]
    return named_rows(project, tuple(files), tuple(tables), tuple(places), tuple(truth))


def workspace_of(
    project: Project,
    run: Run,
    scanned: Scanned,
    voted: voting.Voted,
    rows: ProjectRows,
    functions: Any,
    liked: Mapping[str, np.ndarray],
    engine: Engine,
) -> Workspace:
    """The labelled rows and their votes, before anything was decided.

    `liked` are votes of functions of example rows on dev rows.
    """
    hand = run.stage("hand-votes", pick_votes, scanned.kept, voted.kept, scanned.hand)
    at = [voted.every.index(name) for name in voted.sources]
    own = [np.concatenate([each["votes"] for each in hand], axis=1)[at]]
    if len(rows.tables) > 1:
        own.append(_votes_on_dev(project, rows, functions, voted, liked))
    splits = [
        Split(
            Votes(each.T, voted.sources, project.classes),
            None,
            rows.y[number],
            rows.ids[number],
            rows.chosen[number],
        )
        for number, each in enumerate(own)
    ]
    near = Neighbourhood(tuple(each.n_rows for each in splits), engine.metric)
    dev = splits[1] if len(splits) > 1 else None
    return Workspace.over(splits[0], dev, near, engine.settings(voted.sources))


def _votes_on_dev(
    project: Project,
    rows: ProjectRows,
    functions: Any,
    voted: voting.Voted,
    liked: Mapping[str, np.ndarray],
) -> np.ndarray:
    if isinstance(functions, Joined):
        return voting.votes_by_id(functions, rows.ids[1], voted.sources, project.classes)
    mine = {name: column for name, column in liked.items() if name in voted.sources}
    found, lost = voting.vote_on(functions, rows.tables[1], voted.sources, project.classes, mine)
    if lost is not None:
        raise ParameterError(
            f"function {lost.name!r} voted on the rows and failed on dev rows: {lost}; correct it"
        )
    return found


def pick_votes(shard: Shard, kept: Kept, rows: Kept, votes: Kept, places: np.ndarray) -> Summary:
    """Votes on a few train rows, by their places among all rows; (n_sources, n_places)."""
    return {"votes": np.array(votes.mapped(shard, "votes")[:, train_places(shard, rows, places)])}


def pick_answers(run: Run, scanned: Scanned, loans: Kept, n_sources: int) -> Answers:
    """Who lends to the hand-labelled train rows, of what is kept of all."""
    stage = run.stage("hand-loans", pick_loans, scanned.kept, loans, scanned.hand)
    parts = list(stage)
    lender, distance, vote = (
        np.concatenate([each[name] for each in parts], axis=1)
        for name in ("lender", "distance", "vote")
    )
    return Answers(lender, distance, vote)


def pick_loans(shard: Shard, kept: Kept, rows: Kept, loans: Kept, places: np.ndarray) -> Summary:
    """Loans to a few train rows of a shard; (n_sources, n_places)."""
    mine = train_places(shard, rows, places)
    names = ("lender", "distance", "vote")
    return {name: np.array(loans.mapped(shard, name)[:, mine]) for name in names}


def train_places(shard: Shard, rows: Kept, places: np.ndarray) -> np.ndarray:
    """Where rows, by their places among all rows, stand among the train rows of a shard."""
    mine = places[(places >= shard.start) & (places < shard.stop)] - shard.start
    if not len(mine):
        return mine
    return np.asarray(np.cumsum(rows.load(shard, "train"))[mine] - 1)


def decided(
    project: Project,
    run: Run,
    scanned: Scanned,
    home: Folder,
    few: Workspace,
    rows: ProjectRows,
    engine: Engine,
) -> State:
    """The state after everything that the log decided."""
    names = _Names(
        rows.files,
        rows.ids,
        lambda: scanning.first_unlabelled(
            run, scanned.kept, project, np.concatenate([scanned.hand, scanned.dev])
        ),
    )
    records = Records.of_files(few, rows.by, project.labellers)
    state = State.of(few, records, names)
    return home.decided(state)[0].apply(state)[0]


class _Names(RowNames):
    """Names of the labelled rows; the draw ends where it comes to a row that is not among them."""

    def __init__(self, files: Any, ids: Any, first: Callable[[], int]) -> None:
        super().__init__(files, ids)
        self._first = first

    @property
    def order(self) -> Any:
        """The labelled rows that come before the first row that is not labelled."""
        end = self._first()
        places = [(at, row) for at, ids in enumerate(self._ids) for row in range(len(ids))]
        digests = {place: random_digest(*self.name(place)) for place in places}
        return sorted((each for each in places if digests[each] < end), key=digests.__getitem__)
