"""Edits: plain values that say what a person decided, turn into JSON, and can be taken back.

An edit applied to a `SessionState` gives the next one, and the edit that would take it back. The same values
are the records of a project's log and the messages of whoever edits from elsewhere. Votes and rows
follow from the functions and files of a project, so the log names such edits without holding them;
labels, radii and switches are decisions, and are replayed when a project is opened.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count, groupby, islice
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..errors import AlignmentError, ParameterError, UnknownName, VectorError, VoteError
from ..extension import AUTO, Setting, as_setting
from ..functions.apply import apply, check_declared
from ..functions.define import as_labeling_function
from ..functions.kinds import Declared, Like
from ..loans import Neighbourhood
from ..neighbors import Space
from ..neighbors.knn import nearest_rows, reaches
from ..shares import checked_shares
from ..votes import ABSTAIN, Split, Votes
from ..workspace import TRAIN, Source, Workspace, column_of
from .labels import Place, Record
from .state import RowNames, SessionState

Key = tuple[str, ...]
"""What an edit decides: a later edit with the same key overrides it."""


class Subject(NamedTuple):
    """What an edit is about."""

    what: str  # a few words for a person
    touches: frozenset[Key]  # what it decides
    source: str | None = None  # the one source it is about, if it is about one


class _Edit(msgspec.Struct, frozen=True, tag_field="kind"):
    """One decision."""

    def to_json(self) -> dict[str, Any]:
        """The edit as the log keeps it."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return made


class Radii(_Edit, frozen=True, tag="radii", omit_defaults=True):
    """How far sources may lend: a number, None (not at all) or "auto" (the model's own rule).

    A radius that an author sets binds every model; one that was `tuned` is the paper's pipeline's alone.
    """

    radii: Mapping[str, Setting]
    words: str = ""
    tuned: bool = False

    @property
    def about(self) -> Subject:
        alone = next(iter(self.radii)) if len(self.radii) == 1 else None
        mine = ("tuned",) if self.tuned else ()
        touches = frozenset(("radius", name, *mine) for name in self.radii)
        return Subject(self.words or f"radius of {alone or 'all'}", touches, alone)

    def apply(self, state: SessionState) -> tuple[SessionState, Edit]:
        workspace = state.workspace
        before, tuned = dict[str, Setting](), dict[str, Setting]()
        for name, radius in self.radii.items():
            source, now = known(workspace, name), as_setting(radius, name)
            before[name], tuned[name] = source.radius, source.tuned
            made = replace(source, tuned=now)
            workspace = workspace.with_source(made if self.tuned else replace(made, radius=now))
        back = [] if self.tuned else [Radii(before, self.words)]
        if self.tuned or tuned != before:
            back.append(Radii(tuned, self.words, tuned=True))
        return state.with_workspace(workspace), several(back, self.words)

    def to_json(self) -> dict[str, Any]:
        radii = {name: as_setting(radius, name) for name, radius in self.radii.items()}
        return super().to_json() | {"radii": radii}


class SetBalance(_Edit, frozen=True, tag="balance"):
    """Class shares for the paper's pipeline, or with None those counted on the hand labels."""

    shares: tuple[float, ...] | None

    @property
    def about(self) -> Subject:
        return Subject("class balance", frozenset([("balance",)]))

    def apply(self, state: SessionState) -> tuple[SessionState, Edit]:
        workspace, shares = state.workspace, self.shares
        if shares is not None:
            shares = tuple(checked_shares(shares, workspace.classes, "the session").tolist())
        made = replace(workspace, balance=shares)
        return state.with_workspace(made), SetBalance(workspace.balance)


class Switch(_Edit, frozen=True, tag="switch"):
    """Switch a source off (its votes stay known) or on again."""

    name: str = msgspec.field(name="source")
    on: bool

    @property
    def about(self) -> Subject:
        words = f"{'on' if self.on else 'off'} {self.name}"
        return Subject(words, frozenset([("switch", self.name)]), self.name)

    def apply(self, state: SessionState) -> tuple[SessionState, Edit]:
        source = known(state.workspace, self.name)
        made = state.workspace.with_source(replace(source, is_on=bool(self.on)))
        return state.with_workspace(made), Switch(self.name, source.is_on)


