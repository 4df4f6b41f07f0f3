"""The words of a session's rows as columns: which rows hold a word, a pair of words, or a pattern.

Made once for the rows, and asked many times. A column here only proposes a function: what the function
really votes is found by running it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..errors import FrameError
from .texts import RowTexts

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
