"""Labeling functions as plain values: forms of words, patterns, example rows and Python code.

{"kind": "keywords", "label", "words", "column", "whole_words", "ignore_case"}
{"kind": "regex", "label", "pattern", "column", "ignore_case"}
{"kind": "like", "label", "rows", "radius"}
{"kind": "python", "code"}

A form's fields are what a page or an agent is told, what a file of functions says, and what votes. Words
and patterns run over whole columns, and have two engines and one answer: Python's `re` defines what a
pattern means, and Arrow's RE2, some twenty times as fast, answers for the rows and patterns on which the
two agree: plain ASCII, and what is written in both alike. The rest goes through `re`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct

from ..errors import CodeError, ParameterError, VectorError
from ..rows import Row, Rows, as_mask

Text = Annotated[str, Meta(max_length=20_000)]
Name = Annotated[str, Meta(min_length=1, max_length=500)]
"""A text that a person writes, and one that names something."""
ANY_CASE = "(?i)"


class Kind(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Fields of one kind of function."""

    @property
    def kind(self) -> str:
        """What kind of function."""
        return str(self.__struct_config__.tag)

    def call(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, by position and by name, but for the function's name."""
        raise ParameterError("Python code runs in a process of its own; save it, or draft it")

    def function(self, name: str | None = None) -> Declared:
        """The labeling function; refused where it cannot vote, and Python code is not run here."""
        self.call()
        said = getattr(self, self.__struct_fields__[1])  # after the label
        words = [said] if isinstance(said, str) else said
        return Declared(slug(self.kind, words) if name is None else name, self)

    def pattern_and_flags(self) -> tuple[str, int]:
        """What is looked for in texts."""
        raise VectorError(
            "labeling functions of example rows vote on rows near them, and rows alone have no "
            "vectors; use one in a project's lfs.py or in session.add"
        )


class Keywords(Kind, frozen=True, tag="keywords"):
    """A function of words."""

    label: Name
    words: list[Text]
    column: Name = "text"
    whole_words: bool = False
    ignore_case: bool = True

    def call(self) -> tuple[list[Any], dict[str, Any]]:
        """The label and the words."""
        names = ("column", "whole_words", "ignore_case")
        return [self.label, *self.words], {name: getattr(self, name) for name in names}

    def pattern_and_flags(self) -> tuple[str, int]:
        """Any of the words."""
        if not self.words or not all(self.words):
            raise ParameterError(
                f"keywords needs at least one word and no empty one, got {self.words}; "
                'write keywords("spam", "money", "gift")'
            )
        words = [_whole(word) if self.whole_words else re.escape(word) for word in self.words]
        return "|".join(words), int(re.IGNORECASE) if self.ignore_case else 0


class Pattern(Kind, frozen=True, tag="regex"):
    """A function of a regular expression."""

    label: Name
    pattern: Text
    column: Name = "text"
    ignore_case: bool = False

    def call(self) -> tuple[list[Any], dict[str, Any]]:
        """The label and the pattern, which says itself that case does not matter."""
        return [self.label, ANY_CASE * self.ignore_case + self.pattern], {"column": self.column}

    def pattern_and_flags(self) -> tuple[str, int]:
        """The pattern, where it is one."""
        flags = int(re.IGNORECASE) if self.ignore_case else 0
        try:
            re.compile(self.pattern, flags)
        except re.error as error:
            raise ParameterError(
                f"pattern {self.pattern!r} is not a regular expression: {error}; "
                "escape special characters with a backslash"
            ) from None
        return self.pattern, flags


class Like(Kind, frozen=True, tag="like"):
    """A function of example rows, by their ids."""

    label: Name
    rows: list[Name]
    radius: Annotated[float, Meta(ge=0, le=1e6)]

    def call(self) -> tuple[list[Any], dict[str, Any]]:
        """The label, the rows and how far."""
        return [self.label], {"rows": self.rows, "radius": self.radius}


class Python(Kind, frozen=True, tag="python"):
    """A function written as code."""

    code: Annotated[str, Meta(max_length=2_000_000)]

    @property
    def last_def(self) -> ast.FunctionDef:
        """The last function it defines; errors count lines of the code alone."""
        named = [each for each in parsed(self.code).body if isinstance(each, ast.FunctionDef)]
        if not named:
            raise CodeError(
                "the code defines no function; write def under @epoxy.labeling_function"
            )
        return named[-1]


Form = Keywords | Pattern | Like | Python
"""What a definition may be; its JSON schema is what a page or an agent is told."""


def form_of(given: Mapping[str, Any] | Form) -> Form:
    """One function as a value, complete and checked; texts of the user's own types become plain ones."""
    if isinstance(given, Keywords | Pattern | Like | Python):
        return given
    try:
        made: Form = msgspec.json.decode(json.dumps(given), type=Form)
    except (msgspec.DecodeError, TypeError) as error:
        raise ParameterError(f"this function cannot be: {error}; correct it") from None
    return made


def parsed(code: str | bytes, place: str = "the code") -> ast.Module:
    """The tree of Python code; what is wrong with it is said with its line."""
    try:
        return ast.parse(code)
    except SyntaxError as error:
        reason = f"{type(error).__name__}: {error.msg}; correct it and try again"
        raise CodeError(reason, place if error.lineno else "", error.lineno) from None
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, nesting
        raise CodeError(f"{place} cannot be parsed: {error}; correct it") from None


@dataclass(frozen=True)
class Declared:
    """Votes one label wherever its form holds; made by `keywords`, `regex` and `like`."""

    name: str
    form: Any

    def __post_init__(self) -> None:
        if not isinstance(self.form, Like):
            self.form.pattern_and_flags()

    @property
    def labels(self) -> tuple[str, ...]:
        """The one label it gives."""
        return (str(self.form.label),)

    @property
    def column(self) -> str | None:
        """The column it reads."""
        return getattr(self.form, "column", None)

    def __call__(self, row: Any) -> str | None:
        """The label on one row, or None."""
        pattern, flags = self.form.pattern_and_flags()
        text = read_cell(row, self.column or "")
        # re keeps compiled patterns itself
        return self.labels[0] if text is not None and re.search(pattern, text, flags) else None

    def vote(self, frame: Any) -> list[str | None]:
        """The label on each row whose text matches, in one pass over the column."""
        found = _search(Rows.of(frame), self.column or "", *self.form.pattern_and_flags())
        return [self.form.label if hit else None for hit in found.tolist()]


def read_cell(row: Any, column: str) -> Any:
    """The value of a column of any kind of row."""
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
    special = re.search(r"\{,|\[:|\(\?(?!:|P<)", re.sub(r"^(\(\?[ims]+\))+", "", pattern))
    return not (special or flags & ~known or escapes) and pattern.isascii()


_ODD = r"[^\x00-\x7f\x{2010}-\x{2027}\x{fe0f}\x{feff}\x{1f300}-\x{1f6ff}]|[\v\x1c-\x1f]|\n\z"
"""Texts to which the two may say otherwise: with letters, digits or blanks beyond ASCII (typographic
punctuation and emoji are neither to both), blanks that are none to RE2, or a newline at the end."""
