"""Labeling functions made by a call: words, a pattern, example rows, a trained model, a column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ParameterError, UnknownName, VoteError
from ..rows import Row, Rows
from .kinds import ANY_CASE, Declared, form_of, read_cell, slug


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
        return self.vote([{name: read_cell(record, name) for name in names}])[0]

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
        return self.vote([{self.column: read_cell(row, self.column)}])[0]

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


_INLINE = {re.ASCII: "a", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x"}
"""Flags that a pattern says itself."""


def keywords(
    label: str,
    *words: str,
    column: str = "text",
    ignore_case: bool = True,
    whole_words: bool = False,
    name: str | None = None,
) -> Declared:
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
    options = {"column": column, "whole_words": whole_words, "ignore_case": ignore_case}
    given = {"kind": "keywords", "label": label, "words": words}
    return form_of(given | options).function(name)


def regex(
    label: str,
    pattern: str | re.Pattern[str],
    *,
    column: str = "text",
    flags: int = 0,
    name: str | None = None,
) -> Declared:
    r"""Vote `label` on every row in whose text `re.search(pattern, text, flags)` finds something.

    Examples
    --------
    >>> check = regex("spam", r"check\s+out", flags=re.IGNORECASE)
    >>> check({"text": "Check  out my channel"}), check.name
    ('spam', 'regex_check_s_out')
    """
    if isinstance(pattern, re.Pattern):
        flags, pattern = flags | pattern.flags, pattern.pattern
    named = slug("regex", [pattern]) if name is None else name
    inside = "".join(letter for flag, letter in _INLINE.items() if flags & flag)
    any_case = bool(flags & re.IGNORECASE) or pattern.startswith(ANY_CASE)
    plain = f"(?{inside})" * bool(inside) + pattern.removeprefix(ANY_CASE)
    given = {"kind": "regex", "label": label, "pattern": plain, "column": column}
    return form_of(given | {"ignore_case": any_case}).function(named)


def like(
    label: str, *, rows: Sequence[str | int], radius: float, name: str | None = None
) -> Declared:
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
    >>> like("spam", rows=["m17", 4], radius=0.3)
    Declared(name='like_m17_4', form=Like(label='spam', rows=['m17', '4'], radius=0.3))
    """
    if isinstance(rows, str) or not isinstance(rows, Sequence) or not rows:
        raise ParameterError(
            f"like needs a list of at least one row id, got {rows!r:.60}; "
            'write like("spam", rows=["17"], radius=0.3)'
        )
    ids = list(dict.fromkeys(map(str, rows)))
    given = {"kind": "like", "label": label, "rows": ids, "radius": radius}
    return form_of(given).function(name)


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
    if mapping is None and not all(isinstance(each, str) for each in own):
        raise ParameterError(
            f"{kind} predicts {own[:10]}, which are not labels; "
            f"pass mapping={{{own[0]!r}: 'your label', …}}"
        )
    known = dict(zip(own, own)) if mapping is None else mapping
    for each in own:
        if each not in known:
            raise UnknownName.of(f"mapping entry for {kind}'s class", each, known)
    for label in known.values():
        check_label("abstain" if label is None else label, kind)
    return tuple(known[each] for each in own)


def check_label(label: Any, name: str) -> None:
    """Refuse a label that is not text."""
    if not isinstance(label, str) or not label:
        raise ParameterError(
            f"labeling function {name!r} votes {label!r}; a label is your own text, such as 'spam'"
        )
