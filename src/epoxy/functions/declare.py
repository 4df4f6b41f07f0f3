"""Labeling functions written as data: words, a pattern, example rows, a trained model, a column.

They run over whole columns. Patterns have two engines and one answer: Python's `re` defines what a
pattern means, and Arrow's RE2, some twenty times as fast, answers for the rows and patterns on
which the two agree: plain ASCII, and what is written in both alike. The rest goes through `re`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ParameterError, RadiusError, UnknownName, VectorError, VoteError
from ..rows import Row, Rows, as_mask


@dataclass(frozen=True)
class TextPattern:
    """Votes one label wherever a pattern is found in a text; made by `keywords` and `regex`."""

    name: str
    label: str
    pattern: str
    column: str = "text"
    flags: int = 0

    def __post_init__(self) -> None:
        check_label(self.label, self.name)
        try:
            self._compiled()
        except re.error as error:
            raise ParameterError(
                f"pattern {self.pattern!r} of {self.name!r} is not a regular expression: {error}; "
                "escape special characters with a backslash"
            ) from None

    @property
    def labels(self) -> tuple[str, ...]:
        """The one label it gives."""
        return (self.label,)

    def __call__(self, row: Any) -> str | None:
        """The label on one row, or None."""
        text = _read(row, self.column)
        return self.label if text is not None and self._compiled().search(text) else None

    def vote(self, frame: Any) -> list[str | None]:
        """The label on each row whose text matches, in one pass over the column."""
        found = _search(Rows.of(frame), self.column, self.pattern, self.flags)
        return [self.label if hit else None for hit in found.tolist()]

    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, self.flags)  # re keeps compiled patterns itself


@dataclass(frozen=True)
class Like:
    """Votes one label on rows near example rows; made by `like`."""

    name: str
    label: str
    rows: tuple[str, ...]  # ids
    radius: float

    @property
    def labels(self) -> tuple[str, ...]:
        """The one label it gives."""
        return (self.label,)

    def vote(self, frame: Any) -> list[str | None]:
        """Refuse: a frame has no vectors."""
        raise VectorError(
            f"labeling function {self.name!r} votes on rows near its examples, and rows alone have no "
            "vectors; use it in a project's lfs.py or in session.add"
        )


@dataclass(frozen=True, eq=False)
class ModelVotes:
    """Votes a classifier's prediction where it is confident enough; made by `from_model`."""

    name: str
    model: Any
    columns: str | tuple[str, ...]
    confidence: float
    answers: tuple[str | None, ...]  # what to vote for each of the model's classes

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels the model's classes stand for."""
        return tuple(dict.fromkeys(answer for answer in self.answers if answer is not None))

    def __call__(self, row: Any) -> str | None:
        """The label on one row, or None."""
        record = Row.of(row)
        names = [self.columns] if isinstance(self.columns, str) else self.columns
        return self.vote([{name: _read(record, name) for name in names}])[0]

    def vote(self, frame: Any) -> list[str | None]:
        """The model's answer on each row, None below the confidence."""
        proba = np.asarray(self.model.predict_proba(self._inputs(Rows.of(frame))))
        best = proba.argmax(axis=1)
        sure = proba[np.arange(len(best)), best] >= self.confidence
        return [self.answers[k] if s else None for k, s in zip(best, sure, strict=True)]

    def _inputs(self, rows: Rows) -> Any:
        if isinstance(self.columns, str):
            values = rows.values(self.columns)
            # a column of vectors is a matrix to a classifier, a column of texts is a list
            vectors = values and isinstance(values[0], list | tuple | np.ndarray)
            return np.asarray(values, dtype=float) if vectors else values
        for column in self.columns:
            rows.require(column)
        if hasattr(
            self.model, "feature_names_in_"
        ):  # scikit-learn warns when names it saw are gone
            return rows.frame.select(list(self.columns)).to_native()
        return rows.matrix(self.columns)


@dataclass(frozen=True, eq=False)
class ColumnLabels:
    """Votes what a column already says; made by `from_column`."""

    name: str
    column: str
    mapping: Mapping[Any, str | None] | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the mapping, where there is one."""
        given = [] if self.mapping is None else self.mapping.values()
        return tuple(dict.fromkeys(label for label in given if label is not None))

    def __call__(self, row: Any) -> Any:
        """The label on one row, or None."""
        return self.vote([{self.column: _read(row, self.column)}])[0]

    def vote(self, frame: Any) -> list[Any]:
        """The column's labels, through the mapping; missing values abstain."""
        values = Rows.of(frame).values(self.column)
        if self.mapping is None:
            return list(values)
        table: dict[Any, Any] = {None: None, **self.mapping}
        unknown = next((row for row, value in enumerate(values) if value not in table), None)
        if unknown is not None:
            raise VoteError(
                f"column {self.column!r} holds {values[unknown]!r} on row {unknown}; "
                f"the mapping knows {list(self.mapping)[:10]}; add it, with None to abstain"
            )
        return [table[value] for value in values]


