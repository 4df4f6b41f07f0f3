"""Make a project folder around a file of rows; all that can be known then is checked then."""

from __future__ import annotations

import json
import keyword
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..encoders import are_images, choose
from ..errors import FrameError, LabelError, StoreError, UnknownName, few
from ..storage import write_whole
from ..votes import RANDOM
from .read import ProjectRows, read_project
from .settings import FILE, Project
from .tables import label_of, read_rows

TEMPLATE = """\
# What to label, and how. Everything here is yours to edit.

[rows]
file = {file}
{optional}
[classes]
names = {classes}
{positive}
[vectors]
encoder = {encoder}   # auto, static, lsa, text, pair, image (or text:MODEL, …), or a .npy file
metric = "cosine"
{column}
[model]
kind = {kind}   # fusion uses votes, vectors and true labels together; epoxy is the paper's pipeline
"""

OPTIONAL = ("id", "label", "dev", "chosen", "sequence", "position")
NOTES = {"sequence": "   # rows stand in order: labels use what comes before and after"}

LFS = '''\
"""Labeling functions: each looks at a row and names a class, or returns None to abstain.

Save this file while `epoxy watch` runs and see what every edit changes.
"""

import epoxy

{examples}
'''


def new_project(
    folder: str | Path,
    rows: str | Path,
    *,
    classes: Sequence[str] | None = None,
    options: Mapping[str, str | None] | None = None,
    lfs: str | None = None,
) -> Project:
    """Write a project folder around a file of rows; nothing that exists is overwritten.

    `options` are the keys of `epoxy.toml` by name: id, label, dev, sequence, encoder, column,
    positive, kind.
    """
    home, file = Path(folder), Path(rows)
    if (home / FILE).exists():
        raise StoreError(f"{home} is a project already; choose another folder")
    given = dict(options or {})
    naming = (given.get("id") or "id", given.get("label") or "label")
    table = read_rows(file, naming=naming)
    apart = None if given.get("dev") is None else read_rows(given["dev"] or "", naming=naming)
    _fill_in(given, table, file, apart)
    found = list(classes or _classes_in(table if apart is None else apart, given["label"]))
    if classes and len(found) < 2:
        raise FrameError(
            f"--classes names {found[0]!r} alone; name at least two: --classes ham,spam"
        )
    if len(found) < 2:
        where, labelled = (file, table) if apart is None else (given["dev"], apart)
        raise FrameError(_no_classes(where, given["label"], labelled.column_names, found))
    content = _settings(home, file, found, given)
    made = not home.exists()
    try:
        home.mkdir(parents=True, exist_ok=True)
        project = Project.of(home, content)
        _check_dev(project, read_project(project), table)
        if not (home / "lfs.py").exists():
            source = lfs or LFS.format(examples=_examples(found, given["column"]))
            write_whole(home / "lfs.py", source.encode())
        project.labels.mkdir(exist_ok=True)
        write_whole(home / FILE, content.encode())  # last: without it there is no project
    except BaseException as error:
        if made:
            shutil.rmtree(home, ignore_errors=True)
        if isinstance(error, OSError):
            raise StoreError(
                f"{home} cannot be written ({error.strerror}); choose another folder"
            ) from error
        raise
    return project


def _no_classes(file: Any, label: str | None, columns: Sequence[str], found: Sequence[str]) -> str:
    """That a file does not say between which classes to choose, and how to."""
    if label is not None:
        shown = f"only {found[0]!r}" if found else "no class"
        return f"{file} shows {shown} in its column {label!r}; name all: --classes ham,spam"
    return (
        f"{file} shows no classes to choose from, since it has no column 'label'; name the column that "
        f"has them (--label, one of {few(columns, 10)}), or the classes: --classes ham,spam"
    )


def _check_dev(project: Project, rows: ProjectRows, table: Any) -> None:
    """Refuse a dev file without labels, which could neither teach nor score."""
    if project.dev is None or any(each is not None for each in np.asarray(rows.y[1])):
        return
    swapped = bool(
        _classes_in(table, project.label if project.label in table.column_names else None)
    )
    cure = "swap the two files" if swapped else "label some of its rows, or leave it out"
    raise LabelError(
        f"no row of the dev file {project.dev} has a label"
        + (f", and rows of {project.rows} do" if swapped else "")
        + f"; {cure}"
    )


def _fill_in(given: dict[str, str | None], table: Any, file: Path, apart: Any) -> None:
    """Complete the columns that were not named by those usual names that are there."""
    labelled = table if apart is None else apart
    for key in ("id", "label", "column", "sequence", "position"):
        name, (where, path) = given.get(key), (table, file)
        if key == "label" and apart is not None:
            where, path = apart, Path(given["dev"] or "")
        if name is not None and name not in where.column_names:
            raise UnknownName.of(f"column of {path}", name, where.column_names)
    how = given.get("chosen")
    if how not in (None, RANDOM, *labelled.column_names):
        raise UnknownName.of(
            "column or word for --chosen", how or "", (RANDOM, *labelled.column_names)
        )
    both = set(table.column_names) & set(labelled.column_names)
    given["id"] = given.get("id") or ("id" if "id" in both else None)
    given["label"] = given.get("label") or ("label" if "label" in labelled.column_names else None)
    given["column"] = given.get("column") or _text_column(table, {given["id"], given["label"]})
    given["encoder"] = given.get("encoder") or _encoder_for(table, given["column"])


