"""Functions that are not written yet: what one would do, the code it would be, and writing it to lfs.py.

Words and example rows vote here. A pattern may take for ever, and code may do anything: both run in a
worker process with limits, from a file of their own; code runs as lfs.py would with it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnostics import interval
from ..errors import CodeError, EpoxyError, ParameterError, StoreError
from ..functions.kinds import Form, Python, form_of
from ..functions.lfs_file import FunctionsFile, call_code
from ..running import Limits, Runner
from ..session.edits import Edit, Remove, SetVotes, known, places_of, several, votes_of
from ..session.state import Trial, Written
from ..votes import ABSTAIN
from ..workspace import TRAIN
from .search import in_conflict, nobody_votes

if TYPE_CHECKING:
    from ..project.project import Folder
    from ..session.session import Session
    from ..session.state import Change

SECONDS = 5.0
"""A draft's share of the time a function has, for every 10,000 rows."""
SHOWN = 8


@dataclass(frozen=True)
class DraftError:
    """Why a draft does not vote; the line counts from the first of its own code."""

    message: str
    line: int | None = None


@dataclass(frozen=True)
class Flip:
    """A train row whose label the draft would change."""

    row: int
    text: str
    before: str | None
    after: str | None


@dataclass(frozen=True, eq=False)
class Draft:
    """A function that nobody saved: what it would do."""

    name: str
    code: str
    """What saving would write."""
    error: DraftError | None = None
    edit: Edit | None = None
    trial: Trial | None = None
    """All that it would lead to; None where it does not vote."""
    votes: tuple[np.ndarray, ...] = ()  # per split, (n_rows,) class indices
    rows: int = 0
    """Train rows it votes on."""
    coverage: float = 0.0
    extended: float = 0.0
    """Shares of train rows with its own vote, and with one that is lent as well."""
    right: dict[str, Any] | None = None
    """How often it is right on rows labelled by hand, its examples left out; value, low, high, n."""
    conflicts: int = 0
    overlaps: int = 0
    """Train rows on which others vote otherwise, and on which others vote."""
    unheard: bool = False
    """Whether the model would not hear it, because vectors contradict it."""
    flips: tuple[Flip, ...] = ()
    flipped: int = 0
    examples: tuple[tuple[int, str, str | None], ...] = ()
    """Row numbers it votes on, with text and hand label."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it votes."""
        return self.error is None

    def __repr__(self) -> str:
        if self.error is not None:
            return f"Draft({self.name}: {self.error.message})"
        heard = ", not heard, since vectors contradict it" if self.unheard else ""
        return f"Draft({self.name}: votes on {self.rows} rows{heard}, {self.flipped} labels would change)"


def draft(
    session: Session, definition: Mapping[str, Any] | Form, name: str | None, replaces: str | None
) -> Draft:
    """What a function would do in place of another, or beside them all."""
    start = time.perf_counter()
    code = ""
    try:
        made = form_of(definition)
        file = _file(session)
        name = replaces or file.name_of(made) if name is None else name
        _check_name(session, name, replaces)
        code = file.code_of(made, name)[1]
        votes = _votes(session, file, made, name, replaces)
    except CodeError as error:
        return Draft(name or "", code, DraftError(error.reason, error.line))
    except EpoxyError as error:
        return Draft(name or "", code, DraftError(str(error)))
    edits: list[Edit] = [SetVotes(name, votes)]
    if replaces is not None and replaces != name:
        edits.append(Remove(replaces))
    edit = several(edits, f"draft {name}")
    trial = session.trial(edit)
    return _told(session, Draft(name, code, edit=edit, trial=trial, votes=votes), made, start)


def save(
    session: Session, definition: Mapping[str, Any] | Form, name: str, replaces: str | None
) -> Change | None:
    """Write a function to lfs.py, code only after it ran, and vote with it."""
    home, made = session.need_folder("save_function"), form_of(definition)
    file = _file(session)
    _check_name(session, name, replaces)
    content = _content(file, made, name, replaces)
    if made.kind == "python":
        _load(home, content, made, name)
    else:
        _votes(session, file, made, name, replaces)
    file.write(content, file.hash)
    return home.reload(session, Written(file.content, content))


def save_code(session: Session, text: str, expecting: str) -> Change | None:
    """Write lfs.py whole, as an editor does: whether it runs is found out afterwards."""
    home, file = session.need_folder("save_code"), _file(session)
    content = file.encoded(text)
    file.write(content, expecting, checked=False)
    return home.reload(session, Written(file.content, content))


