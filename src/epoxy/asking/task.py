"""What an answerer is told: a text file of the project, which a person edits.

`ask.toml` holds the task in words, what belongs in each class, examples, and which columns of a row are
sent. A column that is not named there never leaves the machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ..errors import EpoxyError, ParameterError, StoreError, UnknownName
from ..storage import write_whole

FILE = "ask.toml"
UNSURE = "unsure"
"""The answer that is no class: the row does not tell."""
WORDS = "Decide which class the row belongs to."
LONGEST = 8_000

TEMPLATE = """\
# What a language model is told, and what of each row it is sent. Everything here is yours to edit.

task = {words}

columns = {columns}   # only these leave the machine
longest = {longest}   # characters of a cell; longer ones are cut

[classes]   # say in a sentence or two what belongs in each
{classes}

# [[examples]]   # a few that are easy to get wrong
# answer = {first}
# row = {{ {cells} }}
"""


@dataclass(frozen=True)
class Example:
    """A row with its right answer."""

    row: Mapping[str, str]
    answer: str


@dataclass(frozen=True)
class Task:
    """The task in words, the classes with their definitions, examples, and the columns that are sent."""

    classes: Mapping[str, str]
    columns: tuple[str, ...]
    words: str = WORDS
    examples: tuple[Example, ...] = ()
    longest: int = LONGEST

    def __post_init__(self) -> None:
        if UNSURE in self.classes:
            raise ParameterError(
                f"a class is named {UNSURE!r}, which is the answer for rows that do not tell; "
                "give the class another name"
            )
        if not self.columns or len(set(self.columns)) < len(self.columns):
            raise ParameterError(
                f"columns = {list(self.columns)} names none, or one twice; name each that is sent"
            )
        if self.longest < 1:
            raise ParameterError(f"longest is {self.longest}; let a cell have 1 character or more")
        for each in self.examples:
            if each.answer not in self.choices:
                raise UnknownName.of("class", each.answer, self.choices)
            for column in each.row:
                if column not in self.columns:
                    raise UnknownName.of("column that is sent", column, self.columns)

    @property
    def choices(self) -> tuple[str, ...]:
        """The answers there are: the classes, and unsure."""
        return (*self.classes, UNSURE)

    @property
    def described(self) -> bool:
        """Whether somebody said what belongs in the classes, or what the task is."""
        return self.words.strip() != WORDS or any(map(str.strip, self.classes.values()))

    def cells(self, row: Mapping[str, str]) -> dict[str, str]:
        """What is sent of a row; long cells are cut, and empty ones left out."""
        found = {}
        for column in self.columns:
            if column not in row:
                raise UnknownName.of("column", column, row)
            text = row[column]
            cut = len(text) > self.longest
            if text:
                found[column] = f"{text[: self.longest]} […]" if cut else text
        return found


class _File(msgspec.Struct, forbid_unknown_fields=True):
    columns: list[str]
    task: str = WORDS
    longest: Annotated[int, msgspec.Meta(ge=1)] = LONGEST
    classes: dict[str, str] = {}
    examples: list[Example] = []


def read_task(path: Path, classes: Sequence[str]) -> Task:
    """Read and check a task file; class names and their order are the project's."""
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=_File)
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path} cannot be read: {error}; correct it there") from error
    try:
        for name in found.classes:
            if name not in classes:
                raise UnknownName.of("class", name, classes)
        told = {name: found.classes.get(name, "") for name in classes}
        columns, examples = tuple(found.columns), tuple(found.examples)
        return Task(told, columns, found.task.strip(), examples, found.longest)
    except EpoxyError as error:
        raise type(error)(f"{path}: {error}") from None


def write_task(path: Path, classes: Sequence[str], columns: Sequence[str]) -> None:
    """Write a task file to be edited; nothing that exists is overwritten."""
    if path.exists():
        return
    text = TEMPLATE.format(
        words=_quoted(WORDS),
        columns=_quoted(list(columns)),
        longest=LONGEST,
        classes="\n".join(f'{_quoted(name)} = ""' for name in classes),
        first=_quoted(classes[0]),
        cells=", ".join(f'{_quoted(name)} = "…"' for name in columns),
    )
    try:
        write_whole(path, text.encode("utf-8", "surrogatepass"))
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written ({error.strerror}); make the project folder writable"
        ) from error


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