def _encoder_for(table: Any, column: str | None) -> str:
    """The encoder of rows where none was named: of images the one that is here, of numbers none."""
    if column is None:
        return "none"
    if are_images(table.column(column).slice(0, 100).to_pylist()):
        return choose(images=True).encoder
    return "auto"


def _settings(home: Path, file: Path, classes: list[str], given: Mapping[str, str | None]) -> str:
    """The text of `epoxy.toml`."""
    optional = {name: given.get(name) for name in OPTIONAL}
    optional["dev"] = relative(optional["dev"], home)
    positive, column = given.get("positive"), given.get("column")
    return TEMPLATE.format(
        file=quoted(relative(str(file), home)),
        optional="".join(
            f"{key} = {quoted(name)}{NOTES.get(key, '')}\n"
            for key, name in optional.items()
            if name
        ),
        classes=json.dumps(classes, ensure_ascii=False),
        positive=f"positive = {quoted(positive)}\n" if positive else "",
        encoder=quoted(_encoder(given["encoder"] or "auto", home)),
        column=f"column = {quoted(column)}\n" if column else "",
        kind=quoted(given.get("kind") or "fusion"),
    )


def _classes_in(table: Any, label: str | None) -> list[str]:
    if label is None:
        return []
    values = table.column(label).to_pylist()
    return sorted({name for value in values if (name := label_of(value)) is not None})


def _text_column(table: Any, taken: set[str | None]) -> str | None:
    """`text` if there is one, else the column of strings with the longest cells."""
    import pyarrow as pa

    if "text" in table.column_names:
        return "text"
    sizes = {}
    for name in table.column_names:
        kind = table.schema.field(name).type
        if name not in taken and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            sizes[name] = sum(
                len(value or "") for value in table.column(name).slice(0, 500).to_pylist()
            )
    return max(sizes, key=lambda name: sizes[name], default=None)


def relative(path: str | None, home: Path) -> str | None:
    """A path as epoxy.toml names it."""
    if path is None:
        return None
    target, base = Path(path).resolve(), home.resolve()
    # inside or next to the project a relative path survives moving both
    if target.is_relative_to(base.parent):
        return str(Path(*([".."] if not target.is_relative_to(base) else []), *_tail(target, base)))
    return str(target)


def _encoder(encoder: str, home: Path) -> str:
    """An encoder by name, or a file of vectors, which must be there."""
    if not encoder.endswith(".npy"):
        return encoder
    if not Path(encoder).is_file() and (home / encoder).is_file():
        return encoder
    if not Path(encoder).is_file():
        raise StoreError(f"there is no file {encoder}; check the path of the vectors")
    return relative(encoder, home) or encoder


def _tail(target: Path, base: Path) -> tuple[str, ...]:
    anchor = base if target.is_relative_to(base) else base.parent
    return target.relative_to(anchor).parts


def quoted(text: str | None) -> str:
    """A text as epoxy.toml writes it."""
    return json.dumps(text or "", ensure_ascii=False)


def with_setting(text: str, table: str, key: str, value: str) -> str:
    """A file of settings in which a key has a text for a value, all else as it is."""
    plain = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else quoted(key)
    names = f"{re.escape(plain)}|{re.escape(quoted(key))}"
    there = rf"""^([ \t]*(?:{names})[ \t]*=[ \t]*)(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
    line = f"{plain} = {quoted(value)}"
    made, n = re.subn(there, lambda at: at[1] + quoted(value), text, count=1, flags=re.M)
    if not n:
        head = rf"^[ \t]*\[{table}\].*$"
        made, n = re.subn(head, lambda at: f"{at[0]}\n{line}", text, count=1, flags=re.M)
    return made if n else f"{text.rstrip()}\n\n[{table}]\n{line}\n"


def _examples(classes: Sequence[str], column: str | None) -> str:
    text = column or "text"
    cell = f"row.{text}" if _is_name(text) else f"row[{text!r}]"
    lines = [
        f'# {name} = epoxy.keywords({each!r}, "a word", "another", column={text!r}, name="{name}")'
        for each, name in zip(classes, _names(classes))
    ]
    return "\n".join(
        [
            "# What is assigned to a name at the top level votes:",
            *lines,
            "\n\n# @epoxy.labeling_function",
            "# def short(row):",
            f"#     return {classes[0]!r} if len({cell}) < 20 else None",
        ]
    )


def _names(classes: Sequence[str]) -> list[str]:
    """A name of Python's for each class, all different."""
    found: list[str] = []
    for at, each in enumerate(classes):
        name = "".join(c if c.isalnum() else "_" for c in each.lower()).strip("_") + "_words"
        found.append(name if _is_name(name) and name not in found else f"class_{at}_words")
    return found


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)
