"""Candidate functions, found on one half of the rows: words, patterns and example rows that tell a class.

Functions are found on one half of the rows and judged on the other. Halves are told apart by a hash of
what a row says, so they stay the same from call to call, and rows that say the same are in one half: a
copy of a row is no witness for it.

Columns that say "this row holds that" are ranked by how many rows of a class they would newly reach and
how much likelier the class is there. The best are bundled: words with words into one function, example
rows with example rows. Classes take turns, the one with most rows left to reach first, because functions
for one class alone tilt every label towards it; each bundle counts only what the ones before leave over.
A column only proposes a function: what the function really votes is found by running it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..engines import Outcome
from ..loans import Neighbourhood
from ..neighbors import Graph
from ..neighbors.knn import reaches
from ..numerics import log_odds
from ..votes import ABSTAIN
from ..workspace import TRAIN
from .search import RowTexts

if TYPE_CHECKING:
    from ..session.session import Session

HALVES = b"epoxy: halves of rows"
MOST_ROWS, MOST_TEXT = 60_000, 20_000
"""Rows that are read, and characters of each."""
RAREST, SHARE, WIDEST = 4, 0.001, 0.5
"""A column is kept that holds at least so many rows, this share of them, and no more than that share."""
MOST_COLUMNS, LONGEST = 20_000, 30
"""Words and pairs that are kept, and letters of a word."""
STEM = (5, 8)
"""Letters of a stem."""
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
LIKELIER, OFTEN, PART = 0.3, 0.5, 0.4
"""A column tells a class whose log-odds it raises by so much and that is right so often, both with a standard
error to spare, and that raises them by this part of what the functions there are do in the middle."""
FEWEST, SHRINK = 8, 4.0
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


# what is known of every row


@dataclass(frozen=True, eq=False)
class Evidence:
    """Probabilities and hand labels of all rows, train rows first; both halves."""

    find: np.ndarray  # (n_rows,) bool: functions are found here, and judged on the others
    belief: np.ndarray  # (n_rows, n_classes): a trusted hand label, else the model; NaN: not known
    held: np.ndarray  # (n_rows, n_classes): the model, without what it learned from the row's label
    hand: np.ndarray  # (n_rows,) trusted hand labels, −1 where there is none
    fair: np.ndarray  # (n_rows,) bool: labelled, and not because of what the row looked like

    @property
    def known(self) -> np.ndarray:
        """Rows of which something is believed; (n_rows,) bool."""
        return np.asarray(np.isfinite(self.belief[:, 0]))


def gather(outcome: Outcome, find: np.ndarray) -> Evidence:
    """What a model and hand labels say now."""
    workspace = outcome.workspace
    labels, n_classes = workspace.labels, len(workspace.classes)
    votes = any((column != ABSTAIN).any() for each in workspace.active for column in each.own)
    # without votes and labels a model has nothing that its word could rest on
    usable = bool(outcome.proba) and not outcome.problem and (labels.count > 0 or votes)
    held = np.full((len(find), n_classes), np.nan)
    if usable:
        held = np.concatenate(outcome.proba).astype(float)
    starts = np.cumsum([0, *map(len, labels.y)])
    rows = np.concatenate([labels.rows[at] + starts[at] for at in labels.order]).astype(np.intp)
    held[rows] = outcome.held_out if usable and outcome.held_out is not None else np.nan
    trusted = labels.noise == 0
    hand, fair = np.full(len(find), ABSTAIN), np.zeros(len(find), dtype=bool)
    hand[rows[trusted]] = labels.labels[trusted]
    fair[rows] = trusted & labels.representative
    belief = held.copy()
    belief[hand != ABSTAIN] = np.eye(n_classes)[hand[hand != ABSTAIN]]
    return Evidence(find, belief, held, hand, fair)


def digests_of(session: Session) -> np.ndarray:
    """A number for every row, read off what it says: its text, else its vector, else its name."""
    said = (None if session.texts is None else session.texts.column_texts()) or []
    raw = []
    for at, split in enumerate(session.state.workspace.splits):
        texts = said[at][: split.n_rows] if at < len(said) else []
        raw += [_encoded(each) for each in texts]
        rest = range(len(texts), split.n_rows)
        if split.vectors is None:
            raw += [_encoded("\n".join(session.state.names.name((at, row)))) for row in rest]
        else:
            vectors = np.ascontiguousarray(split.vectors, dtype=np.float32)
            raw += [vectors[row].tobytes() for row in rest]
    digests = (hashlib.blake2b(each, digest_size=8, key=HALVES).digest() for each in raw)
    return np.frombuffer(b"".join(digests), dtype="<u8")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# columns


class FoundPattern(NamedTuple):
    """A pattern, what it is called, and whether letters of any case match."""

    name: str
    pattern: str
    any_case: bool


@dataclass(frozen=True, eq=False)
class Candidates:
    """Which rows hold which words, patterns or examples of one kind of function."""

    kind: str
    holds: Any  # (n, n_columns) sparse by columns, 1 where a row holds it
    rows: np.ndarray  # (n,) row numbers, ascending
    names: Sequence[Any]  # a word or a pair of words, a `FoundPattern`, or a train row
    radius: float = 0.0

    @classmethod
    def of(
        cls, kind: str, held: dict[Any, np.ndarray], rows: np.ndarray, radius: float = 0.0
    ) -> Candidates:
        """From the places in `rows` that each column holds, ascending."""
        from scipy import sparse

        starts = np.cumsum([0, *map(len, held.values())]).astype(np.int64)
        inside = np.concatenate([*held.values(), np.zeros(0, dtype=np.int64)]).astype(np.int64)
        ones, shape = np.ones(len(inside), dtype=np.float32), (len(rows), len(held))
        return cls(kind, sparse.csc_matrix((ones, inside, starts), shape), rows, [*held], radius)


def word_columns(texts: RowTexts | None, sizes: list[int], first: np.ndarray) -> list[Candidates]:
    """Columns of words and of patterns; none where there is no column of texts.

    `first` puts all rows in an order: of too many those that stand first are read.
    """
    given = None if texts is None else texts.column_texts()
    if given is None:
        return []
    starts = np.cumsum([0, *sizes])
    parts = [each[:size] for each, size in zip(given, sizes)]
    rows = np.concatenate([start + np.arange(len(each)) for start, each in zip(starts, parts)])
    said = [text[:MOST_TEXT] for each in parts for text in each]
    if len(rows) > MOST_ROWS:
        kept = np.sort(np.argsort(first[rows], kind="stable")[:MOST_ROWS])
        rows, said = rows[kept], [said[at] for at in kept]
    words = _words(said)
    patterns = {
        FoundPattern(name, each, False): _matching(said, each) for name, each in PATTERNS.items()
    }
    patterns |= _stems(words)
    patterns = {each: held for each, held in patterns.items() if _fits(len(held), len(said))}
    return [Candidates.of("keywords", words, rows), Candidates.of("regex", patterns, rows)]


def _words(said: list[str]) -> dict[str, np.ndarray]:
    """Words and pairs that are neither rare nor everywhere, and the rows that hold each, ascending."""
    tokens, singles = [], Counter[str]()
    for text in said:
        parts = [(m.group(), m.start(), m.end()) for m in re.finditer(r"\w+", text.lower())]
        singles.update({word for word, _, _ in parts})
        tokens.append(parts)
    least = max(RAREST, SHARE * len(said))
    known = {word for word, count in singles.items() if count >= least and _legible(word)}
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
    return {word: np.array(at[word]) for word in kept}


def _legible(word: str) -> bool:
    return 2 <= len(word) <= LONGEST and word.isprintable() and any(map(str.isalnum, word))


def _fits(count: int, n_rows: int) -> bool:
    return max(RAREST, SHARE * n_rows) <= count <= WIDEST * n_rows


def _matching(said: list[str], pattern: str) -> np.ndarray:
    search = re.compile(pattern).search
    return np.array([row for row, text in enumerate(said) if search(text)])


def _stems(words: dict[str, np.ndarray]) -> dict[FoundPattern, np.ndarray]:
    """Beginnings that three words or more share, and that hold clearly more rows than any of them."""
    sharing: dict[str, list[str]] = {}
    for word in words:
        if word.isascii() and word.isalpha():
            for length in range(STEM[0], min(STEM[1], len(word)) + 1):
                sharing.setdefault(word[:length], []).append(word)
    found: dict[FoundPattern, np.ndarray] = {}
    seen: set[tuple[str, ...]] = set()
    for stem in sorted(sharing, key=lambda each: (-len(each), each)):  # the longest that says it
        members = tuple(sharing[stem])
        if len(members) < 3 or members in seen:
            continue
        seen.add(members)
        rows = np.unique(np.concatenate([words[each] for each in members]))
        if len(rows) >= 1.2 * max(len(words[each]) for each in members):
            found[FoundPattern(stem, rf"\b{stem}", True)] = rows
    return found


def example_columns(near: Neighbourhood, find: np.ndarray, first: np.ndarray) -> list[Candidates]:
    """Columns of rows near an example, at a few radii; the examples are of the half for finding."""
    if near.graphs is None:
        return []
    graph, placed = near.graphs[TRAIN], near.places[TRAIN]
    rows = np.arange(near.sizes[TRAIN]) if placed is None else placed
    order = np.argsort(first[rows], kind="stable")
    inside = order[find[rows[order]]][:EXAMPLES].tolist()
    found: dict[float, Candidates] = {}
    for reach in REACHES:
        radius = float(f"{np.median(graph.listed(reach)[1][:, -1]):.3g}")
        held = {int(rows[each]): _around(graph, each, radius) for each in inside}
        found[radius] = Candidates.of("like", held, rows, radius)
    return list(found.values())


def _around(graph: Graph, row: int, radius: float) -> np.ndarray:
    """The rows within a radius of one, as far as its list of neighbours goes, ascending."""
    node = int(graph.train.node[row])
    members, start = graph.train.members
    [near], [far] = graph.listed(nodes=np.array([node]))
    close = {node, *near[reaches(radius, far)].tolist()}
    return np.sort(np.concatenate([members[start[at] : start[at + 1]] for at in close]))


# the search


@dataclass(frozen=True)
class Bundle:
    """A candidate: a class, a kind, and the columns that make it."""

    label: int
    kind: str
    parts: tuple[Any, ...]
    radius: float = 0.0


class _Group(NamedTuple):
    """Columns with what the half for finding says of each."""

    columns: Candidates
    lift: np.ndarray  # (n_columns, n_classes) how much likelier the class is
    tells: np.ndarray  # (n_columns, n_classes) bool
    taken: np.ndarray  # (n_columns,) bool: part of a bundle


class Finder:
    """One search for functions; what it reads is the half for finding, and nothing else."""

    def __init__(
        self,
        evidence: Evidence,
        columns: Sequence[Candidates],
        sources: Sequence[np.ndarray],
        lent: Sequence[np.ndarray],
    ) -> None:
        shape = evidence.belief.shape
        own = votes_for(sources, *shape)
        self.used = evidence.find & evidence.known
        belief = np.where(self.used[:, None], np.nan_to_num(evidence.belief), 0.0)
        self.size = belief.sum(axis=0)
        self.shares = np.clip(self.size / max(self.used.sum(), 1), 0.002, 0.998)
        usual = self._usual(belief, sources)
        self.groups = [self._group(each, belief, own, usual) for each in columns]
        # what a vote for a class on a row is worth, (n_rows, n_classes), to words and to example rows:
        # near rows lend each other votes already
        lending = votes_for(lent, *shape)
        self.left = {False: belief * SEEN**own, True: belief * SEEN**lending}
        self.turns = np.zeros(len(self.shares), dtype=int)

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

    def candidates(self, most: int) -> list[tuple[int, np.ndarray]]:
        """Classes and rows of the columns that were in question, those reaching most first."""
        found: list[tuple[float, int, np.ndarray]] = []
        for group in self.groups:
            rows, holds = group.columns.rows, group.columns.holds
            gain = np.where(group.tells, (holds.T @ self._left(group)[rows]) * group.lift, 0.0)
            top = np.argsort(-gain, axis=None, kind="stable")[:most]
            for column, label in zip(*np.unravel_index(top, gain.shape)):
                if gain[column, label] > 0:
                    held = rows[holds[:, column].indices]
                    found.append((float(gain[column, label]), int(label), held))
        found.sort(key=lambda each: -each[0])
        return [(label, rows) for _, label, rows in found[:most]]

    def _usual(self, belief: np.ndarray, sources: Sequence[np.ndarray]) -> float:
        """How much the functions there are raise the log-odds of what they vote, in the middle."""
        found = []
        for said in sources:
            for label in np.unique(said[self.used & (said != ABSTAIN)]).tolist():
                hits, share = belief[self.used & (said == label), label], self.shares[label]
                right = (hits.sum() + SHRINK * share) / (len(hits) + SHRINK)
                found.append(float(log_odds(min(right, 0.999)) - log_odds(share)))
        return float(np.median(found)) if found else 0.0

    def _group(
        self, columns: Candidates, belief: np.ndarray, own: np.ndarray, usual: float
    ) -> _Group:
        rows, holds = columns.rows, columns.holds
        count = (holds.T @ self.used[rows].astype(np.float64))[:, None]
        often = (holds.T @ belief[rows] + SHRINK * self.shares) / (count + SHRINK)
        least = often - np.sqrt(often * (1 - often) / (count + SHRINK))
        base = log_odds(self.shares)
        likelier = log_odds(np.clip(least, 1e-6, 1 - 1e-6)) - base
        lift = np.clip(log_odds(np.clip(often, 1e-6, 1 - 1e-6)) - base, 0.0, 8.0)
        every = np.maximum(np.diff(holds.indptr), 1)[:, None]
        new = np.asarray(holds.T @ (own[rows] == 0) / every)  # the share that nobody votes so on
        tells = (likelier > LIKELIER) & (least >= OFTEN) & (lift >= PART * usual)
        tells &= (count >= FEWEST) & (new >= NEW)
        return _Group(columns, lift, tells, np.zeros(len(count), dtype=bool))

    def _left(self, group: _Group) -> np.ndarray:
        return self.left[group.columns.kind == "like"]

    def _bundled(
        self, group: _Group, label: int
    ) -> tuple[float, Bundle, _Group, np.ndarray] | None:
        """Parts one after the other by what each adds; with the worth of all."""
        columns, rows = group.columns, group.columns.rows
        open_ = np.flatnonzero(group.tells[:, label] & ~group.taken)
        if not len(open_):
            return None
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
        return worth, Bundle(label, columns.kind, parts, columns.radius), group, np.array(chosen)


def votes_for(columns: Iterable[np.ndarray], n_rows: int, n_classes: int) -> np.ndarray:
    """How many columns vote for each class on each row."""
    found = np.zeros((n_rows, n_classes), dtype=np.int32)
    for said in columns:
        rows = np.flatnonzero(said != ABSTAIN)
        found[rows, said[rows]] += 1
    return found
