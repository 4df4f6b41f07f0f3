"""Every error the package raises on purpose, in one tree.

    EpoxyError(ValueError)
    ├── VoteError           a vote that is not one of the classes, or votes that cannot be used
    ├── LabelError          a true label or a class name that is not known
    ├── AlignmentError      things that should have one entry per row, and do not
    ├── VectorError         vectors that are not finite, not of one length, or have no direction
    ├── RadiusError         a radius that is negative, missing, or names no source
    ├── NotIdentifiable     the votes cannot answer the question the model asks
    ├── ParameterError      a constructor or function argument outside its range
    ├── UnknownName         a column, source, encoder or option nobody knows
    ├── FrameError          rows that are empty or not a table
    ├── StoreError          a folder or file that is missing, damaged or of another version
    │   ├── CodeError       labeling functions that do not run; it says on which line
    │   └── FileChanged     a file that somebody else has written since it was read
    ├── EndpointError       a server that cannot be reached, refuses, or may not be used
    ├── ClusterError        a cluster that cannot be reached, is lost, or does not fit the driver
    ├── NotFitted           a model used before `fit`
    └── MissingExtra        an optional dependency that is not installed

A message is one sentence of fact (who, what came, where, what was expected) and one of cure.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = [
    "AlignmentError",
    "ClusterError",
    "CodeError",
    "EndpointError",
    "EpoxyError",
    "FileChanged",
    "FrameError",
    "LabelError",
    "MissingExtra",
    "NotFitted",
    "NotIdentifiable",
    "ParameterError",
    "RadiusError",
    "StoreError",
    "UnknownName",
    "VectorError",
    "VoteError",
]


class EpoxyError(ValueError):
    """The base of every error raised on purpose; catching it catches them all."""


class VoteError(EpoxyError):
    """A vote is not one of the classes, or the votes cannot be used at all."""


class LabelError(EpoxyError):
    """A true label or a class name is not one of the known classes."""


class AlignmentError(EpoxyError):
    """Two things that should have one entry per row disagree about the number of rows."""


class VectorError(EpoxyError):
    """Vectors are not finite, differ in dimension, or have no direction under cosine distance."""


class RadiusError(EpoxyError):
    """A radius is negative or not a number, or radii and sources do not match."""


class NotIdentifiable(EpoxyError):
    """The mathematics cannot answer from these votes; a plausible number would be a guess."""


class ParameterError(EpoxyError):
    """An argument lies outside what the function can use."""


class FrameError(EpoxyError):
    """The rows are empty, or are not a table we can read."""


class StoreError(EpoxyError):
    """A folder or file is missing, damaged, or was written by another version."""


class CodeError(StoreError):
    """A file of labeling functions does not run; `line` is where, if that is known."""

    def __init__(self, reason: str, place: str = "", line: int | None = None) -> None:
        super().__init__(f"{place} fails on line {line}: {reason}" if place else reason)
        self.reason, self.place, self.line = reason, place, line

    def __reduce__(self) -> tuple[type[CodeError], tuple[str, str, int | None]]:
        return CodeError, (self.reason, self.place, self.line)


class FileChanged(StoreError):
    """A file was written by somebody else since it was read, so nothing was written over it."""


class EndpointError(EpoxyError):
    """A server that answers questions cannot be reached, refuses, or may not be used."""


class ClusterError(EpoxyError):
    """A scheduler or a worker cannot be reached, was lost, or is not as the driver is."""


class NotFitted(EpoxyError, AttributeError):
    """A model was asked for an answer before `fit`."""

    @classmethod
    def of(cls, model: object) -> NotFitted:
        """Name the model and the cure."""
        return cls(f"{type(model).__name__} is not fitted yet; call fit first")


class UnknownName(EpoxyError, KeyError):
    """A name (column, source, encoder, metric, scoring) is not one of those known."""

    __str__ = Exception.__str__  # KeyError would print the repr of the whole message

    @classmethod
    def of(cls, kind: str, name: object, known: Iterable[object], where: str = "") -> UnknownName:
        """Say which names are known and, where one is close, suggest it."""
        names = [str(each) for each in known]
        place = f" {where}" if where else ""
        shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        return cls(f"no {kind} named {name!r}{place}; {meant(name, names)}known: {shown or 'none'}")


def meant(name: object, known: Iterable[object]) -> str:
    """A question after the name that is nearly this one, with a space behind it; nothing where none is."""
    close = _closest(str(name), [str(each) for each in known])
    return f"did you mean {close!r}? " if close else ""


def few(names: Sequence[Any], most: int = 5) -> str:
    """The first of some names, and how many more there are."""
    shown = ", ".join(map(str, names[:most]))
    return shown + f" and {len(names) - most} more" * (len(names) > most)


def _closest(name: str, names: list[str]) -> str | None:
    """The name in other case, the shortest that begins so, or else the most similar one."""
    same = [each for each in names if each.casefold() == name.casefold()]
    begun = same or [each for each in names if len(name) > 1 and each.startswith(name)]
    if begun:
        return min(begun, key=len)
    return next(iter(difflib.get_close_matches(name, names, n=1)), None)


class MissingExtra(EpoxyError, ImportError):
    """An optional dependency is needed and not installed; the message is the command that cures it."""

    @classmethod
    def of(cls, who: str, needs: str, extra: str) -> MissingExtra:
        """Name who needs what, and the pip command."""
        return cls(f"{who} needs {needs}; run: pip install 'epoxy-ws[{extra}]'")
