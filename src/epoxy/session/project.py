"""A project folder: everything a person wrote, legible without us.

epoxy.toml    which rows, which columns, which classes, which encoder
lfs.py        the labeling functions
labels/       what `epoxy label` wrote
.epoxy/       what can be made again (votes, vectors, neighbours), and state.sqlite
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tomllib
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import EpoxyError, FrameError, StoreError, UnknownName

__all__ = ["Project", "label_of", "new_project", "read_rows"]

FILE = "epoxy.toml"

TEMPLATE = """\
# What to label, and how. Everything here is yours to edit.

[rows]
file = {file}
{optional}
[classes]
names = {classes}
{positive}
[vectors]
encoder = {encoder}   # lsa, text, pair, image (or text:MODEL, …), or a .npy file with a vector per row
metric = "cosine"
{column}
[model]
kind = "{kind}"   # fusion uses votes, vectors and true labels together; epoxy is the paper's pipeline
"""

LFS = '''\
"""Labeling functions: each looks at a row and names a class, or returns None to abstain.

Save this file while `epoxy watch` runs and see what every edit changes.
"""

import epoxy

{examples}
'''


@dataclass(frozen=True)
class Project:
    """The settings of a project folder, checked."""

    folder: Path
    rows: Path
    classes: tuple[str, ...]
    id: str | None = None
    label: str | None = None
    dev: Path | None = None
    sequence: str | None = None
    position: str | None = None
    encoder: str = "lsa"
    metric: str = "cosine"
    column: str | None = None
    mentions: tuple[str, ...] = ()
    positive: str | None = None
    model: str = "fusion"
    dev_vectors: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: str | Path) -> Project:
        """Read and check `epoxy.toml`."""
        home = Path(folder)
        path = home / FILE
        try:
            raw = tomllib.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise StoreError(
                f"{home} is not a project folder: no {FILE} in it; "
                f"make one with: epoxy new {home} --rows FILE"
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise StoreError(f"{path} cannot be read: {error}; correct it there") from error
        _check_keys(raw, path)
        rows, vectors = raw.get("rows", {}), raw.get("vectors", {})
        names = raw.get("classes", {}).get("names", [])
        if "file" not in rows:
            raise StoreError(f'{path} names no rows; add file = "…" under [rows]')
        if not isinstance(names, list) or len(names) < 2:
            raise StoreError(f"{path} names {len(names)} classes; give at least 2 under [classes]")

        def beside(value: str | None) -> Path | None:
            return None if value is None else (home / value)

        return cls(
            folder=home,
            rows=home / rows["file"],
            classes=tuple(map(str, names)),
            id=rows.get("id"),
            label=rows.get("label"),
            dev=beside(rows.get("dev")),
            sequence=rows.get("sequence"),
            position=rows.get("position"),
            encoder=_encoder(home, vectors.get("encoder", "lsa")),
            metric=vectors.get("metric", "cosine"),
            column=vectors.get("column"),
            mentions=tuple(vectors.get("mentions", ())),
            positive=raw.get("classes", {}).get("positive"),
            model=raw.get("model", {}).get("kind", "fusion"),
            dev_vectors=beside(vectors.get("dev")),
            options={k: v for k, v in raw.get("model", {}).items() if k != "kind"},
        )

    @property
    def encoded(self) -> str | list[str] | None:
        """What the encoder reads of a row: a column, or for pairs a text and what it mentions."""
        if not self.mentions or self.column is None:
            return self.column
        return [self.column, *self.mentions]

    @property
    def cache(self) -> Path:
        """Where what can be made again is kept."""
        return self.folder / ".epoxy"

    @property
    def labels(self) -> Path:
        """Where labels are written."""
        return self.folder / "labels"

    def load_lfs(self) -> list[Any]:
        """Run `lfs.py` and return its labeling functions in the order they are written."""
        path = self.folder / "lfs.py"
        if not path.is_file():
            raise StoreError(f"{self.folder} has no lfs.py; write your labeling functions there")
        module = _run(path)
        return _functions_of(module, path)


_KEYS = {
    "rows": {"file", "id", "label", "dev", "sequence", "position"},
    "classes": {"names", "positive"},
    "vectors": {"encoder", "metric", "column", "mentions", "dev"},
    "model": {"kind", "label_model", "solve", "radius", "balance", "length"},
}


def _check_keys(raw: Mapping[str, Any], path: Path) -> None:
    for section, values in raw.items():
        if section not in _KEYS:
            raise UnknownName.of(f"section in {path}", section, _KEYS)
        for key in values:
            if key not in _KEYS[section]:
                raise UnknownName.of(f"key in [{section}] of {path}", key, sorted(_KEYS[section]))


def _encoder(home: Path, encoder: str) -> str:
    return str(home / encoder) if encoder.endswith(".npy") else encoder


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
    table = read_rows(file)
    _check_columns(table, file, given)
    label = given.get("label") or ("label" if "label" in table.column_names else None)
    found = classes or _classes_in(table, label)
    if not found or len(found) < 2:
        raise FrameError(f"{file} shows no classes to choose from; name them: --classes ham,spam")
    home.mkdir(parents=True, exist_ok=True)
    id_ = given.get("id") or ("id" if "id" in table.column_names else None)
    text = given.get("column") or _text_column(table, {id_, label})
    optional = {
        "id": id_,
        "label": label,
        "dev": _relative(given.get("dev"), home),
        "sequence": given.get("sequence"),
        "position": given.get("position"),
    }
    content = TEMPLATE.format(
        file=_quoted(_relative(str(file), home) or ""),
        optional="".join(f"{k} = {_quoted(v)}\n" for k, v in optional.items() if v),
        classes=json.dumps(list(found), ensure_ascii=False),
        positive=f"positive = {_quoted(given['positive'])}\n" if given.get("positive") else "",
        encoder=_quoted(given.get("encoder") or "lsa"),
        column=f"column = {_quoted(text)}\n" if text else "",
        kind=given.get("kind") or "fusion",
    )
    (home / FILE).write_text(content, "utf-8")
    if not (home / "lfs.py").exists():
        (home / "lfs.py").write_text(lfs or LFS.format(examples=_examples(found, text)), "utf-8")
    (home / "labels").mkdir(exist_ok=True)
    return Project.read(home)


def read_rows(path: str | Path) -> Any:
    """Read rows as a pyarrow table from .parquet, .csv, .tsv, .jsonl or .json lines."""
    import pyarrow as pa

    file = Path(path)
    readers = {
        ".parquet": _read_parquet,
        ".csv": lambda p: _read_csv(p, ","),
        ".tsv": lambda p: _read_csv(p, "\t"),
        ".jsonl": _read_jsonl,
        ".ndjson": _read_jsonl,
    }
    if file.suffix not in readers:
        raise UnknownName.of("kind of rows file", file.suffix or str(file), readers)
    try:
        table = readers[file.suffix](file)
    except FileNotFoundError:
        raise StoreError(f"there is no file {file}; check the path under [rows]") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeDecodeError, OSError) as error:
        raise StoreError(f"{file} cannot be read as {file.suffix}: {error}") from error
    if table.num_rows == 0:
        raise FrameError(f"{file} has no rows; give at least one row to label")
    return table


def _read_parquet(path: Path) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path)


def _read_csv(path: Path, delimiter: str) -> Any:
    import pyarrow.csv

    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    return pyarrow.csv.read_csv(path, parse_options=parse)


def _read_jsonl(path: Path) -> Any:
    import pyarrow.json

    return pyarrow.json.read_json(path)


def _check_columns(table: Any, file: Path, given: Mapping[str, str | None]) -> None:
    for key in ("id", "label", "column", "sequence", "position"):
        name = given.get(key)
        if name is not None and name not in table.column_names:
            raise UnknownName.of(f"column of {file}", name, table.column_names)


def _classes_in(table: Any, label: str | None) -> list[str]:
    if label is None:
        return []
    values = table.column(label).to_pylist()
    return sorted({name for value in values if (name := label_of(value)) is not None})


def label_of(value: Any) -> str | None:
    """A cell of the label column as a class name; an empty cell of a CSV file is no label."""
    return None if value is None or value != value or str(value).strip() == "" else str(value)


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


def _relative(path: str | None, home: Path) -> str | None:
    if path is None:
        return None
    target, base = Path(path).resolve(), home.resolve()
    # inside or next to the project a relative path survives moving both
    if target.is_relative_to(base.parent):
        return str(Path(*([".."] if not target.is_relative_to(base) else []), *_tail(target, base)))
    return str(target)


def _tail(target: Path, base: Path) -> tuple[str, ...]:
    anchor = base if target.is_relative_to(base) else base.parent
    return target.relative_to(anchor).parts


def _quoted(text: str | None) -> str:
    return json.dumps(text or "", ensure_ascii=False)


def _examples(classes: Sequence[str], column: str | None) -> str:
    text = column or "text"
    return "\n".join(
        f'# epoxy.keywords({name!r}, "a word", "another", column={text!r}, name="{_slug(name)}_words")'
        for name in classes
    ) + (
        "\n\n\n# @epoxy.labeling_function\n# def short(row):\n"
        f"#     return {classes[0]!r} if len(row.{text}) < 20 else None\n"
        "\n# What is assigned to a name at the top level counts:\n"
        f'# {_slug(classes[-1])}_words = epoxy.keywords({classes[-1]!r}, "a word", column={text!r})\n'
    )


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name.lower()).strip("_") or "class"


def _run(path: Path) -> Any:
    """Execute a file as a fresh module, so that an edit never sees yesterday's names."""
    name = f"epoxy_lfs_{abs(hash(str(path.resolve())))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise StoreError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    # bytecode is keyed by modification time in seconds: two saves within one would look the same
    dont_write, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        source = path.read_text("utf-8")
        exec(compile(source, str(path), "exec"), module.__dict__)
    except EpoxyError:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)
        line = next((f.lineno for f in reversed(where) if f.filename == str(path)), None)
        line = getattr(error, "lineno", None) or line
        raise StoreError(
            f"{path} fails on line {line}: {type(error).__name__}: {error}; correct it and try again"
        ) from error
    finally:
        sys.path.remove(str(path.parent.resolve()))
        sys.dont_write_bytecode = dont_write
    return module


def _functions_of(module: Any, path: Path) -> list[Any]:
    from ..lfs import LabelingFunction

    listed = vars(module).get("lfs")
    if isinstance(listed, list | tuple):
        found = list(listed)
    else:
        found = [value for value in vars(module).values() if _is_function(value, LabelingFunction)]
    unique = list({id(each): each for each in found}.values())
    if not unique:
        raise StoreError(
            f"{path} defines no labeling functions; decorate one with @epoxy.labeling_function"
        )
    return unique


def _is_function(value: Any, protocol: Any) -> bool:
    if isinstance(value, type):
        return False
    snorkel = (
        callable(value) and hasattr(value, "_pre") and isinstance(getattr(value, "name", 0), str)
    )
    return isinstance(value, protocol) or snorkel
