"""Votes on the rows of a block: by functions in a process with limits, by examples, or ready-made."""

from __future__ import annotations

import hashlib
import json
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CodeError, EpoxyError, UnknownName, VectorError
from ..functions.apply import Failure, check_declared
from ..functions.declare import Like
from ..functions.define import as_labeling_function
from ..neighbors.knn import nearest_rows
from ..progress import Progress, silent
from ..project.settings import Project
from ..running import Limits, Loaded, Runner
from ..votes import ABSTAIN
from .lenders import with_direction
from .table import Blocks

AT_ONCE = 20_000
"""Rows that travel to the functions' process at a time."""


@dataclass(frozen=True)
class Functions:
    """The labeling functions of a project by their source, so that they can travel."""

    folder: str
    files: tuple[tuple[str, str], ...]  # name within the folder, and text
    names: tuple[str, ...]
    meanings: tuple[str, ...]  # fingerprints
    limits: Limits
    id: str | None = None  # the column that names rows

    @classmethod
    def of(cls, project: Project, loaded: Loaded, limits: Limits) -> Functions:
        """What lfs.py defines, with all it imports of its folder."""
        home = project.folder.resolve()
        files = tuple(
            (str(path.relative_to(home)), path.read_text("utf-8"))
            for path in sorted(loaded.files)
            if path.is_relative_to(home)
        )
        # a function whose meaning cannot be hashed votes anew in every run
        known = loaded.fingerprints
        meanings = tuple(known[name] or uuid.uuid4().hex for name in loaded.names)
        return cls(str(home), files, loaded.names, meanings, limits, project.id)

    def array_of(self, name: str, classes: Sequence[str]) -> str:
        """What the votes of a function are called in a table."""
        text = "\n".join([name, self.meanings[self.names.index(name)], *classes])
        return f"votes-{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


_running: dict[Functions, Runner] = {}


def _runner_of(functions: Functions) -> Runner:
    """The process that runs these functions, one for as long as this process lasts."""
    if functions not in _running:
        close()
        made = Runner(_home_of(functions), functions.limits)
        _check_same(functions, made.load())
        _running[functions] = made
    return _running[functions]


def close() -> None:
    """End the process that runs functions here."""
    while _running:
        _running.popitem()[1].close()


def _home_of(functions: Functions) -> Path:
    """The project folder where the texts there are those that travelled, else a folder made of these."""
    home = Path(functions.folder)
    if not all(_reads(home / name, text) for name, text in functions.files):
        home = Path(tempfile.mkdtemp(prefix="epoxy-functions-"))
        for name, text in functions.files:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text, "utf-8")
    return home