def keywords(
    label: str,
    *words: str,
    column: str = "text",
    ignore_case: bool = True,
    whole_words: bool = False,
    name: str | None = None,
) -> TextPattern:
    r"""Vote `label` on every row whose text holds one of the words.

    Parameters
    ----------
    words
        Words or phrases, taken literally.
    ignore_case
        "Free" is found for "free".
    whole_words
        "cat" is not found in "category". An edge of a word that is itself no letter or digit
        ("c++", "#tag") needs no boundary there.

    Examples
    --------
    >>> money = keywords("spam", "money", "gift card")
    >>> money({"text": "Get MONEY now"}), money({"text": "nice song"})
    ('spam', None)
    >>> money.name
    'keywords_money_gift_card'
    """
    if not words or not all(isinstance(word, str) and word for word in words):
        raise ParameterError(
            f"keywords needs at least one word and no empty one, got {list(words)}; "
            'write keywords("spam", "money", "gift")'
        )
    parts = [_whole(word) if whole_words else re.escape(word) for word in words]
    return TextPattern(
        name=slug("keywords", words) if name is None else name,
        label=label,
        pattern="|".join(parts),
        column=column,
        flags=int(re.IGNORECASE) if ignore_case else 0,
    )


def regex(
    label: str,
    pattern: str | re.Pattern[str],
    *,
    column: str = "text",
    flags: int = 0,
    name: str | None = None,
) -> TextPattern:
    r"""Vote `label` on every row in whose text `re.search(pattern, text, flags)` finds something.

    Examples
    --------
    >>> check = regex("spam", r"check\s+out", flags=re.IGNORECASE)
    >>> check({"text": "Check  out my channel"}), check.name
    ('spam', 'regex_check_s_out')
    """
    if isinstance(pattern, re.Pattern):
        # a compiled pattern always carries UNICODE; compiling again adds it by itself
        flags |= pattern.flags & ~re.UNICODE
        pattern = pattern.pattern
    found = slug("regex", [pattern]) if name is None else name
    return TextPattern(name=found, label=label, pattern=pattern, column=column, flags=int(flags))


def like(label: str, *, rows: Sequence[str | int], radius: float, name: str | None = None) -> Like:
    """Vote `label` on every row whose vector lies within `radius` of one of these rows.

    Parameters
    ----------
    rows
        Ids of the example rows (without an id column: their positions in the rows file). A row
        votes for itself.
    radius
        A distance of the project's metric; a row at exactly this distance is voted on.

    Examples
    --------
    >>> like("spam", rows=["m17", "m4"], radius=0.3)
    Like(name='like_m17_m4', label='spam', rows=('m17', 'm4'), radius=0.3)
    """
    if isinstance(rows, str) or not isinstance(rows, Sequence) or not rows:
        raise ParameterError(
            f"like needs a list of at least one row id, got {rows!r:.60}; "
            'write like("spam", rows=["17"], radius=0.3)'
        )
    for each in rows:
        if isinstance(each, bool) or not isinstance(each, str | int):
            raise ParameterError(
                f"like names rows by id, got {each!r:.60}; give ids as text or whole numbers"
            )
    number = isinstance(radius, int | float) and not isinstance(radius, bool)
    if not number or not math.isfinite(radius) or radius < 0:
        raise RadiusError(
            f"the radius of like is a distance of at least 0, got {radius!r:.60}; "
            "give a number, such as 0.3"
        )
    ids = tuple(dict.fromkeys(map(str, rows)))
    found = slug("like", ids) if name is None else name
    check_label(label, found)
    return Like(found, label, ids, float(radius))


def from_model(
    model: Any,
    columns: str | Sequence[str],
    *,
    confidence: float = 0.8,
    mapping: Mapping[Any, str | None] | None = None,
    name: str | None = None,
) -> ModelVotes:
    """Vote what a fitted scikit-learn classifier says, where it is confident enough.

    Parameters
    ----------
    model
        Anything with `predict_proba` and `classes_`.
    columns
        One column (texts, or vectors) as it is, or several numeric columns as a matrix.
    confidence
        Abstain where the largest probability is smaller.
    mapping
        From the model's classes to your labels, where they differ; None to abstain.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> model = LogisticRegression().fit([[0], [1], [9], [10]], ["ham", "ham", "spam", "spam"])
    >>> links = from_model(model, ["links"], confidence=0.9)
    >>> links({"links": 12}), links({"links": 5})
    ('spam', None)
    """
    kind = type(model).__name__
    if not hasattr(model, "predict_proba"):
        raise ParameterError(
            f"from_model needs predict_proba, which {kind} does not have; "
            "wrap it in sklearn.calibration.CalibratedClassifierCV"
        )
    if not hasattr(model, "classes_"):
        raise ParameterError(
            f"from_model needs a fitted model, {kind} has no classes_; fit it first"
        )
    if not 0 <= confidence <= 1:
        raise ParameterError(f"confidence is a probability, got {confidence!r}; write 0.8 for 80 %")
    own = np.asarray(model.classes_).tolist()
    found = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower() if name is None else name
    kept = columns if isinstance(columns, str) else tuple(columns)
    return ModelVotes(found, model, kept, float(confidence), _answers(own, mapping, kind))