class Label(_Edit, frozen=True, tag="label"):
    """A label by one labeller for one row, or with None a label taken back."""

    file: str
    row: str
    label: str | None
    by: str | None = None
    chosen: str | None = None
    at: float = msgspec.field(default_factory=time.time)
    content: str | None = None  # fingerprint of the row, to find it where ids are only positions

    @property
    def about(self) -> Subject:
        key = ("label", self.file, self.row, self.by or "")
        return Subject(f"label of {self.row}", frozenset([key]))

    def apply(self, state: SessionState) -> tuple[SessionState, Edit]:
        made, (inverse,) = _labelled(state, [self])
        return made, inverse

    def record(self, state: SessionState) -> tuple[Place, str | None, Record | None]:
        """The row, the labeller, and what is said of the row; None takes it back."""
        place = state.names.find(self.file, self.row)
        if place is None:
            raise AlignmentError(
                f"no row {self.row!r} in {self.file}; give the id of one of its rows"
            )
        if self.label is None:
            return place, self.by, None
        classes = state.workspace.classes
        if not isinstance(self.label, str) or self.label not in classes:
            where = f"to label the row with id {self.row!r} with"
            raise UnknownName.of("class", self.label, classes, where)
        return place, self.by, Record(classes.index(self.label), self.by, self.chosen, self.at)


class SetVotes(_Edit, frozen=True, tag="votes", eq=False):
    """Replace one source's votes, or add a source; a split not given keeps its votes, or abstains."""

    name: str
    votes: tuple[Any, ...]  # per split: class indices with −1, or names with None; None: not given
    place: int | None = None  # where a source taken away stood
    settings: tuple[Setting, bool, Setting] | None = None  # of one that comes back, as in `Source`

    @property
    def about(self) -> Subject:
        return Subject(f"votes of {self.name}", frozenset([("votes", self.name)]), self.name)

    def apply(self, state: SessionState) -> tuple[SessionState, Edit]:
        workspace = state.workspace
        old = workspace.source(self.name)
        own = []
        for at, split in enumerate(workspace.splits):
            given = self.votes[at] if at < len(self.votes) else None
            if given is None and old is not None:
                own.append(old.own[at])
                continue
            votes = np.full(split.n_rows, ABSTAIN) if given is None else given
            own.append(checked_column(self.name, votes, split.n_rows, workspace.classes))
        settings = self.settings or ((AUTO, True, AUTO) if old is None else settings_of(old))
        loans = workspace.near.lend(own)
        made = workspace.with_source(Source(self.name, loans, *settings))
        if old is None and self.place is not None:
            order = list(made.sources[:-1])
            order.insert(self.place, made.sources[-1])
            made = replace(made, sources=tuple(order))
        inverse: Edit = Remove(self.name) if old is None else SetVotes(self.name, old.own)
        return state.with_workspace(made), inverse

    def to_json(self) -> dict[str, Any]:
        return {"kind": "votes", "source": self.name}


class Remove(_Edit, frozen=True, tag="remove"):
    """Forget a source."""

    name: str = msgspec.field(name="source")

    @property
    def about(self) -> Subject:
        return Subject(f"remove {self.name}", frozenset([("votes", self.name)]), self.name)

    def apply(self, state: SessionState) -> tuple[SessionState, Edit]:
        workspace = state.workspace
        gone = known(workspace, self.name)
        kept = tuple(each for each in workspace.sources if each is not gone)
        place = workspace.sources.index(gone)
        inverse = SetVotes(self.name, gone.own, place, settings_of(gone))
        return state.with_workspace(replace(workspace, sources=kept)), inverse


class Several(_Edit, frozen=True, tag="several", eq=False):
    """Edits made in one step."""

    edits: tuple[Any, ...]
    words: str = "several"

    @property
    def about(self) -> Subject:
        keys: frozenset[Key] = frozenset().union(*(each.about.touches for each in self.edits))
        return Subject(self.words, keys)

    def apply(self, state: SessionState) -> tuple[SessionState, Edit]:
        inverses: list[Edit] = []
        for labels, group in groupby(self.edits, lambda each: isinstance(each, Label)):
            if labels:
                state, undone = _labelled(state, list(group))
                inverses += undone
                continue
            for edit in group:
                state, inverse = edit.apply(state)
                inverses.append(inverse)
        return state, Several(tuple(reversed(inverses)), self.words)

    def to_json(self) -> dict[str, Any]:
        edits = [each.to_json() for each in self.edits]
        return {"kind": "several", "what": self.words, "edits": edits}


class Append(_Edit, frozen=True, tag="append", eq=False):
    """Add train rows, with a vote of every source (switched off ones too) and a vector each."""

    rows: Split

    @property
    def about(self) -> Subject:
        return Subject(f"append {self.rows.n_rows} rows", frozenset([("rows",)]))

    def apply(self, state: SessionState) -> tuple[SessionState, Edit]:
        workspace = state.workspace
        before = workspace.split(TRAIN, every=True)
        if self.rows.votes.sources != before.votes.sources:
            raise AlignmentError(
                f"appended rows need votes of the sources {list(before.votes.sources)[:8]}, "
                f"got {list(self.rows.votes.sources)[:8]}"
            )
        rows = with_own_names(state, self.rows)
        # true labels of train rows are never read
        grown = before.followed_by(Split.of_checked(rows.votes, rows.vectors, None, rows.ids))
        near = workspace.near.append(rows, grown)
        own = [
            (column_of(grown, at), *source.own[1:]) for at, source in enumerate(workspace.sources)
        ]
        sources = tuple(
            replace(source, loans=loans)
            for source, loans in zip(workspace.sources, near.lend_all(own), strict=True)
        )
        records = state.records.resized(grown.n_rows)
        splits = (grown, *workspace.splits[1:])
        made = replace(workspace, splits=splits, sources=sources, labels=records.labels, near=near)
        return SessionState.of(made, records, RowNames.of(splits, state.names.files)), Cut(state)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "append", "rows": self.rows.n_rows}


