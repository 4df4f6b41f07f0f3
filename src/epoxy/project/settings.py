"""A project folder: everything a person wrote, legible without us.

epoxy.toml    which rows, which columns, which classes, which encoder, which model
lfs.py        the labeling functions
labels/       what `epoxy label` wrote
.epoxy/       what can be made again (votes, vectors, neighbours), and the log of decisions
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import EpoxyError, ParameterError, StoreError, UnknownName
from ..loans import Neighbours, check_neighbours
from ..neighbors import Settings

FILE = "epoxy.toml"

KEYS: dict[str, dict[str, tuple[type, ...]]] = {
    "rows": dict.fromkeys(
        ("file", "id", "label", "dev", "sequence", "position", "chosen", "by"), (str,)
    ),
    "classes": {"names": (list,), "positive": (str,)},
    "votes": {"file": (str,)},
    "vectors": {
        "encoder": (str,),
        "metric": (str,),
        "column": (str,),
        "mentions": (list,),
        "dev": (str,),
        "ids": (str,),
        "neighbours": (str,),
        "recall": (int, float),
    },
    "model": {
        "kind": (str,),
        "scoring": (str,),
        "radius": (int, float, str, dict),
        "balance": (list, dict),
        "label_model": (str,),
        "solve": (str,),
        "length": (int,),
    },
    "limits": {"seconds": (int, float), "memory": (int, float)},
    "labellers": {},
}
"""The keys of each section and what may be written there; labellers are called as they are."""
_WORDS = {str: "a text", list: "a list", int: "a whole number", float: "a number", dict: "a table"}

MODELS: dict[str, frozenset[str]] = {
    "fusion": frozenset({"scoring", "radius", "balance"}),
    "epoxy": frozenset({"radius", "balance", "label_model", "solve", "length"}),
}
"""The settings each kind of model reads."""
LABEL_MODELS: dict[str, frozenset[str]] = {
    "triplet": frozenset({"solve", "balance"}),
    "majority": frozenset({"balance"}),
    "dawid-skene": frozenset({"balance"}),
    "chain": frozenset({"solve", "length", "balance"}),
}
GIBIBYTE = 2**30
FILES = (".npy", ".parquet")
"""What vectors come in that were made elsewhere."""


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
    chosen: str | None = None
    by: str | None = None
    encoder: str = "auto"
    metric: str = "cosine"
    column: str | None = None
    mentions: tuple[str, ...] = ()
    positive: str | None = None
    model: str = "fusion"
    dev_vectors: Path | None = None
    vector_ids: Path | None = None
    votes: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    labellers: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 60.0
    memory: int = 4 * GIBIBYTE
    neighbours: Neighbours = "auto"

    @classmethod
    def read(cls, folder: str | Path) -> Project:
        """Read and check `epoxy.toml`."""
        home = Path(folder)
        path = home / FILE
        try:
            text = path.read_text("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            if home.is_file():
                raise StoreError(
                    f"{home} is a file, and a project is a folder; make one of its rows with: "
                    f"epoxy new {home.with_suffix('')} --rows {home}"
                ) from None
            raise StoreError(
                f"{home} is not a project folder: no {FILE} in it; "
                f"make one with: epoxy new {home} --rows FILE"
            ) from None
        except (UnicodeDecodeError, OSError) as error:
            raise StoreError(f"{path} cannot be read: {error}; correct it there") from error
        return cls.of(home, text)

    @classmethod
    def of(cls, home: Path, text: str) -> Project:
        """The settings that a file `epoxy.toml` with this text would hold, checked."""
        path = home / FILE
        raw = _parsed(text, path)
        _check_keys(raw, path)
        rows, vectors, classes = (raw.get(name, {}) for name in ("rows", "vectors", "classes"))
        model, limits = raw.get("model", {}), raw.get("limits", {})
        if "file" not in rows:
            raise StoreError(f'{path} names no rows; add file = "…" under [rows]')
        if "position" in rows and "sequence" not in rows:
            raise StoreError(
                f"{path} names positions and no sequences they are in; "
                'add sequence = "…" under [rows], or take position out'
            )
        names = list(map(str, classes.get("names", [])))
        if len(names) < 2 or len(set(names)) < len(names) or not all(map(str.strip, names)):
            raise StoreError(
                f"{path} names {len(names)} classes ({names}); "
                "give at least 2, all different and none empty, under [classes]"
            )
        made = cls(
            folder=home,
            rows=home / rows["file"],
            classes=tuple(names),
            dev=_beside(home, rows.get("dev")),
            encoder=_encoder(home, vectors.get("encoder", "auto")),
            metric=vectors.get("metric", "cosine"),
            column=vectors.get("column"),
            mentions=tuple(vectors.get("mentions", ())),
            positive=classes.get("positive"),
            model=model.get("kind", "fusion"),
            dev_vectors=_beside(home, vectors.get("dev")),
            vector_ids=_beside(home, vectors.get("ids")),
            votes=_beside(home, raw.get("votes", {}).get("file")),
            options={key: value for key, value in model.items() if key != "kind"},
            labellers=_labellers(raw.get("labellers", {}), path),
            neighbours=_neighbours(vectors, path),
            seconds=float(limits.get("seconds", 60)),
            memory=int(limits.get("memory", 4) * GIBIBYTE),
            **{
                name: rows.get(name)
                for name in ("id", "label", "sequence", "position", "chosen", "by")
            },
        )
        made.check()
        return made

    def check(self) -> None:
        """Refuse settings that no model or encoder could use, before anything is computed."""
        from ..encoders import resolve
        from ..neighbors.metrics import metric_named

        try:
            metric_named(self.metric)
            check_neighbours(self.neighbours)
            if not self.encoder.endswith(FILES) and self.vector_column is None and self.embeds:
                resolve(self.encoder, cache=False)
            self._check_joined()
            if self.positive is not None and self.positive not in self.classes:
                raise UnknownName.of("class", self.positive, self.classes)
            self.make_model()
        except EpoxyError as error:
            raise type(error)(f"{self.folder / FILE}: {error}") from None

    def _check_joined(self) -> None:
        """Refuse files that are to be joined by an id that is not there, or in two ways at once."""
        apart = self.votes is not None or self.encoder.endswith(".parquet")
        if self.id is None and (apart or self.vector_ids is not None):
            raise StoreError(
                "votes and vectors in files of their own are joined by id, and [rows] "
                'names no id; add id = "…"'
            )
        if self.vector_ids is None:
            return
        if not self.encoder.endswith(".npy"):
            raise StoreError(
                "ids under [vectors] says whose the vectors of a .npy file are, and encoder is "
                f"{self.encoder!r}; take ids out"
            )
        if self.dev_vectors is not None:
            raise StoreError(
                "ids under [vectors] finds the vectors of the dev file's rows too, and dev names "
                "another file for them; take one of the two out"
            )

    def make_model(self, kind: str | None = None) -> Any:
        """The model that labels the rows; a setting it does not read is an error."""
        chosen = self.model if kind is None else kind
        if chosen not in MODELS:
            raise UnknownName.of("model", chosen, MODELS)
        options = dict(self.options) if kind in (None, self.model) else self._shared(chosen)
        for key in options:
            if key not in MODELS[chosen]:
                raise ParameterError(
                    f"[model] of {self.folder / FILE} sets {key}, which {chosen} does not read; "
                    f"it reads {sorted(MODELS[chosen])}: take {key} out, or choose another kind"
                )
        return self._fusion(options) if chosen == "fusion" else self._epoxy(options)

    def _shared(self, kind: str) -> dict[str, Any]:
        return {key: value for key, value in self.options.items() if key in MODELS[kind]}

    def _fusion(self, options: Mapping[str, Any]) -> Any:
        from ..fusion import Fusion

        default = "accuracy" if self.positive is None else "f1"
        return Fusion(
            scoring=options.get("scoring", default),
            positive=self.positive,
            metric=self.metric,
            radius=options.get("radius", "auto"),
            class_balance=options.get("balance"),
        ).checked(self.classes)

    def _epoxy(self, options: Mapping[str, Any]) -> Any:
        from ..model import Epoxy

        named = options.get("label_model")
        name = named or ("chain" if self.sequence is not None else "triplet")
        if name not in LABEL_MODELS:
            raise UnknownName.of("label model", name, LABEL_MODELS)
        about = {key: options[key] for key in ("solve", "length", "balance") if key in options}
        for key in about:
            if key not in LABEL_MODELS[name]:
                raise ParameterError(
                    f"[model] of {self.folder / FILE} sets {key}, which the label model {name} does "
                    f"not read; it reads {sorted(LABEL_MODELS[name])}: take {key} out"
                )
        made = None
        if named is not None or about or name == "chain":
            made = _label_model(name, about, self.classes)
        return Epoxy(made, options.get("radius"), metric=self.metric)

    @property
    def embeds(self) -> bool:
        """Whether rows have vectors at all."""
        return self.encoder not in ("", "none")

    @property
    def naming(self) -> tuple[str | None, ...]:
        """The columns whose cells are names: of rows, classes and sequences."""
        return self.id, self.label, self.sequence

    @property
    def vector_column(self) -> str | None:
        """The column of the rows that holds their vectors, where there is one."""
        kind, _, name = self.encoder.partition(":")
        return name if kind == "column" and name else None

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


def _label_model(name: str, about: dict[str, Any], classes: tuple[str, ...]) -> Any:
    from ..label_models import DawidSkene, MajorityVote, Triplet
    from ..sequences import Chain
    from ..shares import checked_shares

    given = dict(about)
    balance = given.pop("balance", None)
    shares = None if balance is None else checked_shares(balance, classes, "[model]").tolist()
    kinds: dict[str, Any] = {
        "triplet": Triplet,
        "majority": MajorityVote,
        "dawid-skene": DawidSkene,
        "chain": Chain,
    }
    return kinds[name](class_balance=shares, **given)


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise StoreError(f"{path} cannot be read: {error}; correct it there") from error


def _check_keys(raw: Mapping[str, Any], path: Path) -> None:
    for section, values in raw.items():
        if section not in KEYS:
            raise UnknownName.of(f"section in {path}", section, KEYS)
        if not isinstance(values, dict):
            raise StoreError(f"{path} sets {section} = {values!r}; write a section: [{section}]")
        if section == "labellers":
            continue
        for key, value in values.items():
            if key not in KEYS[section]:
                raise UnknownName.of(f"key in [{section}] of {path}", key, sorted(KEYS[section]))
            kinds = KEYS[section][key]
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise StoreError(
                    f"{path} sets {key} = {value!r} under [{section}]; "
                    f"expected {' or '.join(_WORDS[kind] for kind in kinds)}"
                )


def _labellers(raw: Mapping[str, Any], path: Path) -> dict[str, float]:
    for name, value in raw.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise StoreError(
                f"{path} sets {name} = {value!r} under [labellers]; "
                "give the share of its labels that are right, above 0 and up to 1"
            )
    return {name: float(value) for name, value in raw.items()}


def _neighbours(vectors: Mapping[str, Any], path: Path) -> Neighbours:
    """How neighbours are found; a recall is read where they are approximate."""
    kind: str = vectors.get("neighbours", "auto")
    if "recall" not in vectors:
        return kind
    if kind != "approximate":
        raise StoreError(
            f"{path} sets recall under [vectors], which is read only with "
            'neighbours = "approximate"; add that, or take recall out'
        )
    try:
        return Settings(recall=float(vectors["recall"]))
    except ParameterError as error:
        raise StoreError(f"{path}: {error}") from None


def _beside(home: Path, value: str | None) -> Path | None:
    return None if value is None else home / value


def _encoder(home: Path, encoder: str) -> str:
    return str(home / encoder) if encoder.endswith(FILES) else encoder
