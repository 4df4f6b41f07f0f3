"""What an answerer is told: a text file of the project, which a person edits.

`ask.toml` holds the task in words, what belongs in each class, examples, and which columns of a row are
sent. A column that is not named there never leaves the machine.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import EpoxyError, ParameterError, StoreError, UnknownName
from ..files import write_whole

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


def read_task(path: Path, classes: Sequence[str]) -> Task:
    """Read and check a task file; class names and their order are the project's."""
    try:
        raw = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise StoreError(f"{path} cannot be read: {error}; correct it there") from error
    try:
        return _task(raw, classes)
    except EpoxyError as error:
        raise type(error)(f"{path}: {error}") from None


def write_task(path: Path, classes: Sequence[str], columns: Sequence[str]) -> None:
    """Write a task file to be edited; nothing that exists is overwritten."""
    if path.exists():
        return
    text = TEMPLATE.format(
        words=_quoted(WORDS),
        columns=json.dumps(list(columns), ensure_ascii=False),
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


def _task(raw: Mapping[str, Any], classes: Sequence[str]) -> Task:
    kinds = {"task": str, "columns": list, "longest": int, "classes": dict, "examples": list}
    for key, value in raw.items():
        if key not in kinds:
            raise UnknownName.of("key", key, kinds)
        if not isinstance(value, kinds[key]) or isinstance(value, bool):
            raise StoreError(f"{key} = {value!r:.80} is of another kind than the template's")
    told, columns = raw.get("classes", {}), raw.get("columns", [])
    for name in told:
        if name not in classes:
            raise UnknownName.of("class", name, classes)
    _check_texts([*told.values(), *columns])
    if not columns or len(set(columns)) < len(columns):
        raise StoreError(f"columns = {columns} names none, or one twice; name each that is sent")
    return Task(
        {name: told.get(name, "") for name in classes},
        tuple(columns),
        raw.get("task", WORDS).strip(),
        tuple(_example(each) for each in raw.get("examples", [])),
        raw.get("longest", LONGEST),
    )


def _example(raw: Any) -> Example:
    row = raw.get("row") if isinstance(raw, dict) else None
    if not isinstance(row, dict) or not isinstance(raw.get("answer"), str):
        raise StoreError(
            f"an example is {raw!r:.80}; give it answer = a class, and row = the columns of a row"
        )
    _check_texts(row.values())
    return Example(row, raw["answer"])


def _check_texts(values: Iterable[Any]) -> None:
    for value in values:
        if not isinstance(value, str):
            raise StoreError(f"{value!r:.80} stands where a text is expected; put it in quotes")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