class Cut(_Edit, frozen=True, tag="rows", eq=False):
    """Other rows again, with the votes they had then, and all that was decided since."""

    state: SessionState

    @property
    def about(self) -> Subject:
        return Subject("rows taken off again", frozenset([("rows",)]))

    def apply(self, state: SessionState) -> tuple[SessionState, Edit]:
        now, then = state.workspace, self.state.workspace
        sources = [replace(each, loans=known(then, each.name).loans) for each in now.sources]
        records = state.records.resized(self.state.n_train)
        made = replace(then, sources=tuple(sources), balance=now.balance)
        return SessionState.of(made, records, self.state.names), Cut(state)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "rows", "rows": self.state.n_train}


Edit = Radii | SetBalance | Switch | Label | SetVotes | Remove | Several | Append | Cut
"""One decision: `about` says of what, `apply` gives the next state and the edit that takes it back."""


def edit_from_json(record: Mapping[str, Any]) -> Edit | None:
    """The edit a record of the log stands for; None for one that is not replayed."""
    kind = record.get("kind")
    if kind in ("votes", "remove", "append", "rows"):
        return None
    if kind == "several":
        kept = tuple(filter(None, map(edit_from_json, record["edits"])))
        return Several(kept, str(record.get("what", "several"))) if kept else None
    try:
        found: Edit = msgspec.convert(record, Radii | SetBalance | Switch | Label)
    except msgspec.ValidationError as error:
        raise ParameterError(
            f"an edit of the kind {kind!r} cannot be read ({error}); update epoxy to read it"
        ) from None
    return found


def simple_edits(edit: Edit | None) -> list[Edit]:
    """The edits an edit is made of, each about one thing."""
    if isinstance(edit, Several):
        return [simple for each in edit.edits for simple in simple_edits(each)]
    if isinstance(edit, Radii):
        return [Radii({name: far}, edit.words, edit.tuned) for name, far in edit.radii.items()]
    return [] if edit is None else [edit]


def several(edits: Sequence[Edit], words: str) -> Edit:
    """One edit as it is, more than one as one step."""
    return edits[0] if len(edits) == 1 else Several(tuple(edits), words)


def _labelled(state: SessionState, edits: Sequence[Label]) -> tuple[SessionState, list[Label]]:
    """The state after labels given in order, and for each the edit that takes it back."""
    records, before = state.records.replaced([each.record(state) for each in edits])
    classes = state.workspace.classes
    inverses = [
        Label(each.file, each.row, None, each.by, None, 0.0, each.content)
        if old is None
        else Label(
            each.file, each.row, classes[old.label], each.by, old.chosen, old.at, each.content
        )
        for each, old in zip(edits, before)
    ]
    return state.with_records(records), inverses


def settings_of(source: Source) -> tuple[Setting, bool, Setting]:
    """What was decided of a source: its radius, its switch, and the radius tuning chose."""
    return source.radius, source.is_on, source.tuned


def known(workspace: Workspace, name: str) -> Source:
    """A source by name."""
    found = workspace.source(name)
    if found is None:
        raise UnknownName.of("source", name, [each.name for each in workspace.sources])
    return found


def checked_column(source: str, column: Any, n_rows: int, classes: tuple[str, ...]) -> np.ndarray:
    """Votes of one source, given as indices or names, as a checked column."""
    raw = np.asarray(column)
    if raw.shape != (n_rows,):
        raise AlignmentError(
            f"source {source!r} needs one vote per row, got shape {raw.shape} for {n_rows} rows"
        )
    if raw.dtype.kind not in "iu":
        position: dict[Any, int] = {name: at for at, name in enumerate(classes)}
        position[None] = ABSTAIN
        try:
            raw = np.array([position[each] for each in raw.tolist()], dtype=np.int64)
        except KeyError as error:
            raise VoteError(
                f"source {source!r} votes {error.args[0]!r}; expected one of {list(classes)} or None"
            ) from None
    if len(classes) <= 127 and n_rows and raw.min() >= ABSTAIN and raw.max() < len(classes):
        return raw.astype(np.int8)  # checked; what follows is for other sizes and for wrong votes
    return np.ascontiguousarray(Votes(raw[:, None], [source], classes).matrix[:, 0])


