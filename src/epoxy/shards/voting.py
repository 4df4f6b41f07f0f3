"""Votes on the train rows of every shard: by labeling functions in a process of their own, or ready-made."""

from __future__ import annotations

import hashlib
import json
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CodeError, EpoxyError
from ..functions.apply import Failure
from ..label_models.moments import Moments, moments
from ..neighbors import store
from ..project.settings import Project
from ..project.tables import votes_in
from ..running import Limits, Loaded, Runner
from ..votes import ABSTAIN, Votes
from .examples import Likes
from .joining import Joined, joined
from .parts import read_shard, table_of
from .run import Run
from .runner import Summary
from .scanning import hashes_of
from .shard import Kept, Shard

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


_running: dict[tuple[str, ...], Runner] = {}


def _runner_of(functions: Functions) -> Runner:
    """The process that runs these functions, one for as long as this process lasts."""
    key = (functions.folder, *functions.meanings)
    if key not in _running:
        close()
        made = Runner(_home_of(functions), functions.limits)
        _check_same(functions, made.load())
        _running[key] = made
    return _running[key]


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


def close() -> None:
    """End the processes that run functions here."""
    while _running:
        _running.popitem()[1].close()


@dataclass(frozen=True, eq=False)
class Voted:
    """Who voted, and how often each two met on train rows."""

    kept: Kept
    every: tuple[str, ...]  # all that were asked, in the order of what is kept
    sources: tuple[str, ...]  # those that answered
    moments: Moments
    failures: tuple[Failure, ...] = ()


def vote(
    run: Run,
    rows: Kept,
    given: Functions | Joined,
    classes: tuple[str, ...],
    sources: tuple[str, ...],
    likes: Likes,
) -> Voted:
    """Votes of all sources on all train rows, source by source in each shard's file."""
    do = vote_shard if isinstance(given, Functions) else take_shard
    stage = run.stage("votes", do, rows, given, sources, classes, run.key, likes)
    voted = np.ones(len(sources), dtype=bool)
    failures: dict[str, Failure] = {}
    for each in stage:
        voted &= each["voted"]
        for told in json.loads(each["failures"].tobytes() or b"[]"):
            failures.setdefault(told["name"], Failure(**{**told, "rows": tuple(told["rows"])}))
    failures |= {each.name: each for each in likes.failures}
    if not voted.any():
        shown = "; ".join(map(str, list(failures.values())[:3]))
        raise EpoxyError(f"no labeling function could vote: {shown}")
    names = tuple(name for name, each in zip(sources, voted) if each)
    counted = run.stage("pairs", count_shard, stage.kept, np.flatnonzero(voted), names, classes)
    total = merged(counted, names, classes)
    return Voted(stage.kept, sources, names, total, tuple(failures.values()))


def vote_shard(
    shard: Shard,
    kept: Kept,
    rows: Kept,
    functions: Functions,
    sources: tuple[str, ...],
    classes: tuple[str, ...],
    key: str,
    likes: Likes,
) -> Summary:
    """Ask functions about the train rows; columns of functions that did not change are read back."""
    train = rows.load(shard, "train")
    matrix: np.ndarray = np.full(
        (len(sources), shard_train(train)), ABSTAIN, dtype=vote_dtype(classes)
    )
    voted = np.array([name not in {each.name for each in likes.failures} for name in sources])
    for name, column in likes.on_shard(shard, train, matrix.dtype).items():
        matrix[sources.index(name)] = column
    places = [_place(functions, name, key, shard, classes) for name in sources]
    asked = []
    for at, place in enumerate(places):
        if sources[at] in likes.names:
            continue
        found = store.load(place, ("votes",))
        if found is not None and found["votes"].shape == matrix[at].shape:
            matrix[at] = found["votes"]
        else:
            asked.append(at)
    failures = _ask(shard, functions, [sources[at] for at in asked], train, matrix, classes)
    for at in asked:
        failure = failures.get(sources[at])
        if failure is None:
            store.save(places[at], {"votes": matrix[at]})
        elif failure.kind != "raised":
            voted[at] = False
    kept.save(shard, votes=matrix)
    told = json.dumps([asdict(each) for each in failures.values()]).encode()
    return {"voted": voted, "failures": np.frombuffer(told, dtype=np.uint8)}


def _ask(
    shard: Shard,
    functions: Functions,
    names: Sequence[str],
    train: np.ndarray,
    matrix: np.ndarray,
    classes: tuple[str, ...],
) -> dict[str, Failure]:
    """Fill the rows of `matrix` of some functions, so many rows at a time."""
    import pyarrow as pa

    failures: dict[str, Failure] = {}
    at = done = 0
    for batch in read_shard(shard, rows=AT_ONCE) if names else ():
        mine = train[at : at + len(batch)]
        table = pa.Table.from_batches([batch]).filter(pa.array(mine))
        here = slice(done, done + table.num_rows)
        whole = [name for name in names if name not in failures or failures[name].kind == "raised"]
        found = _runner_of(functions).vote(whole, table, classes)
        for name, column in found.columns.items():
            matrix[functions.names.index(name), here] = column
        ids = None if functions.id is None else table.column(functions.id)
        for each in found.failures:
            places = tuple(int(np.flatnonzero(mine)[row]) + at + shard.start for row in each.rows)
            told = replace(each.named(ids), rows=places)
            failures.setdefault(each.name, told)
            if each.kind != "raised":
                failures[each.name] = told
        at, done = at + len(batch), here.stop
    return failures