def from_column(
    column: str, mapping: Mapping[Any, str | None] | None = None, *, name: str | None = None
) -> ColumnLabels:
    """Vote what a column already says: a crowd worker, an old weak label, another system.

    Parameters
    ----------
    mapping
        From the column's values to labels, None to abstain; without it the values are the labels.
        Missing values abstain in any case.

    Examples
    --------
    >>> worker = from_column("worker_7", {1: "spam", 0: "ham", -1: None})
    >>> worker({"worker_7": 1}), worker({"worker_7": -1}), worker({"worker_7": None})
    ('spam', None, None)
    """
    found = column if name is None else name
    for label in () if mapping is None else mapping.values():
        check_label("abstain" if label is None else label, found)
    return ColumnLabels(found, column, mapping)


def _answers(
    own: list[Any], mapping: Mapping[Any, str | None] | None, kind: str
) -> tuple[str | None, ...]:
    if mapping is None:
        if not all(isinstance(each, str) for each in own):
            raise ParameterError(
                f"{kind} predicts {own[:10]}, which are not labels; "
                f"pass mapping={{{own[0]!r}: 'your label', …}}"
            )
        return tuple(own)
    missing = [each for each in own if each not in mapping]
    if missing:
        raise UnknownName.of(f"mapping entry for {kind}'s class", missing[0], mapping)
    for label in mapping.values():
        check_label("abstain" if label is None else label, kind)
    return tuple(mapping[each] for each in own)


def check_label(label: Any, name: str) -> None:
    """Refuse a label that is not text."""
    if not isinstance(label, str) or not label:
        raise ParameterError(
            f"labeling function {name!r} votes {label!r}; a label is your own text, such as 'spam'"
        )


def _read(row: Any, column: str) -> Any:
    row = Row.of(row)
    if isinstance(row, Row):
        return row[column]
    return getattr(row, column) if hasattr(row, column) else row[column]


def slug(kind: str, words: Sequence[str]) -> str:
    """A name for a function nobody named."""
    joined = re.sub(r"\W+", "_", "_".join(words)).strip("_")
    return f"{kind}_{joined[:40].rstrip('_')}" if joined else kind


def _whole(word: str) -> str:
    left = r"\b" if re.match(r"\w", word[0]) else ""
    right = r"\b" if re.match(r"\w", word[-1]) else ""
    return left + re.escape(word) + right


def _search(rows: Rows, column: str, pattern: str, flags: int) -> np.ndarray:
    """Where `re.search` finds the pattern; (n_rows,) bool, False where the text is missing."""
    import pyarrow as pa

    texts = rows.texts(column)
    found = np.zeros(rows.n_rows, dtype=bool)
    left = as_mask(texts.is_valid())
    if _means_the_same(pattern, flags):
        inline = "(?i)" * bool(flags & re.IGNORECASE) + "(?m)" * bool(flags & re.MULTILINE)
        inline += "(?s)" * bool(flags & re.DOTALL)
        try:
            hits = rows.matches(column, inline + pattern)
        except pa.ArrowInvalid:  # look-around, back-references: RE2 says that it has none
            pass
        else:
            left &= rows.matches(column, _ODD, keep=True)
            found = hits & ~left
    search = re.compile(pattern, flags).search
    where = np.flatnonzero(left)
    if len(where):
        wanted = pa.Array.from_buffers(pa.int64(), len(where), [None, pa.py_buffer(where)])
        rest = texts.take(wanted).to_pylist()
        found[where] = [search(text) is not None for text in rest]
    return found


def _means_the_same(pattern: str, flags: int) -> bool:
    r"""Whether RE2 and `re` read a pattern alike, in a text that is not odd.

    Not if it is not ASCII (case folding differs), holds `{,n}` (a count to one, literal to the other) or
    `[:` (a POSIX class to one), or has a flag, a group or an escape not looked into here.
    """
    flags = re.compile(pattern, flags).flags  # with those written inside the pattern, as in (?i)
    known = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.UNICODE
    escapes = set(re.findall(r"\\([A-Za-z0-9])", pattern)) - set("AbdDnrsStwW")
    special = re.search(r"\{,|\[:|\(\?(?!:|P<)", re.sub(r"^\(\?[ims]+\)", "", pattern))
    return not (special or flags & ~known or escapes) and pattern.isascii()


_ODD = r"[^\x00-\x7f\x{2010}-\x{2027}\x{fe0f}\x{feff}\x{1f300}-\x{1f6ff}]|[\v\x1c-\x1f]|\n\z"
"""Texts to which the two may say otherwise: with letters, digits or blanks beyond ASCII (typographic
punctuation and emoji are neither to both), blanks that are none to RE2, or a newline at the end."""
