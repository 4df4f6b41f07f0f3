"""What is known of every row when functions are suggested, and which half of the rows may be used for what.

Functions are found on one half of the rows and judged on the other. Halves are told apart by a hash of
what a row says, so they stay the same from call to call, and rows that say the same are in one half: a
copy of a row is no witness for it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..engines import Outcome
from ..errors import FrameError
from ..loans import Neighbourhood
from ..neighbors import Graph
from ..numerics import log_odds
from ..votes import ABSTAIN
from ..workspace import TRAIN, HandLabels, Workspace
from .search import RowTexts

if TYPE_CHECKING:
    from ..session.verbs import SessionVerbs

HALVES = b"epoxy: halves of rows"


@dataclass(frozen=True, eq=False)
class Evidence:
    """Probabilities and hand labels of all rows, train rows first; both halves."""

    find: np.ndarray  # (n_rows,) bool: functions are found here, and judged on the others
    belief: (
        np.ndarray
    )  # (n_rows, n_classes): a trusted hand label, else the model; NaN: nobody knows
    held: (
        np.ndarray
    )  # (n_rows, n_classes): the model, without what it learned from that row's label
    hand: np.ndarray  # (n_rows,) trusted hand labels, −1 where there is none
    fair: np.ndarray  # (n_rows,) bool: labelled, and not because of what the row looked like

    @property
    def known(self) -> np.ndarray:
        """Rows of which something is believed; (n_rows,) bool."""
        return np.asarray(np.isfinite(self.belief[:, 0]))


def gather(outcome: Outcome, find: np.ndarray) -> Evidence:
    """What a model and hand labels say now."""
    labels, n_classes = outcome.workspace.labels, len(outcome.workspace.classes)
    usable = outcome.proba and not outcome.problem and _anybody(outcome.workspace)
    held = (
        np.concatenate(outcome.proba).astype(float)
        if usable
        else np.full((len(find), n_classes), np.nan)
    )
    numbers = _numbers(labels)
    left_out = np.full((labels.count, n_classes), np.nan)
    if outcome.held_out is not None and usable:
        left_out = outcome.held_out
    held[numbers] = left_out
    trusted = labels.noise == 0
    hand = np.full(len(find), ABSTAIN)
    hand[numbers[trusted]] = labels.labels[trusted]
    fair = np.zeros(len(find), dtype=bool)
    fair[numbers] = trusted & labels.representative
    belief = held.copy()
    belief[hand != ABSTAIN] = np.eye(n_classes)[hand[hand != ABSTAIN]]
    return Evidence(find, belief, held, hand, fair)


def _anybody(workspace: Workspace) -> bool:
    """Whether anybody says anything that a model could rest on."""
    own = (column for each in workspace.active for column in each.own)
    return workspace.labels.count > 0 or any((each != ABSTAIN).any() for each in own)


def _numbers(labels: HandLabels) -> np.ndarray:
    """Row numbers of labelled rows, in the order in which their labels are listed."""
    starts = np.concatenate([[0], np.cumsum([len(each) for each in labels.y])])
    parts = [labels.rows[at] + starts[at] for at in labels.order]
    return np.concatenate(parts).astype(np.intp)


def digests_of(session: SessionVerbs) -> np.ndarray:
    """A number for every row, read off what it says: its text, else its vector, else its name."""
    workspace = session.state.workspace
    said = _texts(session)
    parts = []
    for at, split in enumerate(workspace.splits):
        texts = [] if said is None or at >= len(said) else said[at][: split.n_rows]
        rest = list(_content(session, workspace, at))[len(texts) :]
        parts.append(_hashed([*(each.encode("utf-8", "surrogatepass") for each in texts), *rest]))
    return np.concatenate(parts)


def _texts(session: SessionVerbs) -> list[list[str]] | None:
    try:
        return None if session.texts is None else session.texts.column_texts()
    except FrameError:  # not a column of texts
        return None


def _content(session: SessionVerbs, workspace: Workspace, at: int) -> Iterable[bytes]:
    vectors = workspace.splits[at].vectors
    if vectors is not None:
        return (row.tobytes() for row in np.ascontiguousarray(vectors, dtype=np.float32))
    names = session.state.names
    n_rows = workspace.splits[at].n_rows
    return (
        "\n".join(names.name((at, row))).encode("utf-8", "surrogatepass") for row in range(n_rows)
    )


def _hashed(said: Iterable[bytes]) -> np.ndarray:
    raw = b"".join(hashlib.blake2b(each, digest_size=8, key=HALVES).digest() for each in said)
    return np.frombuffer(raw, dtype="<u8")


MOST_ROWS, MOST_TEXT = 60_000, 20_000
"""Rows that are read, and characters of each."""
FEWEST, SHARE, WIDEST = 4, 0.001, 0.5
"""A column is kept that holds at least so many rows, this share of them, and no more than that share."""
MOST_COLUMNS = 20_000
LONGEST = 30
_WORD = re.compile(r"\w+")
_STEM = (5, 8)  # letters of a stem
PATTERNS = {
    "url": r"https?://|www\.",
    "address": r"\w@\w",
    "mention": r"(?:^|\s)@\w",
    "tag": r"#\w",
    "price": r"[$£€]\s?\d",
    "percent": r"\d\s?%",
    "long_number": r"\d{5,}",
    "digit": r"\d",
    "exclamation": r"!",
    "exclamations": r"!{2,}",
    "question": r"\?",
    "ellipsis": r"\.{3}",
    "capitals": r"\b[A-Z]{4,}\b",
    "begins_small": r"^[a-z]",
}
"""Patterns that are tried as they are, in the case they are written in."""


@dataclass(frozen=True)
class Pattern:
    """A pattern, what it is called, and whether letters of any case match."""

    name: str
    pattern: str
    any_case: bool


@dataclass(frozen=True, eq=False)
class Wording:
    """Which rows hold which words and patterns."""

    rows: np.ndarray  # (n,) numbers of the rows that were read, ascending
    holds: Any  # (n, n_columns) sparse by columns, 1 where a row holds it
    words: tuple[str, ...]  # the first columns: words, and pairs of words with a space between
    patterns: tuple[Pattern, ...]  # the others


def read_wording(texts: RowTexts | None, sizes: list[int], first: np.ndarray) -> Wording | None:
    """The words of the rows; None where there is no column of texts.

    `first` puts all rows in an order: of too many those that stand first are read.
    """
    from scipy import sparse

    try:
        given = None if texts is None else texts.column_texts()
    except FrameError:  # not a column of texts
        given = None
    if given is None:
        return None
    number, said = _numbered(given, sizes)
    if len(number) > MOST_ROWS:
        kept = np.sort(np.argsort(first[number], kind="stable")[:MOST_ROWS])
        number, said = number[kept], [said[at] for at in kept]
    words, columns = _words(said)
    found = {Pattern(n, each, False): _matching(said, each) for n, each in PATTERNS.items()}
    found |= _stems(words, columns)
    found = {each: rows for each, rows in found.items() if _fits(len(rows), len(said))}
    every = [*columns, *found.values()]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in every])]).astype(np.int64)
    inside = np.concatenate(every) if every else np.zeros(0, dtype=np.int64)
    held = sparse.csc_matrix(
        (np.ones(len(inside), dtype=np.float32), inside, starts), shape=(len(said), len(every))
    )
    return Wording(number, held, words, tuple(found))


def _numbered(found: list[list[str]], sizes: list[int]) -> tuple[np.ndarray, list[str]]:
    """Row numbers and texts of the rows that came with cells."""
    number, said, start = [], list[str](), 0
    for texts, size in zip(found, sizes):
        number.append(start + np.arange(min(len(texts), size)))
        said += [text[:MOST_TEXT] for text in texts[:size]]
        start += size
    return np.concatenate(number), said


def _words(said: list[str]) -> tuple[tuple[str, ...], list[np.ndarray]]:
    """Words and pairs that are neither rare nor everywhere, and the rows that hold each, ascending."""
    tokens, singles = [], Counter[str]()
    for text in said:
        parts = [(m.group(), m.start(), m.end()) for m in _WORD.finditer(text.lower())]
        singles.update({word for word, _, _ in parts})
        tokens.append(parts)
    known = {w for w, n in singles.items() if n >= _fewest(len(said)) and _legible(w)}
    at: dict[str, list[int]] = {}
    for row, (text, parts) in enumerate(zip(said, tokens)):
        low = text.lower()
        held = {word for word, _, _ in parts if word in known}
        for (left, _, end), (right, start, _) in pairwise(parts):
            if start == end + 1 and low[end] == " " and left in known and right in known:
                held.add(f"{left} {right}")
        for word in held:
            at.setdefault(word, []).append(row)
    kept = [word for word, rows in at.items() if _fits(len(rows), len(said))]
    kept = sorted(sorted(kept), key=lambda word: -len(at[word]))[:MOST_COLUMNS]
    return tuple(kept), [np.array(at[word], dtype=np.int64) for word in kept]


def _stems(words: tuple[str, ...], columns: list[np.ndarray]) -> dict[Pattern, np.ndarray]:
    """Beginnings that three words or more share, and that hold clearly more rows than any of them."""
    sharing: dict[str, list[int]] = {}
    for column, word in enumerate(words):
        if word.isascii() and word.isalpha():
            for length in range(_STEM[0], min(_STEM[1], len(word)) + 1):
                sharing.setdefault(word[:length], []).append(column)
    found: dict[Pattern, np.ndarray] = {}
    seen: set[tuple[int, ...]] = set()
    for stem in sorted(sharing, key=lambda each: (-len(each), each)):  # the longest that says it
        members = tuple(sharing[stem])
        if len(members) < 3 or members in seen:
            continue
        seen.add(members)
        rows = np.unique(np.concatenate([columns[each] for each in members]))
        if len(rows) >= 1.2 * max(len(columns[each]) for each in members):
            found[Pattern(stem, rf"\b{stem}", True)] = rows
    return found


def _matching(said: list[str], pattern: str) -> np.ndarray:
    search = re.compile(pattern).search
    return np.array([row for row, text in enumerate(said) if search(text)], dtype=np.int64)


def _legible(word: str) -> bool:
    return 2 <= len(word) <= LONGEST and word.isprintable() and any(map(str.isalnum, word))


def _fewest(n_rows: int) -> float:
    return max(FEWEST, SHARE * n_rows)


def _fits(count: int, n_rows: int) -> bool:
    return _fewest(n_rows) <= count <= WIDEST * n_rows


LIKELIER, OFTEN, PART = 0.3, 0.5, 0.4
"""A column tells a class whose log-odds it raises by so much and that is right so often, both with a standard
error to spare, and that raises them by this part of what the functions there are do in the middle."""
FINDING_FEWEST, SHRINK = 8, 4.0
"""Rows of the half that it must hold, and rows' worth of the class's share that its own is drawn to."""
SEEN, TOLD = 0.5, 0.3
"""What a row is still worth after one more vote for its class, and after a suggestion."""
ENOUGH, TAIL = 0.6, 0.02
"""A bundle is complete when it votes on this share of the class's rows, or the next part adds that little."""
NEW = 0.1
"""A column is in question for a class that nobody votes on this share of its rows."""
EXAMPLES, REACHES = 400, (8, 32, 128)
"""Rows tried as examples, and how many rows one of them reaches at the radii that are tried."""
HARDER = 0.5
"""What example rows count beside words, which a person can read."""
MOST = {"keywords": 20, "regex": 1, "like": 8}


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns that may be bundled into one function."""

    kind: str
    holds: Any  # (n, n_columns) sparse by columns
    rows: np.ndarray  # (n,) row numbers
    names: Sequence[Any]  # a word, a `Pattern`, or a train row
    radius: float = 0.0


@dataclass(frozen=True)
class Bundle:
    """A candidate: a class, a kind, and the columns that make it."""

    label: int
    kind: str
    parts: tuple[Any, ...]
    radius: float = 0.0


@dataclass(eq=False)
class Group:
    """Columns with what the half for finding says of each."""

    columns: Columns
    lift: np.ndarray  # (n_columns, n_classes) how much likelier the class is
    tells: np.ndarray  # (n_columns, n_classes) bool
    taken: np.ndarray  # (n_columns,) bool: part of a bundle


def word_columns(wording: Wording | None) -> list[Columns]:
    """Columns of words and of patterns."""
    if wording is None:
        return []
    n_words = len(wording.words)
    parts = (
        ("keywords", slice(None, n_words), wording.words),
        (
            "regex",
            slice(n_words, None),
            wording.patterns,
        ),
    )
    return [
        Columns(kind, wording.holds[:, which], wording.rows, names) for kind, which, names in parts
    ]


def example_columns(near: Neighbourhood, find: np.ndarray, first: np.ndarray) -> list[Columns]:
    """Columns of rows near an example, at a few radii; the examples are of the half for finding."""
    from scipy import sparse

    if near.graphs is None:
        return []
    graph, placed = near.graphs[TRAIN], near.places[TRAIN]
    rows = np.arange(near.sizes[TRAIN]) if placed is None else placed
    order = np.argsort(first[rows], kind="stable")
    inside = order[find[rows[order]]][:EXAMPLES]
    found: dict[float, Columns] = {}
    for reach in REACHES:
        far = np.median(graph.listed(reach)[1][:, -1])
        radius = float(f"{far:.3g}")
        columns = [_around(graph, each, radius) for each in inside]
        starts = np.concatenate([[0], np.cumsum([len(each) for each in columns])])
        held = sparse.csc_matrix(
            (np.ones(starts[-1], dtype=np.float32), np.concatenate([*columns, []]), starts),
            shape=(len(rows), len(columns)),
        )
        found[radius] = Columns("like", held, rows, rows[inside].tolist(), radius)
    return list(found.values())


def _around(graph: Graph, row: int, radius: float) -> np.ndarray:
    """The rows within a radius of one, as far as its list of neighbours goes, ascending."""
    node = graph.train.node[row]
    members, start = graph.train.members
    [near], [far] = graph.listed(nodes=np.array([node]))
    close = near[far <= radius].tolist()
    parts = [members[start[each] : start[each + 1]] for each in {int(node), *close}]
    return np.sort(np.concatenate(parts))


class Finder:
    """One search for functions; what it reads is the half for finding, and nothing else."""

    def __init__(
        self,
        evidence: Evidence,
        columns: Sequence[Columns],
        sources: Sequence[np.ndarray],
        lent: Any,
    ) -> None:
        own = votes_for(sources, *evidence.belief.shape)
        lent = votes_for(lent, *evidence.belief.shape)
        used = evidence.find & evidence.known
        belief = np.where(used[:, None], np.nan_to_num(evidence.belief), 0.0)
        self.used = used
        self.shares = np.clip(belief.sum(axis=0) / max(used.sum(), 1), 0.002, 0.998)
        usual = self._usual(belief, sources)
        self.groups = [_group(each, belief, used, self.shares, usual) for each in columns]
        self.size = belief.sum(axis=0)
        # what a vote for a class on a row is worth, (n_rows, n_classes), to words and to example rows:
        # near rows lend each other votes already
        self.left: dict[bool, np.ndarray] = {False: belief * SEEN**own, True: belief * SEEN**lent}
        for group in self.groups:
            group.tells &= self._new(group.columns, own) >= NEW
        self.turns = np.zeros(len(self.shares), dtype=int)

    def _usual(self, belief: np.ndarray, sources: Sequence[np.ndarray]) -> float:
        """How much the functions there are raise the log-odds of what they vote, in the middle."""
        found = []
        for said in sources:
            for label in np.unique(said[self.used & (said != ABSTAIN)]).tolist():
                rows = np.flatnonzero(self.used & (said == label))
                right = (belief[rows, label].sum() + SHRINK * self.shares[label]) / (
                    len(rows) + SHRINK
                )
                found.append(float(log_odds(min(right, 0.999)) - log_odds(self.shares[label])))
        return float(np.median(found)) if found else 0.0

    def restrict(self, region: np.ndarray) -> None:
        """Count rows of a region alone; (n_rows,) bool."""
        for left in self.left.values():
            left[~region] = 0.0

    def next(self, labels: Sequence[int]) -> Bundle | None:
        """The best bundle of the class whose turn it is, or of the next that has any.

        No class is two bundles ahead of another: where nothing tells one, there are fewer; and where
        something tells one class of several only, there are none.
        """
        told = [each for each in labels if any(group.tells[:, each].any() for group in self.groups)]
        if len(told) < min(len(labels), 2):
            return None
        need, last = self.left[False].sum(axis=0), min(self.turns[each] for each in labels)
        turn = [each for each in labels if self.turns[each] == last]
        for label in sorted(turn, key=lambda each: -need[each]):
            made = [self._bundled(group, label) for group in self.groups]
            best = max((each for each in made if each), key=lambda each: each[0], default=None)
            if best is not None:
                _, bundle, group, chosen = best
                self.turns[label] += 1
                group.taken[chosen] = True
                return bundle
        return None

    def told(self, label: int, voted: np.ndarray) -> None:
        """A function of this class votes on these rows now; (n_rows,) bool."""
        for left in self.left.values():
            left[voted, label] *= TOLD

    def _new(self, columns: Columns, own: np.ndarray) -> np.ndarray:
        """The share of a column's rows that nobody votes each class on; (n_columns, n_classes)."""
        count = np.diff(columns.holds.indptr)[:, None]
        return np.asarray(columns.holds.T @ (own[columns.rows] == 0) / np.maximum(count, 1))

    def candidates(self, most: int) -> list[tuple[int, np.ndarray]]:
        """Classes and rows of the columns that were in question, those reaching most first."""
        found: list[tuple[float, int, np.ndarray]] = []
        for group in self.groups:
            rows = group.columns.rows
            gain = (group.columns.holds.T @ self._left(group)[rows]) * group.lift
            gain = np.where(group.tells, gain, 0.0)
            top = np.argsort(-gain, axis=None, kind="stable")[:most]
            for column, label in zip(*np.unravel_index(top, gain.shape)):
                if gain[column, label] > 0:
                    held = group.columns.holds[:, column].indices
                    found.append((float(gain[column, label]), int(label), rows[held]))
        found.sort(key=lambda each: -each[0])
        return [(label, rows) for _, label, rows in found[:most]]

    def _left(self, group: Group) -> np.ndarray:
        return self.left[group.columns.kind == "like"]

    def _bundled(self, group: Group, label: int) -> tuple[float, Bundle, Group, np.ndarray] | None:
        """Parts one after the other by what each adds; with the worth of all."""
        open_ = np.flatnonzero(group.tells[:, label] & ~group.taken)
        if not len(open_):
            return None
        columns, rows = group.columns, group.columns.rows
        holds, lift = columns.holds[:, open_], group.lift[open_, label]
        left = self._left(group)[rows, label].copy()
        most = ENOUGH * self.size[label]
        gain = (holds.T @ left) * lift
        chosen: list[int] = []
        worth, first, voted = 0.0, 0.0, np.zeros(len(rows), dtype=bool)
        while len(chosen) < MOST[columns.kind] and voted[self.used[rows]].sum() <= most:
            at = int(gain.argmax())
            if gain[at] <= TAIL * first:
                break
            first = max(first, float(gain[at]))
            chosen.append(int(open_[at]))
            held = holds.indices[holds.indptr[at] : holds.indptr[at + 1]]
            new = held[~voted[held]]
            worth += float(left[new].sum() * lift[at])
            gone = np.zeros(len(rows))
            gone[new], voted[new] = left[new], True
            left[new] = 0.0
            gain -= (holds.T @ gone) * lift
            gain[at] = 0.0
        if not chosen:
            return None
        worth *= HARDER if columns.kind == "like" else 1.0
        parts = tuple(columns.names[each] for each in chosen)
        bundle = Bundle(label, columns.kind, parts, columns.radius)
        return worth, bundle, group, np.array(chosen)