def vote_on(
    functions: Functions,
    table: Any,
    names: Sequence[str],
    classes: tuple[str, ...],
    liked: Mapping[str, np.ndarray],
) -> tuple[np.ndarray, Failure | None]:
    """Votes of functions on the rows of a table in memory, (n_names, n_rows), or why there are none.

    `liked` are those of functions of example rows.
    """
    asked = [name for name in names if name not in liked]
    columns, failures = dict(liked), tuple[Failure, ...]()
    if asked:
        found = _runner_of(functions).vote(asked, table, classes)
        columns, failures = {**columns, **found.columns}, found.failures
    lost = next((each for each in failures if each.name not in columns), None)
    if lost is not None:
        return np.empty((0, table.num_rows)), lost
    return np.stack([columns[name] for name in names]), None


def _place(
    functions: Functions, name: str, key: str, shard: Shard, classes: tuple[str, ...]
) -> Path:
    """Where one function's votes on one shard are kept, whatever the other functions are."""
    meaning = functions.meanings[functions.names.index(name)]
    parts = "\n".join([meaning, key, f"{shard.start} {shard.stop}", *classes])
    hashed = hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()
    return Path(functions.folder) / ".epoxy" / "votes" / f"{hashed}.npz"


def take_shard(
    shard: Shard,
    kept: Kept,
    rows: Kept,
    other: Joined,
    sources: tuple[str, ...],
    classes: tuple[str, ...],
    key: str,
    likes: Likes,
) -> Summary:
    """Votes that came ready-made, joined by id."""
    train = rows.load(shard, "train")
    hashes = rows.load(shard, "ids")[train]
    places = np.flatnonzero(train)

    def name_of(row: int) -> Any:
        return table_of(shard, [other.id]).column(0)[int(places[row])].as_py()

    matrix = _joined_votes(hashes, other, sources, classes, name_of)
    kept.save(shard, votes=matrix)
    return {"voted": np.ones(len(sources), dtype=bool), "failures": np.empty(0, np.uint8)}


def votes_by_id(
    other: Joined, ids: np.ndarray, sources: tuple[str, ...], classes: tuple[str, ...]
) -> np.ndarray:
    """Ready-made votes on a few rows that the driver holds; (n_sources, n_rows)."""
    import pyarrow as pa

    names = pa.array([str(each) for each in ids.tolist()], pa.string())
    return _joined_votes(hashes_of(names), other, sources, classes, lambda row: names[row].as_py())


def _joined_votes(
    hashes: np.ndarray,
    other: Joined,
    sources: tuple[str, ...],
    classes: tuple[str, ...],
    name_of: Callable[[int], Any],
) -> np.ndarray:
    matrix: np.ndarray = np.full((len(sources), len(hashes)), ABSTAIN, dtype=vote_dtype(classes))
    for mine, table in joined(hashes, other, sources, name_of):
        for at, name in enumerate(sources):
            matrix[at, mine] = votes_in(table.column(name), name, classes)
    return matrix


def count_shard(
    shard: Shard,
    kept: Kept,
    votes: Kept,
    columns: np.ndarray,
    sources: tuple[str, ...],
    classes: tuple[str, ...],
) -> Summary:
    """How often each two (source, class) pairs meet on the train rows of a shard."""
    return as_summary(moments(as_votes(votes.load(shard, "votes")[columns], sources, classes)))


def as_votes(matrix: np.ndarray, sources: tuple[str, ...], classes: tuple[str, ...]) -> Votes:
    """Votes kept source by source, (n_sources, n_rows), which were checked when they were made."""
    return Votes.of_checked(matrix.T, sources, classes)


def as_summary(found: Moments) -> Summary:
    """Moments as the arrays they are."""
    return {
        "n_rows": np.array(found.n_rows),
        "source": found.source,
        "named": found.named,
        "joint": found.joint,
    }


def merged(parts: Any, sources: tuple[str, ...], classes: tuple[str, ...]) -> Moments:
    """The sum of moments of shards."""
    total = None
    for each in parts:
        names = ("source", "named", "joint")
        made = Moments(int(each["n_rows"]), sources, classes, *(each[name] for name in names))
        total = made if total is None else total + made
    assert total is not None
    return total


def shard_train(train: np.ndarray) -> int:
    """How many rows of a shard are train rows."""
    return int(np.count_nonzero(train))


def vote_dtype(classes: tuple[str, ...]) -> type:
    """The type of a column of votes."""
    return np.int8 if len(classes) <= 127 else np.int16