def _reads(path: Path, text: str) -> bool:
    try:
        return path.read_text("utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False


def _check_same(functions: Functions, loaded: Loaded) -> None:
    """Refuse functions that are others here than where the run began: their votes would be, too."""
    known = loaded.fingerprints
    pairs = zip(functions.names, functions.meanings)
    others = [name for name, meaning in pairs if (known.get(name) or meaning) != meaning]
    if loaded.names != functions.names or others:
        shown = others or sorted({*loaded.names} ^ {*functions.names})
        raise CodeError(
            f"lfs.py makes other functions of {shown} when it is loaded again: what it reads from files, "
            "the environment or the clock decides what they are; write it into lfs.py, or read it "
            "where the function runs"
        )


def ask(
    table: Blocks,
    functions: Functions,
    names: Sequence[str],
    classes: tuple[str, ...],
    progress: Progress = silent,
) -> list[Failure]:
    """Ask functions about every row of a table; those that failed whole have no array there.

    Votes that are there are not asked for again, block by block.
    """
    arrays = {name: functions.array_of(name, classes) for name in names}
    missing = [name for name in names if not table.has(arrays[name])]
    if not missing:
        return []
    into = [arrays[name] for name in missing]
    given: dict[str, Any] = {"functions": functions, "names": missing, "classes": classes}
    told = table.each(
        vote_block, "rows", "place", into=into, again=False, progress=progress, **given
    )
    failures: dict[str, Failure] = {}
    for each in (json.loads(text) for (text,) in told):
        for about in each:
            failure = Failure(**{**about, "rows": tuple(about["rows"])})
            known = failures.setdefault(failure.name, failure)
            if failure.kind != "raised" and known.kind == "raised":
                failures[failure.name] = failure
    for name, failure in failures.items():
        if failure.kind != "raised":
            table.drop(arrays[name])
    return list(failures.values())


def vote_block(
    rows: Any,
    place: np.ndarray,
    *,
    functions: Functions,
    names: list[str],
    classes: tuple[str, ...],
) -> tuple[Any, ...]:
    """A column of each function, and what failed, as JSON."""
    columns: np.ndarray = np.full((len(names), len(rows)), ABSTAIN, dtype=vote_dtype(classes))
    failures: dict[str, Failure] = {}
    for start in range(0, len(rows), AT_ONCE):
        part = rows.slice(start, AT_ONCE)
        whole = [each for each in names if each not in failures or failures[each].kind == "raised"]
        found = _runner_of(functions).vote(whole, part, classes)
        for name, column in found.columns.items():
            columns[names.index(name), start : start + len(part)] = column
        ids = None if functions.id is None else part.column(functions.id)
        for each in found.failures:
            named = each.named(ids)
            told = replace(named, rows=tuple(place[start + at].item() for at in each.rows))
            if each.name not in failures or each.kind != "raised":
                failures[each.name] = told
    return *columns, json.dumps([asdict(each) for each in failures.values()])


@dataclass(frozen=True, eq=False)
class Examples:
    """One function of example rows, with the vectors of these."""

    name: str
    vote: int
    radius: float
    ids: tuple[str, ...]
    vectors: np.ndarray  # (n_examples, dimension) of those with a direction
    metric: str
    dtype: Any

    @property
    def array(self) -> str:
        """What its votes are called in a table."""
        text = repr((self.name, self.vote, self.radius, self.ids, self.metric)).encode()
        text += np.ascontiguousarray(self.vectors).tobytes()
        return f"like-{hashlib.blake2b(text, digest_size=8).hexdigest()}"


def near_block(
    rows: Any, place: np.ndarray, vectors: np.ndarray, *, like: Examples, column: str | None
) -> Any:
    """Votes on rows within the radius of an example; a row is like itself, with or without a direction."""
    votes = np.full(len(vectors), ABSTAIN, dtype=like.dtype)
    some, asking = with_direction(vectors, like.metric)
    if len(some) and len(like.vectors):
        train = with_direction(like.vectors, like.metric)[1]
        far = nearest_rows(asking, train, 1, metric=like.metric)[1][:, 0]
        votes[some[far <= like.radius]] = like.vote
    votes[find_block(rows, place, names=like.ids, column=column, start=0)] = like.vote
    return votes


def names_of(rows: Any, place: np.ndarray, column: str | None) -> Any:
    """What the rows of a block are called, as an array of text."""
    import pyarrow as pa

    if column is None:
        return pa.array(place).cast(pa.string())
    ids = rows.column(column).combine_chunks()
    if pa.types.is_floating(ids.type):
        return pa.array([str(each) for each in ids.to_pylist()], pa.string())
    return ids.cast(pa.string())


def find_block(
    rows: Any, place: np.ndarray, *, names: Sequence[str], column: str | None, start: int
) -> np.ndarray:
    """Which rows have one of some names, by their numbers in the table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.is_in(names_of(rows, place, column), value_set=pa.array(names, pa.string()))
    return start + np.flatnonzero(found.to_numpy(zero_copy_only=False))


def pick_block(
    rows: Any, place: np.ndarray, vectors: np.ndarray, *, names: list[str], column: str | None
) -> dict[str, np.ndarray]:
    """Vectors of rows by their names."""
    here = names_of(rows, place, column)
    found = find_block(rows, place, names=names, column=column, start=0)
    return {here[at].as_py(): vectors[at] for at in found.tolist()}


def examples_of(
    tables: Sequence[Blocks],
    likes: Mapping[str, Like],
    vectors: str | None,
    about: tuple[str | None, str, tuple[str, ...]],
) -> tuple[list[Examples], list[Failure]]:
    """Functions of example rows with the vectors of these, which are found in some tables."""
    if not likes:
        return [], []
    column, metric, classes = about
    names = sorted({row for each in likes.values() for row in each.rows})
    known: dict[str, np.ndarray] = {}
    for table in tables if vectors is not None else ():
        for found in table.list(
            pick_block, "rows", "place", str(vectors), names=names, column=column
        ):
            known = {**found, **known}
    made, failures = [], []
    for like in likes.values():
        try:
            check_declared([as_labeling_function(like)], classes)
            made.append(_examples(like, known, vectors, metric, classes))
        except EpoxyError as error:
            failures.append(Failure(like.name, (), str(error), kind="wrong"))
    return made, failures


def _examples(
    like: Like,
    known: Mapping[str, np.ndarray],
    vectors: str | None,
    metric: str,
    classes: tuple[str, ...],
) -> Examples:
    if vectors is None:
        raise VectorError(
            f"labeling function {like.name!r} needs vectors, and these rows have none; "
            "name an encoder under [vectors], or give the splits vectors"
        )
    for row in like.rows:
        if row not in known:
            raise UnknownName(
                f"labeling function {like.name!r} is like row {row!r}, and no row has that id; "
                "give ids of rows that are in the rows file"
            )
    every = np.stack([known[row] for row in like.rows])
    told = like.name, classes.index(like.label), like.radius, tuple(like.rows)
    return Examples(*told, every, metric, vote_dtype(classes))


def vote_dtype(classes: Sequence[str]) -> type:
    """The type of a column of votes."""
    return np.int8 if len(classes) <= 127 else np.int16