def votes_for(columns: Sequence[np.ndarray], n_rows: int, n_classes: int) -> np.ndarray:
    """How many columns vote for each class on each row."""
    found = np.zeros((n_rows, n_classes), dtype=np.int32)
    for said in columns:
        rows = np.flatnonzero(said != ABSTAIN)
        found[rows, said[rows]] += 1
    return found


def _group(
    columns: Columns, belief: np.ndarray, used: np.ndarray, shares: np.ndarray, usual: float
) -> Group:
    rows = columns.rows
    count = (columns.holds.T @ used[rows].astype(np.float64))[:, None]
    right = columns.holds.T @ belief[rows]
    often = (right + SHRINK * shares) / (count + SHRINK)
    least = often - np.sqrt(often * (1 - often) / (count + SHRINK))
    base = log_odds(shares)
    likelier = log_odds(np.clip(least, 1e-6, 1 - 1e-6)) - base
    lift = np.clip(log_odds(np.clip(often, 1e-6, 1 - 1e-6)) - base, 0.0, 8.0)
    tells = (
        (likelier > LIKELIER)
        & (least >= OFTEN)
        & (lift >= PART * usual)
        & (count >= FINDING_FEWEST)
    )
    return Group(columns, lift, tells, np.zeros(len(count), dtype=bool))