def _told(session: Session, found: Draft, made: Form, start: float) -> Draft:
    """The draft with its numbers."""
    trial, votes, classes = found.trial, found.votes, session.classes
    assert trial is not None
    cast = votes[TRAIN] != ABSTAIN
    workspace = trial.state.workspace
    others = [each.own[TRAIN] for each in workspace.active if each.name != found.name]
    hand, said = np.concatenate(workspace.labels.y), np.concatenate(votes)
    active, extended = trial.outcome.workspace.names, trial.outcome.extended[TRAIN]
    after = extended.columns[active.index(found.name)] if found.name in active else None

    def text(row: int) -> str:
        return "" if session.texts is None else session.text(row)

    def named(decided: tuple[np.ndarray, ...], row: int) -> str | None:
        return classes[int(decided[TRAIN][row])] if decided else None

    old, new = session.outcome.decided, trial.outcome.decided
    judged = (said != ABSTAIN) & (hand != ABSTAIN)
    if made.kind == "like":  # it was made from these rows
        examples = places_of(made.function(), session.state.names)
        judged[[session.number(place) for place in examples]] = False
    return replace(
        found,
        rows=int(cast.sum()),
        coverage=float(cast.mean()),
        extended=0.0 if after is None else float((after != ABSTAIN).mean()),
        right=interval(int((said[judged] == hand[judged]).sum()), int(judged.sum())),
        conflicts=int((cast & in_conflict([*others, votes[TRAIN]], len(cast))).sum()),
        overlaps=int((cast & ~nobody_votes(others, len(cast))).sum()),
        unheard=found.name in trial.outcome.unheard,
        flips=tuple(
            Flip(row, text(row), named(old, row), named(new, row))
            for row in trial.change.flipped[:SHOWN].tolist()
        ),
        flipped=len(trial.change.flipped),
        examples=tuple(
            (row, text(row), None if hand[row] < 0 else classes[hand[row]])
            for row in np.flatnonzero(said != ABSTAIN)[:SHOWN].tolist()
        ),
        seconds=time.perf_counter() - start,
    )


# running


def _votes(
    session: Session, file: FunctionsFile, made: Form, name: str, replaces: str | None
) -> tuple[np.ndarray, ...]:
    """A column for every split."""
    if made.kind in ("keywords", "like") or (made.kind == "regex" and session.folder is None):
        return votes_of(made.function(name), session.frames, session.state).votes
    home = session.need_folder("a draft of Python code")
    if made.kind == "regex":
        content = f"import epoxy\nf = {call_code(made, name, 'epoxy.regex')}\n".encode()
    else:
        content = _content(file, made, name, replaces)
    runner = _load(home, content, made, name)
    columns = []
    for table, ids in zip(home.rows.tables, home.rows.ids):
        done = runner.vote([name], table, home.project.classes)
        for failure in done.failures:
            line = failure.line_of(runner.file)
            told = str(failure.named(None if home.project.id is None else ids))
            raise CodeError(told, "", line and _within(content, made, name, line))
        columns.append(done.columns[name])
    return tuple(columns)


def _content(file: FunctionsFile, made: Form, name: str, replaces: str | None) -> bytes:
    """lfs.py with the function in it."""
    if replaces is None:
        return file.with_added(made, name)
    return file.with_changed(replaces, made, name)


def _load(home: Folder, content: bytes, made: Form, name: str) -> Runner:
    """A worker that has run some content as if it were lfs.py; errors count lines of the draft."""
    folder = home.project.folder
    if home.drafts is None:
        limits = Limits(min(SECONDS, home.project.seconds), home.project.memory)
        file = home.project.cache / f"draft-{uuid.uuid4().hex[:8]}.py"
        home.drafts = Runner(folder, limits, str(file.relative_to(folder)))
    place = folder / home.drafts.file
    try:
        place.write_bytes(content)
        home.drafts.load()
    except CodeError as error:
        line = None if error.line is None else _within(content, made, name, error.line)
        raise CodeError(error.reason, "" if line is None else "the draft", line) from None
    except OSError as error:
        raise StoreError(
            f"{place} cannot be written ({error.strerror}), so nothing can be drafted; "
            "make room, or make the project folder writable"
        ) from error
    finally:
        place.unlink(missing_ok=True)
    return home.drafts


def _within(content: bytes, made: Form, name: str, line: int) -> int | None:
    """A line of a file as a line of the draft's code in it; None for one before it."""
    if not isinstance(made, Python):
        return None
    end = FunctionsFile(Path("lfs.py"), content).function(name).end
    found = line - (end - (made.last_def.end_lineno or 1))
    return found if found > 0 else None


def _check_name(session: Session, name: str, replaces: str | None) -> None:
    if replaces is not None:
        known(session.state.workspace, replaces)
    if not isinstance(name, str) or not name.strip():
        raise ParameterError(f"a function is named by text, got {name!r:.60}; give it a name")
    if name != replaces and name in session.sources:
        raise ParameterError(
            f"there is a source named {name!r} already; choose another name, or replace it"
        )


def _file(session: Session) -> FunctionsFile:
    if session.folder is None:
        return FunctionsFile(Path("lfs.py"), b"import epoxy\n")
    return FunctionsFile.read(session.folder.functions)