def with_own_names(state: SessionState, rows: Split) -> Split:
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
    train, *others = state.workspace.splits
    taken = mine = set(_names_of(train))
    for at, split in enumerate(others, 1):
        theirs = set(_names_of(split))
        is_apart = state.names.files[at] != state.names.files[TRAIN]
        if not (is_apart and (_only_counts(split) or theirs & mine)):  # an id may be in both else
            taken = taken | theirs
    both = [name for name in names if name in taken]
    if both and _only_counts(rows):
        free = (each for each in count(train.n_rows) if str(each) not in taken)
        ids = np.array(list(islice(free, rows.n_rows)))
        return Split.of_checked(rows.votes, rows.vectors, rows.y, ids, rows.chosen)
    if both:
        raise AlignmentError(
            f"{len(both)} of the {rows.n_rows} appended rows have the id of a row that is there: "
            f"{both[:5]}; leave those out, or give them ids of their own"
        )
    return rows


def _names_of(split: Split) -> list[str]:
    return list(map(str, np.asarray(split.ids).tolist()))


def _only_counts(split: Split) -> bool:
    """Whether ids are the positions of rows, as they are where none were given."""
    return np.array_equal(np.asarray(split.ids), np.arange(split.n_rows))


def votes_of(lf: Any, rows: Any, state: SessionState) -> SetVotes:
    """The edit that adds a function's votes on a session's rows (one frame, or one for each split)."""
    classes = state.workspace.classes
    if isinstance(lf, Declared) and isinstance(lf.form, Like):
        return SetVotes(lf.name, like_votes(lf, state.names, state.workspace.near, classes))
    if rows is None:
        raise ParameterError(
            "add votes on rows, and this session was given none; "
            "give them: Session(train, dev, rows=(train_frame, dev_frame)), or add(lf, rows=…)"
        )
    frames = rows if isinstance(rows, tuple) else (rows,)
    columns = tuple(apply([lf], each, classes=classes).matrix[:, 0] for each in frames)
    return SetVotes(as_labeling_function(lf).name, columns)


def like_votes(
    like: Declared, names: RowNames, near: Neighbourhood, classes: tuple[str, ...]
) -> tuple[np.ndarray, ...]:
    """A column of class indices for every split: the label within the radius of an example, else −1."""
    check_declared([as_labeling_function(like)], classes)
    places = places_of(like, names)
    far = nearest_of(near, places, f"labeling function {like.name!r}")
    vote = classes.index(like.form.label)
    columns = [
        np.where(reaches(like.form.radius, each), vote, ABSTAIN).astype(np.int8) for each in far
    ]
    if len(classes) > 127:
        columns = [each.astype(np.int16) for each in columns]
    for at, row in places:  # a row is like itself, with or without a direction
        columns[at][row] = vote
    return tuple(columns)


def places_of(like: Declared, names: RowNames) -> list[Place]:
    """Where the example rows are, in whichever file."""
    found = []
    for row in like.form.rows:
        places = (names.find(file, row) for file in dict.fromkeys(names.files))
        place = next((each for each in places if each is not None), None)
        if place is None:
            raise UnknownName(
                f"labeling function {like.name!r} is like row {row!r}, and no row has that id; "
                "give ids of rows that are in the rows file"
            )
        found.append(place)
    return found


def nearest_of(near: Neighbourhood, places: Sequence[Place], who: str) -> list[np.ndarray]:
    """How far every row of every split is from the nearest of some rows."""
    vectors = vectors_at(near, places, who)
    far = [np.full(size, np.inf, np.float32) for size in near.sizes]
    if not len(vectors):
        return far
    examples = Space(vectors, near.metric)
    assert near.spaces is not None
    for at, space in enumerate(near.spaces):
        found = nearest_rows(space.points, examples.points, 1, metric=near.metric)[1][:, 0]
        rows = near.places[at]
        far[at][slice(None) if rows is None else rows] = found[space.node]
    return far


def vectors_at(near: Neighbourhood, places: Sequence[Place], who: str) -> np.ndarray:
    """The vectors of some rows; those without a direction are left out."""
    if near.spaces is None:
        raise VectorError(
            f"{who} needs vectors, and these rows have none; name an encoder under [vectors], "
            "or give the splits vectors"
        )
    found = []
    for at, row in places:
        kept = near.places[at]
        inside = row if kept is None else int(np.searchsorted(kept, row))
        if kept is None or (inside < len(kept) and kept[inside] == row):
            found.append(near.spaces[at].vectors[inside])
    return np.array(found, dtype=np.float32)
